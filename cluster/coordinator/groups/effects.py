"""What a shard of the group coordinator asks of whoever drives it."""

from typing import NamedTuple


class GroupRecord(NamedTuple):
    """One record of `__consumer_offsets`; without a value it is a tombstone."""

    key: bytes
    value: bytes | None


class Append(NamedTuple):
    """Records to append to the shard's partition together, after those of every append before it.

    The driver may put several appends into one batch. It tells the outcome of each, in their order,
    by `GroupShard.on_appended`.
    """

    append_id: int
    records: tuple[GroupRecord, ...]


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
