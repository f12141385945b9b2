"""`topics`: its command, and what it asks and shows."""
