"""Counts the leaders that this broker has elected while it was the controller. Pure."""

from collections.abc import Mapping

from cluster.model.cluster import ClusterState, PartitionState
from cluster.model.ids import TopicPartition


class ElectionCounts:
    """Counts over all terms of one broker as the controller."""

    def __init__(self) -> None:
        self.count = 0
        """Partitions that got another leader."""
        self.unclean_count = 0
        """The unclean elections among them: the new leader could lack committed records."""

    def add(self, changed: Mapping[TopicPartition, PartitionState], before: ClusterState) -> None:
        """Count the elections among these changes, which are about to be applied."""
        for partition, state in changed.items():
            old = before.partition(partition)
            if old is not None and state.has_leader and state.leader != old.leader:
                self.count += 1
                doubtful = (one.broker for one in old.doubtful if one.is_there)
                self.unclean_count += state.leader not in (*old.isr, *old.eligible, *doubtful)
