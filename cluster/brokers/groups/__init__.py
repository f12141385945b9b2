"""The group coordinator of one broker: drives the shards of the partitions that it leads."""
