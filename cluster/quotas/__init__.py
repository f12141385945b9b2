"""Limits, usage and delays of clients. Pure: time is an argument, and there are no sockets."""
