"""Fetch sessions of clients, and the replicas that they should read from. No logs are read."""
