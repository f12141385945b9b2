"""Bytes that were taken from disk without a look: their checksums are compared when they are read.

A start trusts what lies below the recovery point, and after a clean stop all of it: checking it
would take as long as reading the whole disk. So a byte that went bad in a closed file is found by
the first read of its batch; Kafka leaves that to its clients. Good ranges are remembered.
"""

import logging
from bisect import bisect_right
from pathlib import Path
from typing import Final, NamedTuple

from crc32c import crc32c

from cluster.brokers.log.mmap_segment import MmapSegment
from cluster.model.errors import ErrorCode, Refused
from cluster.records.batch import HEADER_BYTES, MAGIC_V2, read_header

_log = logging.getLogger(__name__)

_CRC_FROM: Final = 21
_NO_LIMIT: Final = 2**63 - 1
_RANGES_MOST: Final = 256
"""Of one segment: readers at more places than this have some bytes checked twice."""


NO_BATCH: Final = "no batch begins here"


class DamagedBatch(Refused):
    """What was asked for is damaged on this broker's disk."""

    def __init__(self, path: Path, position: int) -> None:
        super().__init__(ErrorCode.corrupt_message, f"{path} is damaged at byte {position}")
        self.position = position


class _Range(NamedTuple):
    """Good batches side by side."""

    start: int
    end: int
    first_offset: int
    next_offset: int


class UncheckedBytes:
    """Which bytes of one file, up to `end`, have been checked since the start.

    Invariant: ranges begin and end at batches, ascend, and neither overlap nor touch.
    """

    __slots__ = ("_has_spoken", "_ranges", "end", "offset_limit")

    def __init__(self, end: int) -> None:
        """Nothing below `end` is checked yet; what is behind it was checked as it was appended."""
        self.end = end
        self.offset_limit = _NO_LIMIT
        """Where the next segment began at the start: all offsets are below it."""
        self._ranges: list[_Range] = []
        self._has_spoken = False

    @property
    def is_all_checked(self) -> bool:
        """True when nothing is left to check."""
        ranges = self._ranges
        return not self.end or (ranges != [] and not ranges[0].start and ranges[0].end >= self.end)

    def truncate(self, end: int) -> None:
        """The file was cut there, at a batch; what is appended then is checked."""
        self.end = min(self.end, end)
        self._ranges = [one for one in self._ranges if one.end <= end]

    def check(self, file: MmapSegment, start: int, end: int, offset: int = _NO_LIMIT) -> int:
        """Compare the checksums of the batches in [start, end) that were not checked before.

        `start` is that of a batch, the one that should hold `offset`, if that is given. Returns
        `end`, or where the first damaged batch begins. The damage is logged once.
        """
        position, least_offset = start, 0
        end = min(end, file.size_bytes)
        while position < min(end, self.end):
            slot = bisect_right(self._ranges, position, key=_start) - 1
            known = self._ranges[slot] if slot >= 0 else None
            if known is not None and position < known.end:
                if known.first_offset < least_offset:  # each alone looked good
                    del self._ranges[slot]
                    self.tell(file.path, position, f"offset {known.first_offset} cannot be here")
                    return position
                position, least_offset = known.end, known.next_offset
                continue
            if known is not None and position == known.end:
                least_offset = max(least_offset, known.next_offset)
            following = self._ranges[slot + 1 : slot + 2]
            until = min(end, following[0].start if following else self.end)
            expected = least_offset or offset
            good, defect = _check_batches(
                file, position, until, least_offset, expected, self.offset_limit
            )
            self._add(good, slot)
            position, least_offset = good.end, good.next_offset
            if defect is not None:
                self.tell(file.path, position, defect)
                return position
        return end

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

    def tell(self, path: Path, position: int, defect: str) -> None:
        """Log a damage, unless one of this file was logged before."""
        if not self._has_spoken:
            self._has_spoken = True
            _log.error(
                "%s is damaged at byte %d, which is not served: %s. Other replicas may have it:"
                " stop this broker, delete the directory of the partition and start it again",
                path,
                position,
                defect,
            )


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
            if crc32c(content[position + _CRC_FROM : after]) != header.crc:
                defect = "checksum does not match"
                break
            if first_offset < 0:
                first_offset = base_offset
            position = after
            least_offset = expected_offset = last_offset + 1
    return _Range(start, position, first_offset, least_offset), defect
