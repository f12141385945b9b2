"""Where `groups --reset-offsets` sets a group: targets, partitions, times and files. Pure."""

import csv
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Final

from cluster.tools.arguments import UsageError
from cluster.tools.groups.requests import Place

_DURATION: Final = re.compile(
    r"P(?!$)(?:(\d+)D)?(?:T(?!$)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?"
)


def chosen_places(topics: Iterable[str], counts: Mapping[str, int]) -> list[Place]:
    """The partitions that `--topic` names: all of a topic, or `orders:0,2`.

    `counts` has the partitions of every topic. Raises UsageError for one that does not exist.
    """
    places: dict[Place, None] = {}
    for text in topics:
        name, colon, numbers = text.rpartition(":")
        if not colon:
            name, numbers = text, ""
        if name not in counts:
            raise UsageError(f"there is no topic {name}")
        if colon and not re.fullmatch(r"\d+(,\d+)*", numbers):
            raise UsageError(f"--topic {text} is not valid: it must be TOPIC or TOPIC:0,1,2")
        wanted = map(int, numbers.split(",")) if colon else range(counts[name])
        for number in wanted:
            if number >= counts[name]:
                raise UsageError(f"topic {name} has no partition {number}")
            places[Place(name, number)] = None
    return list(places)


def timestamp_of(text: str) -> int:
    """Milliseconds of `--to-datetime`: YYYY-MM-DDTHH:mm:SS.sss, in UTC unless it says otherwise.

    Raises UsageError.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"--to-datetime {text} is not valid: it must be YYYY-MM-DDTHH:mm:SS.sss"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def duration_of(text: str) -> int:
    """Milliseconds of `--by-duration`: PnDTnHnMnS. Raises UsageError."""
    matched = _DURATION.fullmatch(text)
    if matched is None:
        raise UsageError(f"--by-duration {text} is not valid: it must be PnDTnHnMnS")
    days, hours, minutes, seconds = (float(part or 0) for part in matched.groups())
    duration = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    return duration // timedelta(milliseconds=1)


def within(
    wanted: Mapping[Place, int], earliest: Mapping[Place, int], latest: Mapping[Place, int]
) -> tuple[dict[Place, int], list[str]]:
    """The wanted offsets, those outside a partition moved to its nearer end, and a line for each.

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
    return offsets, warnings


def as_csv(offsets: Mapping[Place, int]) -> str:
    """What `--export` prints and `--from-file` reads: topic, partition, offset."""
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows((*place, offset) for place, offset in sorted(offsets.items()))
    return out.getvalue()


def from_csv(text: str, name: str) -> dict[Place, int]:
    """Raises UsageError, which names the file and the line."""
    found = {}
    for number, row in enumerate(csv.reader(StringIO(text)), start=1):
        if not row:
            continue
        try:
            topic, partition, offset = row
            found[Place(topic, int(partition))] = int(offset)
        except ValueError:
            raise UsageError(
                f"{name}, line {number} is not valid: it must be topic,partition,offset"
            ) from None
    return found
