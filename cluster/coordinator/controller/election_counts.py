"""How many leaders this broker has elected while it was the controller. Pure."""

from collections.abc import Mapping

from cluster.model.cluster import ClusterState, PartitionState
from cluster.model.ids import TopicPartition


class ElectionCounts:
    """Kept over the terms of one broker as the controller."""

    def __init__(self) -> None:
        self.count = 0
        """Partitions that were given another leader."""
        self.unclean_count = 0
        """Of these: ones whose new leader could lack committed records (an unclean election)."""

    def add(self, changed: Mapping[TopicPartition, PartitionState], before: ClusterState) -> None:
        """The states of these partitions are about to change."""
        for partition, state in changed.items():
            old = before.partition(partition)
            if old is not None and state.has_leader and state.leader != old.leader:
                self.count += 1
                doubtful = (one.broker for one in old.doubtful if one.is_there)
                self.unclean_count += state.leader not in (*old.isr, *old.eligible, *doubtful)
