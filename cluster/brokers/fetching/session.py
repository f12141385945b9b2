"""One fetch session: the partitions that a client fetches, and what it was last told. Pure.

A client states its partitions once; each later request of the session states the changes, and each
answer has only partitions with data, an error, or an offset that has changed (KIP-227).
"""

from collections.abc import Callable, Hashable
from typing import Final
from uuid import UUID

from cluster.protocol.fetch_codec import FetchedPartition
from cluster.protocol.fetch_request import FetchPartition

INITIAL_EPOCH: Final = 0
"""The epoch of a full request that asks for a session."""
FINAL_EPOCH: Final = -1
"""The epoch of a full request that asks for none."""
_EPOCH_MAX: Final = 2**31 - 1

_UNKNOWN: Final = -1

Key = tuple[str | UUID | None, int]
"""A topic, by name or by id as the requests of the session have it, and a partition's number."""


def next_epoch(epoch: int) -> int:
    """The epoch of the request after this one."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == _EPOCH_MAX else epoch + 1


class CachedPartition:
    """One partition of a session."""

    __slots__ = (
        "high_watermark",
        "log_start_offset",
        "session",
        "topic",
        "topic_id",
        "turn",
        "wanted",
    )

    def __init__(
        self,
        session: "FetchSession",
        topic: str | None,
        topic_id: UUID | None,
        wanted: FetchPartition,
        turn: int,
    ) -> None:
        self.session = session
        self.topic = topic
        """None while the topic id is unknown; once found, the name is kept."""
        self.topic_id = topic_id
        self.wanted = wanted
        self.turn = turn
        """Its place in the order of reading; partitions that had data go to the end."""
        self.high_watermark = _UNKNOWN
        self.log_start_offset = _UNKNOWN

    def attempt(self) -> None:
        """More of the partition may be readable, or its role has changed."""
        session = self.session
        session.unread[self] = None
        session.on_changed(session)

    @property
    def key(self) -> Key:
        topic = self.topic if self.topic_id is None else self.topic_id
        return topic, self.wanted[0]

    def is_news(self, found: FetchedPartition) -> bool:
        """Whether an answer must contain what was found."""
        return (
            found.records_size_bytes > 0
            or found.error_code != 0
            or found.high_watermark != self.high_watermark
            or found.log_start_offset != self.log_start_offset
            or found.diverging_epoch is not None
            or found.preferred_read_replica >= 0
        )

    def on_told(self, found: FetchedPartition) -> None:
        """The client is told what was found."""
        self.high_watermark = found.high_watermark
        self.log_start_offset = found.log_start_offset
        if found.error_code != 0:
            self.high_watermark = _UNKNOWN  # so that the end of the error is news
        if found.records_size_bytes > 0:
            self.turn = self.session.take_turn()


class FetchSession:
    """Owned by the broker's thread; partitions are added and removed by `FetchSessions` only.

    Invariant: a partition that is not in `unread` was read since its last change, with nothing to
    send: neither data at the wanted offset nor an error. So an idle session is answered without a
    look at its partitions.
    """

    __slots__ = (
        "_next_turn",
        "_viewer",
        "cached_size",
        "created_ms",
        "epoch",
        "id",
        "is_asleep",
        "last_used_ms",
        "on_changed",
        "partitions",
        "unread",
        "uses_topic_ids",
    )

    def __init__(
        self,
        session_id: int,
        now_ms: int,
        on_changed: "Callable[[FetchSession], None]",
        *,
        uses_topic_ids: bool,
    ) -> None:
        """`on_changed` is called when a partition has changed."""
        self.id = session_id
        self.on_changed = on_changed
        self.uses_topic_ids = uses_topic_ids
        self.epoch = next_epoch(INITIAL_EPOCH)
        """The epoch that the next request must have."""
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.is_asleep = False
        """Whether it watches nothing, because it was long unused."""
        self.cached_size = -1
        """The number of partitions when it was last used, by which it is evicted."""
        self.partitions: dict[Key, CachedPartition] = {}
        self.unread: dict[CachedPartition, None] = {}
        """Partitions that the next request must read."""
        self._next_turn = 0
        self._viewer: Hashable = None

    def take_turn(self) -> int:
        """A place behind all others in the order of reading."""
        turn = self._next_turn
        self._next_turn = turn + 1
        return turn

    def see_as(self, viewer: Hashable) -> None:
        """The request reads as this viewer: its rights, its isolation level and so on. Whatever was
        read as another one has to be read again.
        """
        if viewer != self._viewer:
            self._viewer = viewer
            self.unread = dict.fromkeys(self.partitions.values())

    def to_read(self) -> list[CachedPartition]:
        """The partitions to read, in the order of their turns."""
        found = list(self.unread)
        if len(found) > 1:
            found.sort(key=_turn_of)
        return found

    def read_again(self, cached: CachedPartition) -> None:
        """Read the partition for the next request, unless it has left the session."""
        if self.partitions.get(cached.key) is cached:
            self.unread[cached] = None


def _turn_of(cached: CachedPartition) -> int:
    return cached.turn
