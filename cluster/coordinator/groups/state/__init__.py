"""A shard's groups, members and offsets in memory."""
