"""What a leader knows of the followers that fetch from it: their sessions and positions."""

from collections.abc import Callable, Mapping
from typing import Final

from cluster.brokers.replication.partition import Partition
from cluster.brokers.replication.replica_throttle import NO_LIMIT
from cluster.log.mmap_segment import FileIdentity
from cluster.model.ids import BrokerEpoch, BrokerId, LeaderEpoch, Offset, TopicPartition
from cluster.quotas.replication_quota import Grant
from cluster.runtime.peer_sockets import LocalConnection

_WATERMARKS_PERIOD_MS: Final = 500
"""How often followers get high watermarks without records; in Kafka, their fetch wait."""

Way = bytes | LocalConnection
"""How a request came: by ZeroMQ from this identity, or by a local connection."""


class Followed:
    """One partition in the session of one follower."""

    __slots__ = (
        "asked_bytes",
        "fetch_offset",
        "file",
        "given_offset",
        "grant",
        "handle",
        "id",
        "is_told",
        "last_fetched_epoch",
        "leader_epoch",
        "most_bytes",
        "session",
    )

    def __init__(self, session: "FollowerSession", partition_id: TopicPartition) -> None:
        self.session = session
        self.id = partition_id
        self.handle = -1
        """Stands for the partition in compact messages."""
        self.leader_epoch = LeaderEpoch(-1)
        self.fetch_offset = Offset(-1)
        self.last_fetched_epoch = LeaderEpoch(-1)
        self.is_told = False
        """It was answered, and its new position was not reported since."""
        self.given_offset = -1
        """The offset of the first record that was last sent; -1 if none was."""
        self.file: FileIdentity | None = None
        """The segment file that was named to the follower last."""
        self.asked_bytes = NO_LIMIT
        """The bytes that the follower wants at most."""
        self.most_bytes = NO_LIMIT
        """The bytes that the next answer may contain; 0 while the partition is held back."""
        self.grant: Grant | None = None
        """The bytes that the leader's quota has reserved for the next answer."""


class FollowerSession:
    """What one follower wants, and the request of it that is parked."""

    __slots__ = (
        "behind",
        "broker_epoch",
        "by_file",
        "by_handle",
        "follower",
        "heard_at_ms",
        "held",
        "identity",
        "max_bytes",
        "max_wait_ms",
        "number",
        "parked_until_ms",
        "partitions",
        "ready",
        "sequence",
        "tell_watermarks_at_ms",
        "way",
    )

    def __init__(self, follower: BrokerId, identity: bytes, number: int) -> None:
        self.follower = follower
        self.identity = identity
        self.number = number
        self.sequence = 0
        self.partitions: dict[TopicPartition, Followed] = {}
        self.by_handle: dict[int, Followed] = {}
        self.ready: dict[Followed, None] = {}
        """Partitions with something to send: data beyond the follower's position, or an error."""
        self.held: dict[Followed, None] = {}
        """Partitions with records that the leader's quota holds back, in the order of their turns.
        """
        self.behind: set[Followed] = set()
        """Partitions whose high watermark or log start has moved since the follower last got it."""
        self.tell_watermarks_at_ms = 0
        self.heard_at_ms = 0
        self.parked_until_ms: int | None = None
        self.max_wait_ms = 0
        self.max_bytes = 0
        self.by_file = False
        self.broker_epoch = BrokerEpoch(-1)
        """The epoch of the follower's registration in its last full request."""
        self.way: Way = identity
        """The way by which the last request came."""

    def tell_watermarks(self, now_ms: int) -> None:
        """Make ready what has moved since the follower last got it, unless that was just now."""
        if self.tell_watermarks_at_ms <= now_ms:
            self.tell_watermarks_at_ms = now_ms + _WATERMARKS_PERIOD_MS
            behind = [followed for followed in self.behind if not followed.is_told]
            behind.sort(key=lambda followed: followed.id)
            self.ready.update(dict.fromkeys(behind))


def tell_at_once(
    watchers: Mapping[BrokerId, Followed],
    partition: Partition | None,
    answer: Callable[[FollowerSession], None],
) -> None:
    """Answer the followers that have every record; the others get the offsets with records."""
    if partition is None:
        return
    end = partition.log.log_end_offset
    for followed in watchers.values():
        if followed.fetch_offset == end and not followed.is_told:
            session = followed.session
            session.ready[followed] = None
            if session.parked_until_ms is not None:
                answer(session)
