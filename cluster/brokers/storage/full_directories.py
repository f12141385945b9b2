"""Reports full log directories, and those with room again: to the log and to the controller.

The controller then elects other in-sync replicas. Each of its updates names the replicas that it
takes to be full; a broker that finds itself described wrongly reports again.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Collection
from typing import Final
from uuid import UUID

from cluster.brokers.membership.offline_report import REPORT_AGAIN_MS
from cluster.brokers.replication.partition_table import PartitionTable
from cluster.log.log_directory import LogDirectory
from cluster.model.cluster import OfflinePartitions
from cluster.model.ids import BrokerId
from cluster.model.sizes import size_text
from cluster.protocol.peer.control import ClusterUpdate
from cluster.runtime.loop import EventLoop

log = logging.getLogger(__name__)

LOOK_PERIOD_MS: Final = 500
_LOOKS_PER_DELETION: Final = 6


ReportFull = Callable[[tuple[OfflinePartitions, ...], str, Callable[[], None]], None]
"""Reports to the controller all replicas in full log directories here, and why no directory has
room (empty while one has). Calls back once, with or without an answer."""


class FullDirectories:
    """Owned by the broker's thread. Invariant: at most one report is under way, or to be sent."""

    def __init__(
        self,
        local_id: BrokerId,
        table: PartitionTable,
        report: ReportFull,
        loop: EventLoop,
        reserve_bytes: int,
        while_full: Callable[[], object],
    ) -> None:
        """`while_full` is called now and then while a directory is full, to delete old segments."""
        self._local_id = local_id
        self._table = table
        self._report = report
        self._loop = loop
        self._known: tuple[frozenset[OfflinePartitions], bool] = frozenset(), False
        """The state of this broker in the controller's last update."""
        self._while_full = while_full
        self._looks_while_full = 0
        self._said: dict[LogDirectory, tuple[bool, bool]] = {}
        self._is_under_way = False
        for directory in table.places.directories:
            directory.room.watch(reserve_bytes, self._on_changed)

    @property
    def count(self) -> int:
        """How many log directories are full."""
        return sum(directory.room.is_full for directory in self._table.places.working)

    def look(self) -> None:
        """Measure the free space of the log directories."""
        for directory in self._table.places.working:
            directory.room.look()
        if not self.count:
            self._looks_while_full = 0
            return
        self._begin()  # replicas may have been made or removed in one that is full
        self._looks_while_full += 1
        if self._looks_while_full % _LOOKS_PER_DELETION == 0:
            self._while_full()

    def on_update(self, update: ClusterUpdate) -> None:
        """Report again if the controller's update describes this broker wrongly."""
        self._known = (
            frozenset(each for each in update.full if each.broker == self._local_id),
            self._local_id in update.full_brokers,
        )
        if self._known != (frozenset(), False) or self.count:
            self._begin()

    def _on_changed(self) -> None:
        # An append may be under way.
        self._loop.defer(self._say)
        self._begin()

    def _say(self) -> None:
        for directory in self._table.places.working:
            room = directory.room
            now, before = (room.is_full, room.is_used_up), self._said.get(directory, (False, False))
            if now == before:
                continue
            self._said[directory] = now
            if not room.is_full:
                space = room.space
                log.warning(
                    "log directory %s has room again: %s of %s are free",
                    directory.path,
                    size_text(space.free_bytes),
                    size_text(space.total_bytes),
                )
            elif not before[0]:
                log.error(
                    "%s. Its partitions take no records, and other in-sync replicas lead them,"
                    " until there is room again",
                    room.text,
                )
            elif room.is_used_up:
                log.error("%s. Its replicas follow no leader until there is room again", room.text)

    def _begin(self) -> None:
        if not self._is_under_way:
            self._is_under_way = True
            self._loop.defer(self._send)

    def _send(self) -> None:
        working = self._table.places.working
        full = {directory for directory in working if directory.room.is_full}
        replicas = self._replicas_in(full)
        reason = ""
        if full and len(full) == len(working):
            reason = "; ".join(directory.room.text for directory in working)
        if (frozenset(replicas), bool(reason)) == self._known:
            self._is_under_way = False
        else:
            self._report(replicas, reason, self._on_answered)

    def _replicas_in(
        self, directories: Collection[LogDirectory | None]
    ) -> tuple[OfflinePartitions, ...]:
        numbers: defaultdict[UUID, list[int]] = defaultdict(list)
        if directories:
            for partition in self._table:
                if self._table.directory_of(partition.id) in directories:
                    numbers[partition.topic_id].append(partition.id.partition)
        return tuple(
            OfflinePartitions(self._local_id, topic_id, tuple(sorted(found)))
            for topic_id, found in numbers.items()
        )

    def _on_answered(self) -> None:
        # The controller's update comes before the answer; without an update, report again.
        self._loop.call_after(REPORT_AGAIN_MS, self._send)
