"""The documents in the registry: Kafka's paths and formats."""
