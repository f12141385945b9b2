"""Compaction: selects logs, filters batches, and replaces segments with the result."""
