"""What every kind of coordinator shares: the interface of a shard, and its requests and effects."""
