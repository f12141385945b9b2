"""The replica that a consumer should read from: one in its rack (KIP-392). Pure.

The rules are those of Kafka's `ReplicaManager.findPreferredReadReplica` and
`RackAwareReplicaSelector`.
"""

from collections.abc import Callable, Mapping
from typing import Final

from cluster.brokers.replication.leader_replica import LeaderReplica
from cluster.model.clocks import MonotonicMs
from cluster.model.cluster import BrokerRegistration
from cluster.model.ids import BrokerId

RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
NO_PREFERENCE: Final = -1
"""Read from the leader."""


class ReadReplicas:
    """Chooses for the consumers of one rack, for the time of a request."""

    __slots__ = ("_brokers", "_is_lost", "_now_ms")

    def __init__(
        self,
        rack: str,
        listener: str,
        local_id: BrokerId,
        brokers: Mapping[BrokerId, BrokerRegistration],
        is_lost: Callable[[BrokerId, MonotonicMs], bool],
        now_ms: MonotonicMs,
    ) -> None:
        """`listener` is that of the consumer, who must be able to reach the replica's broker.

        `is_lost`: whether a broker has ended although it is still registered.
        """
        self._is_lost = is_lost
        self._now_ms = now_ms
        own = brokers.get(local_id)
        self._brokers = {
            broker
            for broker, registration in brokers.items()
            if registration.rack == rack and registration.endpoint(listener) is not None
        }
        if own is not None and own.rack == rack:
            self._brokers = set()  # the leader itself is in the rack

    def choose(self, leader: LeaderReplica, fetch_offset: int) -> int:
        """The follower that has most records, or NO_PREFERENCE if none has the offset."""
        best = NO_PREFERENCE
        best_key = (-1, -1, -1)
        for broker in self._brokers:
            progress = leader.followers.get(broker)
            if (
                progress is None
                or progress.log_end_offset < fetch_offset
                or progress.log_start_offset > fetch_offset
                or self._is_lost(broker, self._now_ms)
            ):
                continue
            key = (progress.log_end_offset, progress.last_caught_up_ms, int(broker))
            if key > best_key:
                best, best_key = int(broker), key
        return best
