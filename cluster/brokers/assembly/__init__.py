"""Puts the parts of a broker together."""
