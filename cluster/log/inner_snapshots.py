"""Producer snapshots inside a long segment: they bound what a truncation has to replay.

Kafka has one at the beginning of each segment and one at the log end. A segment may have millions
of batches, and a follower truncates on the broker's thread. The snapshots are named by offset as
Kafka's; it deletes those that belong to no segment when it opens a log.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from cluster.log.options import LogOptions
from cluster.log.producer_snapshots import remove_snapshot, write_snapshot
from cluster.log.producer_state import ProducerEntry
from cluster.log.segment import Segment
from cluster.model.errors import Refused

KEPT: Final = 3
"""A snapshot is superfluous if it begins no segment and this many are newer. A truncation uses the
second newest before the new log end, and there may be one behind it."""
_BATCHES_PER_PRODUCER: Final = 4
"""A producer is written in some 1 us and its batch is appended in some 10 us or more, so snapshots
take 2 or 3 % of the time at most."""
_FEW_PRODUCERS: Final = 16
_UNKNOWN: Final = -(1 << 62)


def is_worthwhile(options: LogOptions, size_bytes: int, batches: int, producers: int) -> bool:
    """Whether so many bytes and batches since the last snapshot are worth another one."""
    is_far = size_bytes >= options.producer_snapshot_bytes
    is_cheap = producers <= _FEW_PRODUCERS or batches >= _BATCHES_PER_PRODUCER * producers
    return is_far and is_cheap


def superfluous(offsets: Sequence[int], bases: Iterable[int]) -> list[int]:
    """Those of a log's snapshots, in ascending order, that can be deleted."""
    return sorted(set(offsets[:-KEPT]).difference(bases))


class InnerSnapshots:
    """The snapshots of one log that begin no segment. Owned by the log's thread."""

    __slots__ = (
        "_bases",
        "_batches_before",
        "_directory",
        "_last_stop",
        "_offsets",
        "_position",
        "due_at",
    )

    def __init__(
        self, segments: Sequence[Segment], offsets: Sequence[int], log_end_offset: int
    ) -> None:
        """`offsets` are those of all snapshots, ascending."""
        self._directory = segments[-1].directory
        self._bases = {segment.base_offset for segment in segments}
        self._offsets = list(offsets)
        self._last_stop = -1
        """The offset of the snapshot that the last clean stop has left behind other ones."""
        if offsets and offsets[-1] == log_end_offset and log_end_offset not in self._bases:
            self._last_stop = self._offsets.pop()
        self.due_at = 0
        """The next snapshot is due when the active segment has so many bytes."""
        self._position = -1
        """Where the newest snapshot or else the active segment begins; -1 if unknown."""
        self._batches_before = _UNKNOWN
        """So many batches were noted at that position."""

    def on_due(
        self, active: Segment, log_end_offset: int, producers: Mapping[int, ProducerEntry]
    ) -> None:
        """Write a snapshot at the log end, unless the newest is near. Raises StorageFailed."""
        size, batches = active.file.size_bytes, active.tail.batches_noted
        if self._position < 0:
            self._position = self._find_newest(active)
        since = size - self._position
        if is_worthwhile(active.options, since, batches - self._batches_before, len(producers)):
            write_snapshot(self._directory, log_end_offset, producers)
            self._add(log_end_offset)
            self._position, self._batches_before, since = size, batches, 0
        step = active.options.producer_snapshot_bytes
        self.due_at = size + (step - since if since < step else step)

    def _find_newest(self, active: Segment) -> int:
        if self._offsets and self._offsets[-1] > active.base_offset:
            with suppress(Refused):
                return active.locate(self._offsets[-1])
        return 0

    def on_rolled(self, base_offset: int) -> None:
        """A segment with a snapshot was begun. Raises StorageFailed."""
        self._bases.add(base_offset)
        self._add(base_offset)
        self._position = self._batches_before = self.due_at = 0

    def _add(self, offset: int) -> None:
        if offset not in self._offsets:
            self._offsets.append(offset)
        self._forget_stop()
        for gone in superfluous(self._offsets, self._bases):
            remove_snapshot(self._directory, gone)
        del self._offsets[:-KEPT]
        self._bases.intersection_update(self._offsets)

    def _forget_stop(self) -> None:
        if self._last_stop >= 0 and self._last_stop not in self._offsets:
            remove_snapshot(self._directory, self._last_stop)
        self._last_stop = -1

    def on_stopped(self, log_end_offset: int) -> None:
        """A clean stop has written a snapshot at the log end. Raises StorageFailed."""
        if self._last_stop != log_end_offset:
            self._forget_stop()

    def on_first_segments_gone(self, base_offset: int) -> None:
        """The log begins with another segment now. Raises StorageFailed."""
        slot = bisect_left(self._offsets, base_offset)
        for offset in self._offsets[:slot]:
            if offset not in self._bases:
                remove_snapshot(self._directory, offset)
        del self._offsets[:slot]
        if 0 <= self._last_stop < base_offset:
            self._forget_stop()
