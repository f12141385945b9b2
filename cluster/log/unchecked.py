"""Tracks which bytes of a file are not verified yet; reads verify their checksums.

A start trusts the bytes below the recovery point, and after a clean stop all bytes, because
verifying them would take as long as reading the whole disk. A closed segment may also be read from
the disk long after its batches were verified. The first read of a batch therefore finds damage in a
closed file, while Kafka leaves that to its clients. Good ranges are remembered until the file is
written.
"""

import os
from bisect import bisect_right
from typing import Final, NamedTuple

from crc32c import crc32c

from cluster.log.mmap_segment import MmapSegment
from cluster.records.batch import ATTRIBUTES_POSITION, HEADER_BYTES, MAGIC_V2, read_header

_NO_LIMIT: Final = 2**63 - 1
_RANGES_MOST: Final = 256
"""Of one segment: readers at more places than this have some bytes checked twice."""


NO_BATCH: Final = "no batch begins here"


class _Range(NamedTuple):
    """A run of good batches."""

    start: int
    end: int
    first_offset: int
    next_offset: int


class Checked(NamedTuple):
    """The result of a check: the end of the good range, and any defect."""

    end: int
    """Where the range ends, or the first damaged batch begins."""
    next_offset: int
    """The offset after the last good batch; 0 where that was not seen."""
    defect: str | None
    """What is wrong with the batch at `end`."""


class UncheckedBytes:
    """The verified ranges of one file, up to `end`.

    Invariant: ranges begin and end at batches, ascend, and neither overlap nor touch.
    """

    __slots__ = ("_ranges", "_stamp", "end", "offset_limit")

    def __init__(self, end: int, offset_limit: int = _NO_LIMIT) -> None:
        """Nothing below `end` is verified yet; later bytes were verified by their append."""
        self.end = end
        self.offset_limit = offset_limit
        """Where the next segment began: all offsets are below it."""
        self._ranges: list[_Range] = []
        self._stamp: tuple[int, int] | None = None
        """Modification time and inode of the file, when the first range was checked."""

    @property
    def is_all_checked(self) -> bool:
        """Whether every byte is verified."""
        ranges = self._ranges
        return not self.end or (ranges != [] and not ranges[0].start and ranges[0].end >= self.end)

    def look_at_file(self, file: MmapSegment) -> int:
        """Check a closed segment's file before a read: if it was written, nothing counts as
        verified.

        Returns the number of bytes that the file lacks: reading them through a mapping would kill
        the process. Raises StorageFailed.
        """
        facts = os.fstat(file.fileno())
        stamp = facts.st_mtime_ns, facts.st_ino
        if stamp != self._stamp:
            self._stamp = stamp
            self._ranges = []
        return max(0, file.size_bytes - facts.st_size)

    def trust(self, file: MmapSegment, first_offset: int) -> None:
        """Mark the whole file as verified: its appends were verified and it has not changed
        since."""
        facts = os.fstat(file.fileno())
        self.note_good((facts.st_mtime_ns, facts.st_ino), first_offset, self.offset_limit)

    def forget(self) -> None:
        """Verify every byte again."""
        self._ranges = []

    def forget_file(self) -> None:
        """Forget the file's stamp, because the segment becomes active and its file changes."""
        self._stamp = None

    def note_good(self, stamp: tuple[int, int], first_offset: int, next_offset: int) -> None:
        """Mark the whole file as verified elsewhere, at this modification time and inode."""
        if self.end and self._stamp in (None, stamp):
            self._stamp = stamp
            self._ranges = [_Range(0, self.end, first_offset, next_offset)]

    def truncate(self, end: int) -> None:
        """Truncate at a batch boundary; later appends are verified."""
        self.end = min(self.end, end)
        self._ranges = [one for one in self._ranges if one.end <= end]

    def check(self, file: MmapSegment, start: int, end: int, offset: int = _NO_LIMIT) -> Checked:
        """Verify the batches in [start, end) that were not verified before.

        `start` must be a batch's position, and `offset`, if given, must be in that batch.
        """
        position, least_offset = start, 0
        end = min(end, file.size_bytes)
        while position < min(end, self.end):
            slot = bisect_right(self._ranges, position, key=_start) - 1
            known = self._ranges[slot] if slot >= 0 else None
            if known is not None and position < known.end:
                # Each one alone was valid; a range that began earlier was joined in order.
                if position == known.start and known.first_offset < least_offset:
                    del self._ranges[slot]
                    defect = f"offset {known.first_offset} cannot be here"
                    return Checked(position, least_offset, defect)
                position, least_offset = known.end, known.next_offset
                continue
            if known is not None and position == known.end:
                least_offset = max(least_offset, known.next_offset)
            following = self._ranges[slot + 1 : slot + 2]
            until = min(end, following[0].start if following else self.end)
            expected = least_offset or offset
            good, problem = _check_batches(
                file, position, until, least_offset, expected, self.offset_limit
            )
            self._add(good, slot)
            position, least_offset = good.end, good.next_offset
            if problem is not None:
                return Checked(position, least_offset, problem)
        return Checked(end, least_offset if position == end else 0, None)

    def _add(self, good: _Range, slot: int) -> None:
        """Insert a range after the one in a slot, and join them if they touch."""
        if good.start == good.end:
            return
        ranges = self._ranges
        if slot >= 0 and ranges[slot].end == good.start:
            good = ranges.pop(slot)._replace(end=good.end, next_offset=good.next_offset)
            slot -= 1
        behind = slot + 1
        if (
            behind < len(ranges)
            and ranges[behind].start == good.end
            and ranges[behind].first_offset >= good.next_offset
        ):
            joined = ranges.pop(behind)
            good = good._replace(end=joined.end, next_offset=joined.next_offset)
        ranges.insert(behind, good)
        if len(ranges) > _RANGES_MOST:
            del ranges[0]


def _start(one: _Range) -> int:
    return one.start


def _check_batches(
    file: MmapSegment,
    start: int,
    end: int,
    least_offset: int,
    expected_offset: int,
    offset_limit: int,
) -> tuple[_Range, str | None]:
    """The good batches from a position on, and the defect after them, if any.

    Checksums do not cover base offsets, so their order is checked too.
    """
    position, first_offset = start, -1
    defect = None
    with memoryview(file.mapping()) as content:
        while position < end:
            if end - position < HEADER_BYTES:
                defect = f"{end - position} bytes are not a batch"
                break
            header = read_header(content, position)
            after = position + header.size_bytes
            if header.magic != MAGIC_V2 or header.size_bytes < HEADER_BYTES or after > end:
                defect = NO_BATCH
                break
            base_offset, last_offset = header.base_offset, header.last_offset
            is_out_of_order = not least_offset <= base_offset <= last_offset < offset_limit
            if base_offset > expected_offset and after + HEADER_BYTES <= len(content):
                # One of two overlapping batches is wrong: this one, because it follows a gap.
                following = read_header(content, after).base_offset
                is_out_of_order |= expected_offset <= following <= last_offset
            if is_out_of_order:
                defect = f"offset {base_offset} cannot be here"
                break
            if crc32c(content[position + ATTRIBUTES_POSITION : after]) != header.crc:
                defect = "checksum does not match"
                break
            if first_offset < 0:
                first_offset = base_offset
            position = after
            least_offset = expected_offset = last_offset + 1
    return _Range(start, position, first_offset, least_offset), defect
