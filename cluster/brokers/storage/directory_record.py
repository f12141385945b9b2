"""Keeps the registry's record of this broker's log directories, which shows the next start what was
lost.

The record is written only when the controller has taken the condition of the logs into account:
until then the next start must find the same condition.
"""

import logging
from collections.abc import Callable, Mapping

from cluster.brokers.membership.registration import NOT_REGISTERED
from cluster.brokers.replication.lost_logs import condition_of
from cluster.brokers.replication.partition_table import PartitionTable
from cluster.coordinator.cluster_store import RETRY_MS, StoreSession
from cluster.log.directory_mark import write_mark
from cluster.log.log_directory import LogDirectory
from cluster.model.errors import StorageFailed
from cluster.model.ids import BrokerId
from cluster.model.log_condition import LogCondition
from cluster.protocol.peer.control import ClusterUpdate

log = logging.getLogger(__name__)


class DirectoryRecord:
    """Owned by the broker's thread; `post` runs a call on a background thread, `post_back` on the
    broker's.

    Invariant: a directory's own file has at least the generation that the registry has.
    """

    def __init__(
        self,
        local_id: BrokerId,
        table: PartitionTable,
        store: StoreSession,
        boot_id: str,
        post: Callable[[Callable[[], None]], None],
        post_back: Callable[[Callable[[], None]], None],
        call_after: Callable[[int, Callable[[], None]], object],
    ) -> None:
        self._local_id = local_id
        self._table = table
        self._store = store
        self._boot_id = boot_id
        self._post = post
        self._post_back = post_back
        self._call_after = call_after
        self._known: Mapping[str, int] = {}
        self._judged_in = NOT_REGISTERED
        """The epoch of the last registration that a controller has taken into account."""
        self._under_way = 0
        """Records that are not in the registry yet."""

    @property
    def is_stored(self) -> bool:
        """Whether the registry has the newest record."""
        return self._under_way == 0

    def find_condition(self) -> LogCondition:
        """The condition of the logs at the start; waits for the registry."""
        known = self._store.call(lambda store: store.brokers.log_directories(self._local_id))
        self._known = known or {}
        condition = condition_of(self._table, known, self._boot_id)
        self._table.is_judged = not condition.is_known_to_lack
        return condition

    def on_update(self, update: ClusterUpdate) -> None:
        """The controller has taken this registration and its condition of the logs into account.

        The record tells that to a controller that takes over.
        """
        self._table.is_judged = True
        if update.broker_epoch != self._judged_in:
            self._judged_in = update.broker_epoch
            self._advance()

    def on_stopping(self) -> None:
        """Grow the generation, so that copies made before now are recognized as old."""
        if self._judged_in != NOT_REGISTERED:
            self._advance()

    def _advance(self) -> None:
        """The generations to record; a failed directory keeps its number."""
        generations = {
            each: 1 + max(self._known.get(each.directory_id, 0), _generation(each))
            for each in self._table.directories
        }
        others = dict(self._known) if self._table.places.has_failed_one else {}
        self._known = others | {each.directory_id: number for each, number in generations.items()}
        self._under_way += 1
        self._post(lambda: self._write(generations, others))

    def _write(self, generations: Mapping[LogDirectory, int], others: dict[str, int]) -> None:
        """On the background thread."""
        written = others
        for directory, generation in generations.items():
            try:
                write_mark(directory.path, generation, self._boot_id)
            except StorageFailed as failure:
                # The registry keeps the old number, which the file on disk still has.
                log.error("%s", failure)  # noqa: TRY400 - one line
                generation = max(0, generation - 1)
            written[directory.directory_id] = generation
        self._post_back(lambda: self._store_record(written))

    def _store_record(self, written: Mapping[str, int]) -> None:
        def on_done(_done: None) -> None:
            self._under_way -= 1

        def on_failed(error: Exception) -> None:
            log.warning("cannot store which log directories are in use: %r", error)
            self._call_after(RETRY_MS, lambda: self._store_record(written))

        self._store.submit(
            lambda store: store.brokers.write_log_directories(self._local_id, written),
            on_done,
            on_failed,
        )


def _generation(directory: LogDirectory) -> int:
    return 0 if directory.mark is None else directory.mark.generation
