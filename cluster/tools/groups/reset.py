"""Where `groups --reset-offsets` sets a group: targets, partitions, times and files. Pure."""

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Final

from cluster.client.topic_requests import Place
from cluster.tools.arguments import UsageError

_DURATION: Final = re.compile(
    r"P(?!$)(?:(\d+)D)?(?:T(?!$)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?"
)


def chosen_places(topics: Iterable[str], counts: Mapping[str, int]) -> list[Place]:
    """The partitions that `--topic` names: all of a topic, or `orders:0,2`.

    `counts` has the partitions of every topic. Raises UsageError for one that does not exist.
    """
    places: dict[Place, None] = {}
    for text in topics:
        name, numbers = named_partitions(text)
        if name not in counts:
            raise UsageError(f"there is no topic {name}")
        for number in range(counts[name]) if numbers is None else numbers:
            if number >= counts[name]:
                raise UsageError(f"topic {name} has no partition {number}")
            places[Place(name, number)] = None
    return list(places)


def named_partitions(text: str) -> tuple[str, list[int] | None]:
    """Topic and numbers of `orders:0,2`; None for all partitions. Raises UsageError."""
    name, colon, numbers = text.rpartition(":")
    if not colon:
        return text, None
    if not re.fullmatch(r"\d{1,9}(,\d{1,9})*", numbers):
        raise UsageError(f"--topic {text} is not valid: it must be TOPIC or TOPIC:0,1,2")
    return name, [int(number) for number in numbers.split(",")]


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
    try:
        duration = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    except OverflowError:  # millions of years
        raise UsageError(f"--by-duration {text} is not valid: it is too long") from None
    return duration // timedelta(milliseconds=1)


def as_csv(offsets: Mapping[Place, int], group: str | None) -> str:
    """What `--export` prints and `--from-file` reads: topic, partition, offset; with the group in
    front of them where there are several."""
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    first = () if group is None else (group,)
    writer.writerows((*first, *place, offset) for place, offset in sorted(offsets.items()))
    return out.getvalue()


def from_csv(text: str, name: str, groups: Sequence[str]) -> dict[str, dict[Place, int]]:
    """Offsets by group: a file of one group does not name it, one of several names each.

    Raises UsageError, which names the file and the line.
    """
    form = "topic,partition,offset" if len(groups) == 1 else "group,topic,partition,offset"
    found: dict[str, dict[Place, int]] = {}
    rows = csv.reader(StringIO(text))
    try:
        for row in rows:
            if row:
                group, topic, partition, offset = (*groups, *row) if len(groups) == 1 else row
                found.setdefault(group, {})[Place(topic, int(partition))] = int(offset)
    except (ValueError, csv.Error):
        raise UsageError(f"{name}, line {rows.line_num} is not valid: it must be {form}") from None
    return found
