"""The partition of an internal topic that stores a group or another key. Pure.

Kafka: `GroupMetadataManager.partitionFor`, `TransactionStateManager.partitionFor`.
"""

from cluster.coordinator.shards.java_text import java_hash


def partition_of(key: str, partition_count: int) -> int:
    """The partition, 0 to `partition_count` - 1, whose leader coordinates the key.

    Kafka's `Utils.abs` returns 0 for the smallest integer, which has no positive counterpart.
    """
    value = java_hash(key)
    if value == 0x80000000:
        return 0
    return (value if value < 0x80000000 else 0x100000000 - value) % partition_count
