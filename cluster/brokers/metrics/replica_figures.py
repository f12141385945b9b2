"""Reads figures of a broker's replicas and, on the controller, of all partitions, in steps.

It changes nothing.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from cluster.brokers.metrics.topic_counters import GAUGES
from cluster.brokers.replication.partition import Partition
from cluster.model.cluster import TopicState

_PARTITIONS_PER_STEP: Final = 64


class ReplicaFigures:
    """One pass over the replicas of a broker; complete when the steps of `look` have ended."""

    def __init__(self) -> None:
        self.by_topic: dict[str, list[int]] = {}
        """The numbers of GAUGES for each topic with a replica here."""
        self.producer_ids = 0
        self.reassigning = 0
        """Led partitions that are being moved to other replicas."""
        self.held_back = 0
        """Led partitions whose last stable offset is lower than the high watermark."""
        self.stable_lag = 0
        """The largest difference between the two."""

    def look(self, partitions: Iterable[Partition]) -> Iterator[None]:
        """Read all replicas, some in each step."""
        for count, partition in enumerate(partitions, 1):
            if count % _PARTITIONS_PER_STEP == 0:
                yield
            self._look_at_transactions(partition)
            self.reassigning += partition.leader is not None and partition.leader.is_reassigning
            numbers = self.by_topic.setdefault(partition.id.topic, [0] * len(GAUGES))
            for at, number in enumerate(figures_of(partition)):
                numbers[at] += number

    def _look_at_transactions(self, partition: Partition) -> None:
        log = partition.log
        self.producer_ids += len(log.producers.entries)
        if partition.leader is None or log.transactions.are_none:
            return
        lag = partition.high_watermark - partition.last_stable_offset
        if lag > 0:
            self.held_back += 1
            self.stable_lag = max(self.stable_lag, lag)

    def total(self, key: str) -> int:
        """The sum of one of GAUGES over all topics."""
        at = GAUGES.index(key)
        return sum(numbers[at] for numbers in self.by_topic.values())


def figures_of(partition: Partition) -> Sequence[int]:
    """The numbers of GAUGES for one replica."""
    own = partition.log
    leader = partition.leader
    if leader is None:
        return own.size_bytes, len(own.segments), 1
    in_sync = len(leader.isr)
    min_in_sync = partition.min_insync_replicas
    return (
        own.size_bytes,
        len(own.segments),
        1,
        1,
        leader.is_under_replicated,
        in_sync < min_in_sync,
        in_sync == min_in_sync,
    )


class ClusterFigures:
    """One pass over all partitions, as the controller counts them."""

    def __init__(self) -> None:
        self.topics = 0
        self.partitions = 0
        self.offline = 0
        """Partitions without a leader."""
        self.imbalanced = 0
        """Partitions whose leader is not their first replica."""

    def look(self, topics: Iterable[TopicState]) -> Iterator[None]:
        """Read all partitions, some in each step."""
        for topic in topics:
            self.topics += 1
            for state in list(topic.partitions.values()):
                self.partitions += 1
                if self.partitions % (4 * _PARTITIONS_PER_STEP) == 0:
                    yield
                self.offline += not state.has_leader
                self.imbalanced += state.leader != state.replicas[0]
