"""The registry: its server, what is in it, and how brokers reach it."""
