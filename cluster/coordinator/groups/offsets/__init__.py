"""Committed offsets: commits, expiry and deletion."""
