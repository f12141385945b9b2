"""Transactional ids whose producers have used up nearly all of their epochs."""

from typing import Any

from cluster.coordinator.shards.partitioner import partition_of
from cluster.coordinator.transactions.records import transaction_key, transaction_value
from cluster.coordinator.transactions.transaction import LAST_EPOCH, StoredTransaction
from cluster.model.ids import TopicPartition
from cluster.model.topics import TRANSACTION_STATE_TOPIC
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.committer import PARTITIONS
from tests.simulation.transactions.histories import TIMEOUT_MS, Client, TransactionHistory

_FIRST_PRODUCER_ID = 1 << 41
_LEFT = 3
"""A producer gets fewer than so many epochs before its last one."""
_STEPS_BETWEEN = 10
_STEPS = 150
"""Fewer than usual: most ids are exhausted soon after their first use, and clients are many."""


class ExhaustedEpochs(TransactionHistory):
    """Many transactional ids, each of which is first used when it has few epochs left, and again
    before some of its processes start.
    """

    def __init__(self, cluster: SimulatedCluster) -> None:
        super().__init__(cluster)
        self._step_count = 0

    def run(self, steps: int = _STEPS) -> None:
        super().run(steps)

    def _new_writers(self) -> list[Client]:
        more = [
            self._client(f"writer-{number}", self._writer, is_new=number % 3 > 0)
            for number in range(6)
        ]
        return super()._new_writers() + more

    def _begin(self) -> None:
        for number, client in enumerate(self._clients):
            self._use_up(client, _FIRST_PRODUCER_ID + number)

    def _started(self) -> list[Client]:
        """One more from time to time."""
        self._step_count += 1
        count = 2 + self._step_count // _STEPS_BETWEEN
        started = (self._copiers + self._writers)[:count]
        for client in started:
            if not client.is_running and self._random.random() < 0.5:
                self._use_up(client)
        return started

    def _use_up(self, client: Client, producer_id: int | None = None) -> None:
        """Leave a few epochs to a transactional id at rest; without `producer_id` one that its
        coordinator has."""
        name = client.transactional_id
        partition = TopicPartition(TRANSACTION_STATE_TOPIC, partition_of(name, PARTITIONS))
        leader = self._cluster.registered_state(partition).leader
        if leader not in self._cluster.brokers or not self._cluster.brokers[leader].is_up:
            return
        led: Any = self._cluster.brokers[leader].core.transactions.coordinator.led(partition)
        if led is None or led.is_loading:
            return
        shard = led._shard  # noqa: SLF001 - there are no requests for it
        known = shard._parts.transactions.get(name)  # noqa: SLF001
        epoch = LAST_EPOCH - self._random.randrange(_LEFT)
        if known is not None:
            is_at_rest = not known.is_in_transition and known.stored.state.is_idle
            if is_at_rest and known.stored.producer_epoch < epoch:
                self._cluster.world.note(f"{name} goes on with epoch {epoch}")
                known.stored = known.stored._replace(producer_epoch=epoch)
        elif producer_id is not None:
            stored = StoredTransaction(producer_id, epoch, TIMEOUT_MS)
            shard.replay(transaction_key(name), transaction_value(stored))
