"""What the registry holds, and where: Kafka's paths and the documents at them."""
