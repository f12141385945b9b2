"""Fetch sessions of clients (KIP-227). Nothing here reads a log."""
