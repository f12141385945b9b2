"""Follows documents of the registry and changes them for clients."""
