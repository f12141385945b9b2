"""Reads the topics in a consumer's metadata and the partitions in its assignment. Pure.

Kafka: `ConsumerProtocol.deserializeSubscription`. All versions begin like version 0: version (2
bytes), count of topics (4), topics with a length of two bytes each.
"""

import struct
from typing import Final

from cluster.coordinator.groups.requests import TopicPartitions

CONSUMER: Final = "consumer"
"""The protocol type of consumers."""


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics; None if the bytes are not a subscription."""
    try:
        version, count = struct.unpack_from(">hi", metadata)
        if version < 0 or not 0 <= count <= len(metadata):
            return None
        topics = []
        position = 6
        for _ in range(count):
            (size,) = struct.unpack_from(">h", metadata, position)
            start = position + 2
            position = start + size
            if size < 0 or position > len(metadata):
                return None
            topics.append(metadata[start:position].decode())
    except (struct.error, UnicodeDecodeError):
        return None
    return frozenset(topics)


def assigned_partitions(assignment: bytes) -> tuple[TopicPartitions, ...] | None:
    """The assigned partitions; None if the bytes are not a consumer's assignment.

    Kafka: `ConsumerProtocol.deserializeAssignment`: version (2 bytes), count of topics (4), each
    with its name, a count of partitions (4) and the partitions (4 each). A member without
    partitions may have an empty assignment.
    """
    if not assignment:
        return ()
    try:
        version, count = struct.unpack_from(">hi", assignment)
        if version < 0 or not 0 <= count <= len(assignment):
            return None
        found = []
        position = 6
        for _ in range(count):
            (size,) = struct.unpack_from(">h", assignment, position)
            start = position + 2
            position = start + size
            if size < 0 or position > len(assignment):
                return None
            (partitions_count,) = struct.unpack_from(">i", assignment, position)
            if not 0 <= partitions_count <= len(assignment):
                return None
            partitions = struct.unpack_from(f">{partitions_count}i", assignment, position + 4)
            position += 4 + 4 * partitions_count
            found.append(TopicPartitions(assignment[start : start + size].decode(), partitions))
    except (struct.error, UnicodeDecodeError):
        return None
    return tuple(found)
