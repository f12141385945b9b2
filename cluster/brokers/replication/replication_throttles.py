"""The replication throttles of one broker, as its settings and the configs of topics state them."""

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from cluster.brokers.network.purgatory import Cancellable
from cluster.brokers.replication.replica_throttle import ReplicaThrottle
from cluster.model.clocks import MonotonicMs
from cluster.model.errors import Refused
from cluster.model.ids import BrokerId
from cluster.protocol.peer.control import ClusterUpdate
from cluster.quotas.replication_quota import ReplicationQuota
from cluster.quotas.sampled_rate import WindowOptions

log = logging.getLogger(__name__)

ALL: Final = "*"
Limits = tuple[int | None, int | None]
"""Bytes per second as a leader, and as a follower; None without a limit."""
Replicas = tuple[Collection[str], Collection[str]]
"""The throttled replicas of a topic as leaders, and as followers: `partition:broker`, or `*`."""
_NONE: Final[Replicas] = ((), ())


class ReplicationThrottles:
    """Owned by the broker's thread."""

    def __init__(
        self,
        local_id: BrokerId,
        windows: WindowOptions,
        now_ms: Callable[[], MonotonicMs],
        call_at: Callable[[int, Callable[[], None]], Cancellable],
        replicas_of: Callable[[Mapping[str, str]], Replicas],
    ) -> None:
        """`replicas_of` reads the configs of a topic, and raises Refused."""
        self._local_id = local_id
        self._replicas_of = replicas_of
        self._topics: dict[str, Replicas] = {}
        self.leader: ReplicaThrottle[Any] = _throttle(windows, now_ms, call_at)
        self.follower: ReplicaThrottle[Any] = _throttle(windows, now_ms, call_at)

    def set_limits(self, limits: Limits) -> None:
        """Take the limits of both directions, at once."""
        for throttle, limit in zip((self.leader, self.follower), limits, strict=True):
            if limit != throttle.quota.limit:
                throttle.set_limit(limit)
                throttle.apply()

    def on_update(self, update: ClusterUpdate) -> None:
        """Take the throttled replicas of the topics in an update of the controller, at once."""
        topics = dict(self._topics)
        if update.is_full:
            topics.clear()
        for name in update.deleted:
            topics.pop(name, None)
        for topic in update.topics:
            topics.pop(topic.name, None)
            replicas = self._replicas(topic.name, topic.configs) if topic.configs else _NONE
            if any(replicas):
                topics[topic.name] = replicas
        if topics == self._topics:
            return
        for direction, throttle in enumerate((self.leader, self.follower)):
            throttle.keep_topics(topics.keys())
            for name, replicas in topics.items():
                throttle.set_replicas(name, self._here(replicas[direction]))
            throttle.apply()
        self._topics = topics

    def _replicas(self, topic: str, configs: Mapping[str, str]) -> Replicas:
        try:
            return self._replicas_of(configs)
        except Refused as refused:
            log.warning("%s: its replicas are not throttled: %s", topic, refused)
            return _NONE

    def _here(self, replicas: Collection[str]) -> Collection[int] | None:
        """The throttled partitions of this broker; None for all."""
        if ALL in replicas:
            return None
        here = set()
        for replica in replicas:
            partition, _, broker = replica.partition(":")
            if int(broker) == self._local_id:
                here.add(int(partition))
        return frozenset(here)


def _throttle(
    windows: WindowOptions,
    now_ms: Callable[[], MonotonicMs],
    call_at: Callable[[int, Callable[[], None]], Cancellable],
) -> ReplicaThrottle[Any]:
    return ReplicaThrottle(ReplicationQuota(windows, now_ms()), now_ms, call_at)
