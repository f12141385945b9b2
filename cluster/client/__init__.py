"""A minimal Kafka client for the tools, for requests that confluent-kafka cannot make."""
