"""Forgets producers that have been idle for `producer.id.expiration.ms`, in every log of a broker.

Leaders and followers do this, as Kafka's `producer-id-expiration`. It bounds the memory of clients
that take a new producer id at each start, and drops verifications of transactions that never began.
"""

from collections.abc import Callable, Iterator

from cluster.brokers.replication.partition_table import PartitionTable
from cluster.model.clocks import WallMs
from cluster.runtime.slices import Slices


class ProducerExpiry:
    """Owned by the broker's thread. Invariant: at most one search is under way."""

    def __init__(
        self, table: PartitionTable, slices: Slices, wall_ms: Callable[[], WallMs]
    ) -> None:
        self._table = table
        self._slices = slices
        self._wall_ms = wall_ms
        self._is_looking = False

    def on_tick(self) -> None:
        """Search all logs, unless the last search is unfinished."""
        if not self._is_looking:
            self._is_looking = True
            self._slices.start(self._look())

    def _look(self) -> Iterator[None]:
        for partition in self._table:
            yield from partition.log.producers.expiring_steps(self._wall_ms())
            yield
        self._is_looking = False
