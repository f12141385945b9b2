"""`load-test`: its command, topics and quotas for it, its display."""
