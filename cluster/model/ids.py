"""Types for the numbers of a cluster, so that an offset is never mistaken for an epoch."""

import base64
import uuid
from typing import Final, NamedTuple, NewType

BrokerId = NewType("BrokerId", int)
Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)
ControllerEpoch = NewType("ControllerEpoch", int)
BrokerEpoch = NewType("BrokerEpoch", int)
"""Grows with every registration: a restarted broker has a larger one (KIP-380)."""
PartitionEpoch = NewType("PartitionEpoch", int)
"""Counts the changes of a partition's state; a conditional change must name it."""

NO_BROKER: Final = BrokerId(-1)
NO_EPOCH: Final = LeaderEpoch(-1)
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1


class TopicPartition(NamedTuple):
    """One partition of one topic; hashes and sorts like a pair."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """`orders-0`, which is also the name of its directory."""
        return f"{self.topic}-{self.partition}"


def encode_uuid(value: uuid.UUID) -> str:
    """Kafka's text form of a UUID: 22 URL-safe base64 characters without padding."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode("ascii")


def decode_uuid(text: str) -> uuid.UUID:
    """The UUID of 22 base64 characters. Raises ValueError for anything else."""
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    return uuid.UUID(bytes=raw)


def new_uuid() -> uuid.UUID:
    """A random UUID whose text does not begin with a dash, as options of commands do."""
    while True:
        value = uuid.uuid4()
        if not encode_uuid(value).startswith("-"):
            return value
