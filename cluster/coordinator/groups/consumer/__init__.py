"""The newer consumer protocol (KIP-848)."""
