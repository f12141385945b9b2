"""What makes a broker: log, replication, network, handlers, and their wiring."""
