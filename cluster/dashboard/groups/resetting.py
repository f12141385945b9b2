"""A reset of offsets on the page: its form in a request, its preview, its command line. Pure."""

import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from cluster.client.topic_requests import Place
from cluster.dashboard.groups.source import Reset
from cluster.dashboard.http_requests import BadRequest, number_in
from cluster.dashboard.sources import Json
from cluster.model.errors import UserError
from cluster.model.printable import one_line
from cluster.views.groups.described_groups import EMPTY, Group
from cluster.views.groups.new_offsets import NewOffsets, Target

TARGETS: Final = (Target.EARLIEST, Target.LATEST, Target.TIME, Target.OFFSET, Target.SHIFT)
ROWS_MAX: Final = 200
_NAMED_MAX: Final = 3
_AMOUNT_MAX: Final = 2**63 - 1
_TIME_MAX_MS: Final = 253_402_300_799_999
"""The end of the year 9999."""
_LIMITS: Final = {
    Target.OFFSET: (0, _AMOUNT_MAX),
    Target.SHIFT: (-_AMOUNT_MAX, _AMOUNT_MAX),
    Target.TIME: (0, _TIME_MAX_MS),
}


def reset_of(given: Mapping[str, Any]) -> Reset:
    """The reset in a request: `group`, `target`, `amount`, `topic`. Raises BadRequest."""
    group, topic = given.get("group"), given.get("topic") or None
    if not isinstance(group, str) or not (topic is None or isinstance(topic, str)):
        raise BadRequest("`group` and `topic` are names")
    names = {each.value: each for each in TARGETS}
    target = names.get(str(given.get("target")))
    if target is None:
        raise BadRequest(f"a target is one of {', '.join(names)}")
    if target not in _LIMITS:
        return Reset(group, target, 0, topic)
    low, high = _LIMITS[target]
    try:
        amount = int(str(given.get("amount")).strip())
    except ValueError:
        number = number_in(given.get("amount"))
        raise BadRequest(f"{number:g} is not a whole number") from None
    if not low <= amount <= high:
        raise BadRequest(f"{amount} is not from {low} to {high}")
    return Reset(group, target, amount, topic)


def check_resettable(group: Group) -> None:
    """Raises UserError for a group with members, which it names."""
    blocked = why_not(group)
    if blocked:
        raise UserError(blocked)


def why_not(group: Group) -> str:
    """Who has to leave before the offsets of a group can be set; empty if nobody has to."""
    if group.state == EMPTY:
        return ""
    names = [
        f"{one_line(each.client_id)} at {one_line(each.host.lstrip('/'))}"
        for each in sorted(group.members, key=lambda each: each.client_id)
    ]
    more = len(names) - _NAMED_MAX
    who = ", ".join(names[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
    count = f"{len(names)} member{'' if len(names) == 1 else 's'}"
    return (
        f"Offsets can be set only while the group has no members; it is {group.state} with"
        f" {count}{f': {who}' if who else ''}. Stop them first."
    )


def reset_view(
    reset: Reset, current: Mapping[Place, int], found: NewOffsets, blocked: str, program: str
) -> Json:
    """Each partition with its offset before and after; `blocked` says why it cannot be done now."""
    rows = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "from": current.get(place),
            "to": offset,
        }
        for place, offset in sorted(found.offsets.items())
    ]
    return {
        "rows": rows[:ROWS_MAX],
        "left_out": max(0, len(rows) - ROWS_MAX),
        "changed": sum(row["from"] != row["to"] for row in rows),
        "partitions": len(rows),
        "topics": sorted({place.topic for place in current}),
        "warnings": found.warnings[:ROWS_MAX],
        "blocked": blocked,
        "command": reset_command(program, reset),
    }


def reset_command(program: str, reset: Reset) -> str:
    """The command line that does the same. `program` is the launcher, quoted for a shell."""
    topics = ["--all-topics"] if reset.topic is None else [f"--topic={reset.topic}"]
    option = f"--{reset.target.value}"
    match reset.target:
        case Target.TIME:
            moment = datetime.fromtimestamp(reset.amount / 1_000, UTC)
            option += f"={moment:%Y-%m-%dT%H:%M:%S}.{reset.amount % 1_000:03}"
        case Target.OFFSET | Target.SHIFT:
            option += f"={reset.amount}"
    words = ["--reset-offsets", f"--group={reset.group}", *topics, option, "--execute"]
    return f"{program} groups {shlex.join(words)}"


def done_text(reset: Reset, found: NewOffsets) -> str:
    count = len(found.offsets)
    return (
        f"Group {one_line(reset.group)}: the offsets of {count} partition"
        f"{'' if count == 1 else 's'} are set."
    )
