"""Where a reset sets the offsets of a group."""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from cluster.client.admin import Admin
from cluster.client.record_requests import EARLIEST, LATEST, offsets_at
from cluster.client.topic_requests import Place
from cluster.model.errors import UserError
from cluster.model.printable import one_line

_NAMED_MAX: Final = 20
"""Partitions in one message."""


class Target(Enum):
    """The ways to say where, named as the options of `groups --reset-offsets`."""

    EARLIEST = "to-earliest"
    LATEST = "to-latest"
    CURRENT = "to-current"
    """The committed offset; the end where there is none."""
    OFFSET = "to-offset"
    SHIFT = "shift-by"
    TIME = "to-datetime"
    """The first record of this time or later."""


class NewOffsets(NamedTuple):
    """Offsets inside their partitions, and a line about each that had to be moved there."""

    offsets: dict[Place, int]
    warnings: list[str]


def new_offsets(
    admin: Admin,
    places: Sequence[Place],
    current: Mapping[Place, int],
    target: Target,
    amount: int = 0,
) -> NewOffsets:
    """The offsets of these partitions. Raises Refused, and UserError for what cannot be shifted.

    `amount` is an offset, a number of records or a time in ms; `current` has the
    committed offsets.
    """
    earliest = earliest_offsets(admin, places)
    latest = latest_offsets(admin, places)
    match target:
        case Target.EARLIEST:
            return NewOffsets(earliest, [])
        case Target.LATEST:
            return NewOffsets(latest, [])
        case Target.CURRENT:
            wanted = {place: current.get(place, latest[place]) for place in places}
        case Target.OFFSET:
            wanted = dict.fromkeys(places, amount)
        case Target.SHIFT:
            wanted = shifted(places, current, amount)
        case Target.TIME:
            wanted = offsets_from(admin, places, amount)
    return within(wanted, earliest, latest)


def shifted(places: Iterable[Place], current: Mapping[Place, int], by: int) -> dict[Place, int]:
    """Each committed offset moved by that many records. Raises UserError where there is none."""
    missing = [place for place in places if place not in current]
    if missing:
        names = ", ".join(f"{place.topic}-{place.partition}" for place in missing[:_NAMED_MAX])
        more = len(missing) - _NAMED_MAX
        which = f"{one_line(names)} and {more:,} more" if more > 0 else one_line(names)
        raise UserError(f"cannot shift offsets for {which}: there is no committed offset")
    return {place: current[place] + by for place in places}


def within(
    wanted: Mapping[Place, int], earliest: Mapping[Place, int], latest: Mapping[Place, int]
) -> NewOffsets:
    """The wanted offsets, those outside a partition moved to its nearer end.

    Kafka: `checkOffsetsRange`.
    """
    offsets, warnings = {}, []
    for place, offset in wanted.items():
        nearest = min(max(offset, earliest[place]), latest[place])
        if nearest > offset:
            kind = "lower than earliest offset"
        elif nearest < offset:
            kind = "higher than latest offset"
        else:
            kind = ""
        if kind:
            warnings.append(
                f"New offset ({offset}) is {kind} for topic partition"
                f" {place.topic}-{place.partition}. Value will be set to {nearest}"
            )
        offsets[place] = nearest
    return NewOffsets(offsets, warnings)


def earliest_offsets(admin: Admin, places: Iterable[Place]) -> dict[Place, int]:
    """Where each partition begins. Raises Refused."""
    return offsets_at(admin, places, EARLIEST)


def latest_offsets(admin: Admin, places: Iterable[Place]) -> dict[Place, int]:
    """Where each partition ends. Raises Refused."""
    return offsets_at(admin, places, LATEST)


def offsets_from(admin: Admin, places: Sequence[Place], timestamp_ms: int) -> dict[Place, int]:
    """The first record at or after a time; the end where there is none. Raises Refused.

    A time before 1970 counts as its beginning: negative ones mean something else in requests.
    """
    found = offsets_at(admin, places, max(0, timestamp_ms))
    later = [place for place in places if found[place] < 0]
    return found | (latest_offsets(admin, later) if later else {})
