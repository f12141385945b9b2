"""How far a stream has read each partition, and how far its next batch goes.

Pure. Spark keeps these offsets as JSON and compares them as text, so equal ones have equal text.
"""

from collections.abc import Mapping
from typing import Any, Final

from cluster.analytics.rollup.offset_ranges import OffsetRange

Offsets = Mapping[int, int]
"""By partition the first offset that has not been read. One that is missing has been read to 0."""

_MAX: Final = 1 << 63


def to_json(offsets: Offsets) -> dict[str, int]:
    """The offsets in the form that Spark stores, in the order of partitions."""
    return {str(number): offsets[number] for number in sorted(offsets)}


def from_json(found: Any) -> dict[int, int]:
    """The offsets out of what `to_json` made. Raises ValueError for anything else."""
    if not isinstance(found, dict):
        raise ValueError("no offsets by partition")  # noqa: TRY004  # as for any other text
    offsets = {int(number): offset for number, offset in found.items()}
    for number, offset in offsets.items():
        is_number = isinstance(offset, int) and not isinstance(offset, bool)
        if number < 0 or not is_number or not 0 <= offset < _MAX:
            raise ValueError(f"partition {number} has no offset {offset!r}")
    return offsets


def are_equal(one: Offsets, other: Offsets) -> bool:
    """Whether both have read the same. A partition of which nothing was read may be missing."""
    return all(one.get(number, 0) == other.get(number, 0) for number in {*one, *other})


def fallen(start: Offsets, ends: Offsets) -> int | None:
    """The first partition that ends before the place that was read; None if there is none.

    No partition of a topic that still exists does: somebody deleted it and made it again.
    """
    return min((number for number, at in start.items() if ends.get(number, 0) < at), default=None)


def next_offsets(start: Offsets, ends: Offsets, most: int | None = None) -> dict[int, int]:
    """Where a batch ends that begins at `start` and reads at most so many records; None for all.

    What there is to read of each partition gets the same share of it, so that a long backlog is
    read from its oldest records to its newest, and not one partition after the other.
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
    """What a batch reads, without empty ranges."""
    ranges = (OffsetRange(number, start.get(number, 0), end[number]) for number in sorted(end))
    return tuple(each for each in ranges if each.size > 0)


def records_between(start: Offsets, end: Offsets) -> int:
    """How many offsets lie between the two: at least as many as there are records."""
    return sum(each.size for each in ranges_between(start, end))
