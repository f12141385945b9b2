"""Which partition of `__consumer_offsets` keeps a group. Pure.

Kafka: `GroupMetadataManager.partitionFor`, by Java's `String.hashCode`.
"""


def partition_of(group_id: str, partition_count: int) -> int:
    """The partition, 0 to `partition_count` - 1, whose leader coordinates the group."""
    return (java_hash(group_id) & 0x7FFFFFFF) % partition_count


def java_hash(text: str) -> int:
    """`String.hashCode`, as an unsigned number of 32 bits: over UTF-16 units, not characters."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for position in range(0, len(units), 2):
        value = (value * 31 + (units[position] << 8 | units[position + 1])) & 0xFFFFFFFF
    return value
