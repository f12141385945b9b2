"""Metrics that clients push (KIP-714): which of them are asked for what, and what they sent."""
