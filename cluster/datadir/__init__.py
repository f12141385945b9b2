"""The files in a data directory, and how its supervisor is asked."""
