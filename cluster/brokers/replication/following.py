"""What a follower knows of the partitions that it fetches, and which of them are throttled.

The follower's quota works as in Kafka: while it is exceeded, throttled partitions that are not in
sync are left out of the fetches. A request states how many bytes the answer may contain, so that
it uses what may move and hardly more. A partition whose leader does not know its position yet is
fetched even so, without records: the answer says whether it is in sync.
"""

from collections.abc import Container
from typing import Final

from cluster.brokers.replication.partition import Partition
from cluster.brokers.replication.replica_throttle import NO_LIMIT, ReplicaThrottle
from cluster.model.ids import BrokerId, TopicPartition
from cluster.quotas.replication_quota import Grant

_ON_THEIR_WAY_MAX: Final = 2
"""So many throttled partitions are fetched at once of one leader: their answers are appended
between those of other partitions, whose records should not wait."""


class Following:
    """One partition that is followed, as both sides know it in this session."""

    __slots__ = ("grant", "handle", "id", "inode", "is_new", "most_bytes", "partition", "path")

    def __init__(self, partition: Partition) -> None:
        self.id = partition.id
        self.partition = partition
        self.handle = -1
        """Stands for the partition in this session's compact messages; -1 if none was given yet."""
        self.path = ""
        """The segment file of the leader that it named last."""
        self.inode = 0
        self.is_new = True
        """Its leader does not know its position in this epoch and session."""
        self.most_bytes = NO_LIMIT
        """The bytes that the answer to its next position may contain."""
        self.grant: Grant | None = None
        """The bytes that are reserved for that answer."""


class ThrottledFetches:
    """The throttled partitions of one fetcher, which stand for the fetcher where it has to wait."""

    def __init__(
        self,
        leader: BrokerId,
        throttle: ReplicaThrottle["ThrottledFetches"],
        changed: dict[Following, None],
        lagging: Container[TopicPartition],
    ) -> None:
        """`changed` are the fetcher's positions to be sent, in which throttled ones are put when
        they may be; `lagging` the partitions that are known not to be in sync.
        """
        self.leader = leader
        self._throttle = throttle
        self._changed = changed
        self._lagging = lagging
        self.held: dict[Following, None] = {}
        """Partitions that wait, in the order of their turns; `sort_out` is needed if there are any.
        """
        self._on_their_way = 0

    def sort_out(self) -> None:
        """Take out the positions that have to wait, and put in those that need not any more."""
        throttle, held = self._throttle, self.held
        for following in list(self._changed):
            if following.grant is not None:
                continue
            if throttle.limits(following.id) and (
                following.is_new or following.id in self._lagging
            ):
                held[following] = None
                if following.is_new:
                    following.most_bytes = 0
                else:
                    del self._changed[following]
            else:
                following.most_bytes = NO_LIMIT
                held.pop(following, None)
        self.release()

    def recheck(self) -> None:
        """Put in the positions that need not wait any more, after a change of configs."""
        for following in list(self.held):
            if not self._throttle.limits(following.id):
                del self.held[following]
                following.most_bytes = NO_LIMIT
                self._changed[following] = None

    def on_answered(self, following: Following, size_bytes: int) -> None:
        """Count the bytes of an answer, or use those that were reserved for it otherwise."""
        if following.grant is not None:
            self._throttle.settle(following.grant, size_bytes)
            following.grant = None
            self._on_their_way -= 1
        else:
            self._throttle.record(following.id, size_bytes)

    def forget(self, following: Following) -> None:
        """The partition is not followed any more."""
        self.held.pop(following, None)
        self.begin_again(following)

    def begin_again(self, following: Following) -> None:
        """The leader is to learn its position anew; an answer that is on its way is ignored."""
        following.is_new = True
        if following.grant is not None:
            self.on_answered(following, 0)

    def release(self) -> None:
        """Put in the positions whose turn it is."""
        while self.held and self._on_their_way < _ON_THEIR_WAY_MAX:
            grant = self._throttle.take(self)
            if grant is None:
                self._throttle.wait(self)
                return
            following = next(iter(self.held))
            del self.held[following]
            following.grant = grant
            following.most_bytes = grant.most_bytes
            self._on_their_way += 1
            self._changed[following] = None
