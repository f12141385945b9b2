"""What a shard of the group coordinator asks of whoever drives it."""

from typing import NamedTuple

from cluster.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID


class GroupRecord(NamedTuple):
    """One record of `__consumer_offsets`; without a value it is a tombstone."""

    key: bytes
    value: bytes | None


class Append(NamedTuple):
    """Records to append to the shard's partition together, after those of every append before it.

    The driver may put several appends into one batch if none has a producer id. It tells the
    outcome of each, in their order, by `GroupShard.on_appended`.
    """

    append_id: int
    records: tuple[GroupRecord, ...]
    producer_id: int = NO_PRODUCER_ID
    """Of a transactional producer: they belong to its transaction, in a batch of its own."""
    producer_epoch: int = NO_PRODUCER_EPOCH


class Answer(NamedTuple):
    """The reply to a request, by the token that the driver gave with it."""

    token: object
    reply: object
    """Of the type that the method which took the request names."""


class Effects(NamedTuple):
    """Orders, to be carried out at once. Replies that must wait for records come out of
    `GroupShard.on_appended`, so nothing in here waits for anything."""

    appends: tuple[Append, ...] = ()
    answers: tuple[Answer, ...] = ()


NOTHING = Effects()
