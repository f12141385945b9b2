"""Milena: a Kafka-wire-compatible cluster of real broker processes in Python."""

__version__ = "0.1.0"
