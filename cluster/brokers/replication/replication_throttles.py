"""The replication throttles of one broker, as its settings and the configs of topics state them."""

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NamedTuple

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


class _Known(NamedTuple):
    """The configs of a topic, which every update of the topic has, and what they throttle."""

    configs: Mapping[str, str]
    replicas: Replicas


_NOTHING_KNOWN: Final = _Known({}, _NONE)


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
        self._topics: dict[str, _Known] = {}
        """The topics with configs."""
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
        gone = set(update.deleted)
        if update.is_full:
            gone |= self._topics.keys() - {topic.name for topic in update.topics}
        changed: dict[str, Replicas] = {}
        for topic in update.topics:
            gone.discard(topic.name)
            known = self._topics.get(topic.name, _NOTHING_KNOWN)
            if topic.configs != known.configs:
                replicas = self._replicas(topic.name, topic.configs)
                if replicas != known.replicas:
                    changed[topic.name] = replicas
                if topic.configs:
                    self._topics[topic.name] = _Known(topic.configs, replicas)
                else:
                    del self._topics[topic.name]
        changed |= {
            name: _NONE for name in gone if any(self._topics.pop(name, _NOTHING_KNOWN).replicas)
        }
        if not changed:
            return
        for direction, throttle in enumerate((self.leader, self.follower)):
            for name, replicas in changed.items():
                throttle.set_replicas(name, self._here(replicas[direction]))
            throttle.apply()

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
