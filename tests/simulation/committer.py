"""A group whose consumer commits higher and higher offsets, with no regard to who dies."""

from cluster.coordinator.groups.requests import FetchOffsets, TopicPartitions
from cluster.coordinator.shards.partitioner import partition_of
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import TopicPartition
from cluster.model.topics import CONSUMER_OFFSETS_TOPIC
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.producer import RETRY_MS

PARTITIONS = 2
"""Of `__consumer_offsets`."""
READ = "orders"


class OffsetCommitter:
    """One commit at a time. Whatever happens, no acknowledged offset is forgotten."""

    def __init__(self, cluster: SimulatedCluster, group: str) -> None:
        self._cluster = cluster
        self._group = group
        self._kept_in = TopicPartition(CONSUMER_OFFSETS_TOPIC, partition_of(group, PARTITIONS))
        self._offset = 0
        self._sent_at_ms: int | None = None
        self.acknowledged = -1

    def step(self) -> None:
        """Commit the next offset when the last commit has been answered, or is long ago."""
        cluster = self._cluster
        now_ms = cluster.world.now_ms
        if self._sent_at_ms is not None and now_ms - self._sent_at_ms < RETRY_MS:
            return
        coordinator = cluster.believed_leader(self._kept_in)
        if coordinator is None:
            return
        self._offset += 1
        self._sent_at_ms = now_ms
        offset = self._offset

        def on_code(code: ErrorCode) -> None:
            if offset == self._offset:
                self._sent_at_ms = None
            if code is ErrorCode.none:
                self.acknowledged = max(self.acknowledged, offset)

        def arrive() -> None:
            cluster.brokers[coordinator].commit(self._group, READ, offset, on_code)

        cluster.world.after(cluster.world.delay_ms(), arrive)

    def stored(self) -> int | None:
        """What the coordinator has; None while it is loading, or is not known."""
        if not self._cluster.registered_state(self._kept_in):
            return None
        broker = self._cluster.brokers[self._cluster.leader(self._kept_in)]
        asked = FetchOffsets(self._group, (TopicPartitions(READ, (0,)),))
        try:
            found = broker.core.groups.coordinator.find(self._group).ask(asked)
        except Refused:
            return None
        return found.offsets[0].offset

    def at_the_end(self) -> None:
        """Commits succeed again, and nothing is forgotten. When everything is healed."""
        run_until = self._cluster.world.run_until
        assert run_until(lambda: self.stored() is not None, 10_000), "nobody coordinates"
        found = self.stored()
        assert found is not None
        assert found >= self.acknowledged, f"{found} is stored, {self.acknowledged} was promised"
        before = self.acknowledged
        for _ in range(20):
            self.step()
            self._cluster.world.run_for(500)
        assert self.acknowledged > before
        # Some messages of the simulated network take hundreds of milliseconds.
        assert run_until(lambda: self.stored() == self._offset, 10_000), "the last commit"
