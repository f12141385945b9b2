"""Writes the offset checkpoints: gathered in slices, written and synced by a thread."""

import logging
from collections.abc import Callable, Iterator
from typing import Final

from cluster.brokers.replication.partition_table import Checkpoints, PartitionTable
from cluster.log.log_directory import LogDirectory
from cluster.model.errors import StorageFailed
from cluster.runtime.slices import Slices

log = logging.getLogger(__name__)

_PARTITIONS_PER_STEP: Final = 32


class CheckpointWriter:
    """Invariant: at most one set of checkpoints is being gathered or written at a time.

    `post` runs a call on a background thread, `post_back` on the broker's thread.
    """

    def __init__(
        self,
        table: PartitionTable,
        slices: Slices,
        post: Callable[[Callable[[], None]], None],
        post_back: Callable[[Callable[[], None]], None],
    ) -> None:
        self._table = table
        self._slices = slices
        self._post = post
        self._post_back = post_back
        self._is_under_way = False
        self._written: dict[LogDirectory, Checkpoints] = {}
        self._waiting: list[Callable[[], None]] = []
        self._being_served: list[Callable[[], None]] = []

    def on_tick(self) -> None:
        """Begin the next set, unless the previous one is not written yet."""
        if not self._is_under_way and self._table.is_judged:
            self._is_under_way = True
            self._slices.start(self._gather())

    def when_written(self, on_written: Callable[[], None]) -> None:
        """Write new checkpoints as soon as possible; calls back once they are written."""
        self._waiting.append(on_written)
        self.on_tick()

    def _gather(self) -> Iterator[None]:
        self._being_served, self._waiting = self._waiting, []
        gathered = {
            directory: self._table.first_checkpoints(directory)
            for directory in self._table.directories
        }
        for count, partition in enumerate(self._table):
            directory = self._table.directory_of(partition.id)
            if directory in gathered:
                gathered[directory].add(partition)
            if count % _PARTITIONS_PER_STEP == 0:
                yield
        changed = {
            directory: found
            for directory, found in gathered.items()
            if directory.failure is None and self._written.get(directory) != found
        }
        self._post(lambda: self._write(changed))

    def _write(self, changed: dict[LogDirectory, Checkpoints]) -> None:
        """On the background thread."""
        written = {}
        failed = {}
        for directory, checkpoints in changed.items():
            try:
                checkpoints.write(directory)
            except StorageFailed as failure:
                log.error("%s", failure)  # noqa: TRY400 - one line; the next interval tries again
                failed[directory] = failure
            else:
                written[directory] = checkpoints
        self._post_back(lambda: self._on_written(written, failed))

    def _on_written(
        self,
        written: dict[LogDirectory, Checkpoints],
        failed: dict[LogDirectory, StorageFailed],
    ) -> None:
        self._written.update(written)
        for directory, failure in failed.items():
            self._table.note_directory_failure(directory, failure)
        self._is_under_way = False
        served, self._being_served = self._being_served, []
        if failed:
            self._waiting += served  # tried again at the next interval
            return
        for on_done in served:
            on_done()
        if self._waiting:
            self.on_tick()
