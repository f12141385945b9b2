"""What a shard asks of the runtime: records to append, replies and messages to send. Pure."""

from typing import Any, NamedTuple

from cluster.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID


class CoordinatorRecord(NamedTuple):
    """One record of the internal topic; a record without a value is a tombstone."""

    key: bytes
    value: bytes | None


class Append(NamedTuple):
    """Records to append to the shard's partition together, after those of every earlier append.

    The runtime reports the outcome of each append, in their order, by `Shard.on_appended`.
    """

    append_id: int
    records: tuple[CoordinatorRecord, ...]
    producer_id: int = NO_PRODUCER_ID
    """The transactional producer whose open transaction the records belong to, if any. They get a
    transactional batch of their own, with this id and epoch; others share a batch."""
    producer_epoch: int = NO_PRODUCER_EPOCH


class Answer(NamedTuple):
    """The reply to a request, by the token that the runtime passed with it."""

    token: object
    reply: object


class Effects(NamedTuple):
    """What the caller carries out at once. A reply that depends on stored records is returned by
    `Shard.on_appended` instead, so nothing in here waits."""

    appends: tuple[Append, ...] = ()
    answers: tuple[Answer, ...] = ()
    messages: tuple[Any, ...] = ()
    """For other parts of the broker, in the types of the coordinator (`Coordinator.on_message`)."""


NOTHING = Effects()
