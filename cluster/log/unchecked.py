"""Bytes of a file that nobody has checked: their checksums are compared when they are read.

A start trusts what lies below the recovery point, and after a clean stop all of it: checking it
would take as long as reading the whole disk. And a segment that was closed may be read from the
disk again long after its batches were checked. So a byte that went bad in a closed file is found by
the first read of its batch; Kafka leaves that to its clients. Good ranges are remembered, for as
long as nobody writes to the file.
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
    """Good batches side by side."""

    start: int
    end: int
    first_offset: int
    next_offset: int


class Checked(NamedTuple):
    """How far a range is good."""

    end: int
    """Where the range ends, or the first damaged batch begins."""
    next_offset: int
    """The offset after the last good batch; 0 where that was not seen."""
    defect: str | None
    """What is wrong with the batch at `end`."""


class UncheckedBytes:
    """Which bytes of one file, up to `end`, have been checked.

    Invariant: ranges begin and end at batches, ascend, and neither overlap nor touch.
    """

    __slots__ = ("_ranges", "_stamp", "end", "offset_limit")

    def __init__(self, end: int, offset_limit: int = _NO_LIMIT) -> None:
        """Nothing below `end` is checked yet; what is behind it was checked as it was appended."""
        self.end = end
        self.offset_limit = offset_limit
        """Where the next segment began: all offsets are below it."""
        self._ranges: list[_Range] = []
        self._stamp: tuple[int, int] | None = None
        """Modification time and inode of the file, when the first range was checked."""

    @property
    def is_all_checked(self) -> bool:
        """True when nothing is left to check."""
        ranges = self._ranges
        return not self.end or (ranges != [] and not ranges[0].start and ranges[0].end >= self.end)

    def look_at_file(self, file: MmapSegment) -> int:
        """Before a closed segment is read: where somebody has written to its file, nothing of it
        counts as checked.

        Returns how many bytes the file lacks: to read it through a mapping would end the process.
        Raises StorageFailed.
        """
        facts = os.fstat(file.fileno())
        stamp = facts.st_mtime_ns, facts.st_ino
        if stamp != self._stamp:
            self._stamp = stamp
            self._ranges = []
        return max(0, file.size_bytes - facts.st_size)

    def trust(self, file: MmapSegment, first_offset: int) -> None:
        """All of it was checked as it was appended, and nobody has written to the file yet."""
        facts = os.fstat(file.fileno())
        self.note_good((facts.st_mtime_ns, facts.st_ino), first_offset, self.offset_limit)

    def forget(self) -> None:
        """Check everything anew."""
        self._ranges = []

    def forget_file(self) -> None:
        """The segment is written again: its file changes from now on."""
        self._stamp = None

    def note_good(self, stamp: tuple[int, int], first_offset: int, next_offset: int) -> None:
        """Somebody else has checked all of the file, as it was with that modification time and
        inode."""
        if self.end and self._stamp in (None, stamp):
            self._stamp = stamp
            self._ranges = [_Range(0, self.end, first_offset, next_offset)]

    def truncate(self, end: int) -> None:
        """The file was cut there, at a batch; what is appended then is checked."""
        self.end = min(self.end, end)
        self._ranges = [one for one in self._ranges if one.end <= end]

    def check(self, file: MmapSegment, start: int, end: int, offset: int = _NO_LIMIT) -> Checked:
        """Compare the checksums of the batches in [start, end) that were not checked before.

        `start` is that of a batch, the one that should hold `offset`, if that is given.
        """
        position, least_offset = start, 0
        end = min(end, file.size_bytes)
        while position < min(end, self.end):
            slot = bisect_right(self._ranges, position, key=_start) - 1
            known = self._ranges[slot] if slot >= 0 else None
            if known is not None and position < known.end:
                if known.first_offset < least_offset:  # each alone looked good
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
        """Put a range behind the one of that slot; joined, if they touch."""
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
    """The good batches from a position on, and what is wrong behind them, if anything.

    Base offsets are outside the checksum, so their order is looked at besides.
    """
    position, first_offset = start, -1
    defect = None
    with memoryview(file.mapping()) as content:
        while position < end:
            if end - position < HEADER_BYTES:
                defect = f"{end - position} bytes are no batch"
                break
            header = read_header(content, position)
            after = position + header.size_bytes
            if header.magic != MAGIC_V2 or header.size_bytes < HEADER_BYTES or after > end:
                defect = NO_BATCH
                break
            base_offset, last_offset = header.base_offset, header.last_offset
            is_out_of_order = not least_offset <= base_offset <= last_offset < offset_limit
            if base_offset > expected_offset and after + HEADER_BYTES <= len(content):
                # Either of two that overlap is wrong: this one, as it leaves a gap before it.
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
