"""Which partition of `__consumer_offsets` keeps a group. Pure.

Kafka: `GroupMetadataManager.partitionFor`.
"""

from cluster.coordinator.shards.java_text import java_hash


def partition_of(group_id: str, partition_count: int) -> int:
    """The partition, 0 to `partition_count` - 1, whose leader coordinates the group.

    Kafka's `Utils.abs`: of the smallest number, which has no positive one, it is 0.
    """
    value = java_hash(group_id)
    if value == 0x80000000:
        return 0
    return (value if value < 0x80000000 else 0x100000000 - value) % partition_count
