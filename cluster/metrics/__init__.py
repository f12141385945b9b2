"""Counters under Kafka's names and the shared-memory file that holds them; no sockets, no clock."""
