"""Kafka framing, headers and messages: frames to version-free requests, responses to frames."""
