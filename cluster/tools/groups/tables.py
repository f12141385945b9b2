"""What `groups --describe` and `--list` print, column for column as kafka-consumer-groups. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from cluster.client.topic_requests import Place, by_topic
from cluster.model.error_codes import ErrorCode
from cluster.model.printable import one_line
from cluster.views.groups.described_groups import Group, Member

_NOTHING: Final = "-"
_TEXT_MIN: Final = 15
"""Columns of names are as wide as their longest cell, and at least this."""
_ASSIGNMENT_MIN: Final = -20
"""Of assignments at least 20: a negative width."""


def listed(
    names: Iterable[str], types: Mapping[str, str] | None, states: Mapping[str, str] | None
) -> str:
    """The names of groups, or a table of them with what is given of types and states."""
    ordered = sorted(names)
    if types is None and states is None:
        return "".join(f"{one_line(name)}\n" for name in ordered)
    width = max([_TEXT_MIN, *(len(one_line(name)) for name in ordered)]) + 10
    columns: list[tuple[str, int | None]] = [("GROUP", width)]
    facts = []
    for heading, fact in (("TYPE", types), ("STATE", states)):
        if fact is not None:
            columns.append((heading, 20))
            facts.append(fact)
    return _table(columns, [(name, *(fact[name] for fact in facts)) for name in ordered])


def deleted_offsets_table(outcomes: Mapping[tuple[str, int | None], ErrorCode]) -> str:
    """A row for each partition; of a topic that does not exist, one without a number."""
    columns = (("TOPIC", 30), ("PARTITION", 15), ("STATUS", 0))
    ordered = sorted(outcomes.items(), key=lambda each: (each[0][0], each[0][1] or 0))
    rows = [
        (
            topic,
            "Not Provided" if number is None else str(number),
            f"Error: {error.name.upper()}" if error else "Successful",
        )
        for (topic, number), error in ordered
    ]
    return _table(columns, rows)


def offsets_table(
    group: Group,
    committed: Mapping[Place, int],
    ends: Mapping[Place, int],
    epochs: Mapping[Place, int] | None = None,
) -> str:
    """A row for each partition that is committed or assigned: its offset, lag and member.

    With `epochs` also the leader epochs of the offsets, where a group has committed them.
    """
    owners = {place: member for member in group.members for place in member.assignment}
    rows = []
    for place in sorted({*committed, *owners}):
        offset, end, owner = committed.get(place), ends.get(place), owners.get(place)
        lag = None if offset is None or end is None else end - offset
        rows.append(
            (
                group.name,
                place.topic,
                str(place.partition),
                *(() if epochs is None else (_shown(epochs.get(place)),)),
                _shown(offset),
                _shown(end),
                _shown(lag),
                *(
                    (_NOTHING, _NOTHING, _NOTHING)
                    if owner is None
                    else (owner.member_id, owner.host, owner.client_id)
                ),
            )
        )
    columns = (
        ("GROUP", None),
        ("TOPIC", None),
        ("PARTITION", 10),
        *(() if epochs is None else (("LEADER-EPOCH", 15),)),
        ("CURRENT-OFFSET", 15),
        ("LOG-END-OFFSET", 15),
        ("LAG", 15),
        ("CONSUMER-ID", None),
        ("HOST", None),
        ("CLIENT-ID", 0),
    )
    return _table(columns, rows)


def members_table(group: Group, *, is_verbose: bool) -> str:
    """A row for each member; instance ids where a member has one, assignments when verbose.

    Of a group of the newer consumer protocol also epochs, and what each member is to have: columns
    of Kafka 4.1.
    """
    has_instances = any(member.instance_id for member in group.members)
    columns: list[tuple[str, int | None]] = [("GROUP", None), ("CONSUMER-ID", None)]
    if has_instances:
        columns.append(("GROUP-INSTANCE-ID", None))
    columns += [("HOST", None), ("CLIENT-ID", None), ("#PARTITIONS", 15)]
    is_mixed = len({member.is_classic for member in group.members}) > 1
    if is_verbose and not group.is_newer:
        columns.append(("ASSIGNMENT", 0))
    elif is_verbose:
        columns += [("CURRENT-EPOCH", 15), ("CURRENT-ASSIGNMENT", _ASSIGNMENT_MIN)]
        columns += [("TARGET-EPOCH", 15), ("TARGET-ASSIGNMENT", _ASSIGNMENT_MIN)]
        columns += [("UPGRADED", 0)] if is_mixed else []
    rows = []
    for member in sorted(group.members, key=lambda each: -len(each.assignment)):
        row = [group.name, member.member_id]
        if has_instances:
            row.append(member.instance_id or "")
        row += [member.host, member.client_id, str(len(member.assignment))]
        if is_verbose and not group.is_newer:
            row.append(_assignment(member))
        elif is_verbose:
            row += [_shown(member.epoch), _listed_places(member.assignment)]
            row += [_shown(group.target_epoch), _listed_places(member.target)]
            row += ["false" if member.is_classic else "true"] if is_mixed else []
        rows.append(row)
    return _table(columns, rows)


def state_table(group: Group, *, is_verbose: bool) -> str:
    """One row: coordinator, assignor, state and the number of members; epochs when verbose."""
    columns: list[tuple[str, int | None]] = [
        ("GROUP", None),
        ("COORDINATOR (ID)", 25),
        ("ASSIGNMENT-STRATEGY", 20),
        ("STATE", 20 if group.is_newer else 15),
    ]
    row = [group.name, group.coordinator, group.assignor, group.state]
    if is_verbose:
        columns += [("GROUP-EPOCH", 15), ("TARGET-ASSIGNMENT-EPOCH", 25)]
        row += [_shown(group.epoch), _shown(group.target_epoch)]
    return _table([*columns, ("#MEMBERS", 0)], [[*row, str(len(group.members))]])


def reset_table(group: str, offsets: Mapping[Place, int]) -> str:
    """A row for each partition with its new offset."""
    columns = (("GROUP", 30), ("TOPIC", 30), ("PARTITION", 10), ("NEW-OFFSET", 15))
    rows = [
        (group, place.topic, str(place.partition), str(offset))
        for place, offset in sorted(offsets.items())
    ]
    return _table(columns, rows)


def _assignment(member: Member) -> str:
    """`orders(0,1), audit(2)`."""
    parts = [
        f"{topic}({','.join(map(str, numbers))})"
        for topic, numbers in by_topic(sorted(member.assignment)).items()
    ]
    return ", ".join(parts) or _NOTHING


def _listed_places(places: Iterable[Place]) -> str:
    """`audit:2;orders:0,1`."""
    parts = [
        f"{topic}:{','.join(map(str, numbers))}"
        for topic, numbers in by_topic(sorted(places)).items()
    ]
    return ";".join(parts) or _NOTHING


def _shown(number: int | None) -> str:
    return _NOTHING if number is None else str(number)


def _table(columns: Sequence[tuple[str, int | None]], rows: Iterable[Sequence[str]]) -> str:
    """Cells aligned to the left. A width of None follows the cells, so does a negative one, which
    says how wide they are at least; 0 is that of a last column."""
    lines = [tuple(name for name, _ in columns)]
    lines += [tuple(one_line(cell) for cell in row) for row in rows]
    widths = [
        max(_TEXT_MIN if width is None else -width, *(len(line[number]) for line in lines))
        if width is None or width < 0
        else width
        for number, (_, width) in enumerate(columns)
    ]
    return "".join(
        " ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        + "\n"
        for line in lines
    )
