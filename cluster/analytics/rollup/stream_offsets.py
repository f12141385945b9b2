"""The position of a stream in each partition, and the end of its next batch.

Pure. Spark keeps these offsets as JSON and compares them as text, so equal offsets have equal
texts.
"""

from collections.abc import Mapping
from typing import Any, Final

from cluster.analytics.rollup.offset_ranges import OffsetRange

Offsets = Mapping[int, int]
"""The first unread offset by partition. A missing partition has been read up to 0."""

_MAX: Final = 1 << 63


def to_json(offsets: Offsets) -> dict[str, int]:
    """The offsets in the form that Spark stores, in the order of partitions."""
    return {str(number): offsets[number] for number in sorted(offsets)}


def from_json(found: Any) -> dict[int, int]:
    """Parse a text of `to_json`. Raises ValueError for anything else."""
    if not isinstance(found, dict):
        raise ValueError("no offsets by partition")  # noqa: TRY004  # as for any other text
    offsets = {int(number): offset for number, offset in found.items()}
    for number, offset in offsets.items():
        is_number = isinstance(offset, int) and not isinstance(offset, bool)
        if number < 0 or not is_number or not 0 <= offset < _MAX:
            raise ValueError(f"partition {number} has no offset {offset!r}")
    return offsets


def are_equal(one: Offsets, other: Offsets) -> bool:
    """Whether both positions are the same. A partition of which nothing was read may be missing."""
    return all(one.get(number, 0) == other.get(number, 0) for number in {*one, *other})


def fallen(start: Offsets, ends: Offsets) -> int | None:
    """The first partition that ends before the position; None if there is none.

    This does not happen to an existing topic: somebody deleted and recreated it.
    """
    return min((number for number, at in start.items() if ends.get(number, 0) < at), default=None)


def next_offsets(start: Offsets, ends: Offsets, most: int | None = None) -> dict[int, int]:
    """The end of a batch that begins at `start` and reads at most `most` records; None for all.

    Each partition gets the same share of its backlog, so that a long backlog is read from its
    oldest records to its newest, and not one partition after the other.
    """
    backlogs = {number: max(0, end - start.get(number, 0)) for number, end in ends.items()}
    total = sum(backlogs.values())
    chosen = {**start, **{number: start.get(number, 0) + size for number, size in backlogs.items()}}
    if most is None or total <= most:
        return chosen
    spent = 0
    seen = 0
    for number in sorted(backlogs):
        seen += backlogs[number]
        upto = seen * most // total  # of the whole limit, so that rounding loses no record
        chosen[number] = start.get(number, 0) + upto - spent
        spent = upto
    return chosen


def ranges_between(start: Offsets, end: Offsets) -> tuple[OffsetRange, ...]:
    """The nonempty ranges of a batch."""
    ranges = (OffsetRange(number, start.get(number, 0), end[number]) for number in sorted(end))
    return tuple(each for each in ranges if each.size > 0)


def records_between(start: Offsets, end: Offsets) -> int:
    """The number of offsets between both positions, which is at least the number of records."""
    return sum(each.size for each in ranges_between(start, end))
