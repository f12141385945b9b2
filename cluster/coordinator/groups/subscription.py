"""The topics that a consumer's metadata names. Pure.

Kafka: `ConsumerProtocol.deserializeSubscription` in its version 0, with which every later one
begins: version (2 bytes), count of topics (4), each with a length of two bytes.
"""

import struct
from typing import Final

CONSUMER: Final = "consumer"
"""The protocol type whose metadata is known here."""


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics; None if these are not the bytes of a subscription."""
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
