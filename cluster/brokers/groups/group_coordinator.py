"""The coordinator of consumer groups and their committed offsets on one broker.

Kafka: `GroupCoordinatorService`; the codes are those of `GroupCoordinator.validateGroupStatus`.
"""

from collections.abc import Callable, Collection

from cluster.brokers.coordinators.coordinator import Coordinator
from cluster.brokers.coordinators.options import CoordinatorOptions, CoordinatorPorts
from cluster.brokers.groups.history_handover import HistoryHandover
from cluster.coordinator.groups.requests import TopicsChanged, TopicsDeleted
from cluster.coordinator.groups.shard import GroupShard


class GroupCoordinator(Coordinator[GroupShard]):
    """Owned by the broker's thread. The `StateKeeper` of `__consumer_offsets`."""

    def __init__(
        self,
        options: CoordinatorOptions,
        ports: CoordinatorPorts,
        new_shard: Callable[[], GroupShard],
        histories: HistoryHandover,
    ) -> None:
        super().__init__(
            options, ports, lambda _partition, _epoch: new_shard(), histories.before_unload
        )
        self.former = histories.former

    def on_topics_gone(self, topics: Collection[str]) -> None:
        """Topics were deleted: groups lose the offsets that they have committed for them."""
        self.tell_all(TopicsDeleted(topics))

    def on_topics_changed(self, topics: Collection[str]) -> None:
        """Topics were created, deleted or given more partitions: groups of the newer consumer
        protocol get new assignments."""
        self.tell_all(TopicsChanged(topics))
