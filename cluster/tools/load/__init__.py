"""`load-test`: its command, topics, quotas and display."""
