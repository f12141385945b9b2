"""What coordinates brokers and clients: registry, controller, later groups and transactions."""
