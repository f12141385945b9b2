"""The lag of groups, read from the brokers' stats files, and tables of it.

It sends no request. The data is up to `milena.metrics.group.interval.ms` old.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cluster.model.printable import one_line
from cluster.runtime.text_table import table_text
from cluster.views.client_states import BrokerStats
from cluster.views.quantities import duration

GROUP_COLUMNS: Final = ("GROUP", "TYPE", "STATE", "MEMBERS", "PARTITIONS", "LAG")
_GROUP_AMOUNTS: Final = GROUP_COLUMNS[3:]
LAG_COLUMNS: Final = ("GROUP", "TOPIC", "PARTITION", "COMMITTED", "LOG-END", "LAG")
_LAG_AMOUNTS: Final = LAG_COLUMNS[2:]
_OUTLIVES_MS: Final = 30_000
"""How long a dead broker's last figures of a group count, unless another broker coordinates the
group: until the group would have been deleted."""


REBALANCING: Final = (
    *("PreparingRebalance", "CompletingRebalance"),
    *("Assigning", "Reconciling"),
)
"""The states of groups of both protocols in which some members have no or old assignments."""


@dataclass(frozen=True, slots=True)
class GroupLags:
    """One group: the fields of its metric record, and those of its partitions."""

    fields: Mapping[str, Any]
    partitions: list[Mapping[str, Any]] = field(default_factory=list)
    """By topic and number."""

    @property
    def name(self) -> str:
        """Its id on one line."""
        return shown_group(str(self.fields["group"]))

    @property
    def lag(self) -> int:
        """The lag of all partitions whose end is known."""
        return int(self.fields["lag"])

    def to_json(self) -> dict[str, Any]:
        """The fields that `--json` prints (docs/metrics.md)."""
        kept = _without(self.fields, "v", "kind")
        own = ("v", "kind", "ts", "interval_ms", "broker", "group")
        return {**kept, "lags": [_without(each, *own) for each in self.partitions]}


def shown_group(group_id: str) -> str:
    """A group id on one line."""
    return one_line(group_id) or "(empty id)"


def rebalancing_ms(fields: Mapping[str, Any]) -> float:
    """The time that a group spent rebalancing in the interval of its record."""
    times: Mapping[str, float] = fields["state_ms"]
    return sum(spent for state, spent in times.items() if state in REBALANCING)


def _without(fields: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}


def group_lags(brokers: Sequence[BrokerStats], now_ms: int) -> list[GroupLags]:
    """Every group that a broker coordinates, those with the largest lag first.

    If two brokers have the same group, the later record counts. `now_ms` is wall-clock time.
    """
    found: dict[str, GroupLags] = {}
    for broker in brokers:
        own: dict[str, GroupLags] = {}
        for line in _records(broker.stats.groups):
            if line["kind"] == "group":
                own[line["group"]] = GroupLags(line)
            elif line["group"] in own:
                own[line["group"]].partitions.append(line)
        for name, group in own.items():
            if broker.is_dead and now_ms - group.fields["ts"] > _OUTLIVES_MS:
                continue
            other = found.get(name)
            if other is None or other.fields["ts"] < group.fields["ts"]:
                found[name] = group
    return sorted(found.values(), key=lambda each: (-each.lag, each.name))


def _records(lines: bytes) -> Iterator[dict[str, Any]]:
    for line in lines.splitlines():
        try:
            record = json.loads(line)
        except ValueError:  # written by another version
            continue
        if isinstance(record, dict) and record.get("kind") in ("group", "lag"):
            yield record


def groups_table(groups: Iterable[GroupLags], *, indent: str = "") -> str:
    """A row for each group."""
    return table_text(
        GROUP_COLUMNS, [_row(each) for each in groups], right=_GROUP_AMOUNTS, indent=indent
    )


def _row(group: GroupLags) -> tuple[str, ...]:
    fields = group.fields
    unknown = fields["partitions_unknown"]
    return (
        group.name,
        str(fields["type"]),
        str(fields["state"]),
        f"{fields['members']:,}",
        f"{fields['partitions']:,}",
        f"{group.lag:,}" + (f" + {unknown} unknown" if unknown else ""),
    )


def lags_table(groups: Iterable[GroupLags], at_most: int | None = None) -> str:
    """A row for each partition of each group; with a limit, those with the largest lag."""
    rows = [(group, each) for group in groups for each in group.partitions]
    if at_most is not None:
        rows.sort(key=lambda row: -(row[1]["lag"] or 0))
        rows = rows[:at_most]
    return table_text(
        LAG_COLUMNS,
        [
            (
                group.name,
                one_line(str(each["topic"])),
                str(each["partition"]),
                *(_shown(each[name]) for name in ("committed", "log_end", "lag")),
            )
            for group, each in rows
        ],
        right=_LAG_AMOUNTS,
    )


def states_line(group: GroupLags) -> str:
    """`Stable 4.8 s, PreparingRebalance 200 ms`: within the last interval."""
    times = sorted(group.fields["state_ms"].items(), key=lambda each: -each[1])
    return ", ".join(f"{state} {duration(spent_ms)}" for state, spent_ms in times)


def _shown(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"
