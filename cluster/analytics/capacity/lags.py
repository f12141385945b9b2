"""Whether groups fall behind or catch up, and how long catching up will take. Pure."""

import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from cluster.analytics.capacity.history import GONE_S, WindowHistory
from cluster.analytics.capacity.trends import DAY_S, HOUR_S
from cluster.analytics.windows.kinds import LAG

_SAME_SHARE: Final = 0.01
"""Rates that differ by less count as equal: the lag is steady."""
_IN_FLIGHT_S: Final = 10
"""Records of this many seconds may not be committed yet: clients commit every 5 s."""
_RECENT_SHARE: Final = 0.25


@dataclass(frozen=True, slots=True)
class GroupPace:
    """One group over all its partitions, in the last part of the history."""

    group: str
    partitions: int
    lag: int
    """The last reported number of records."""
    produced_per_s: float | None
    consumed_per_s: float | None
    """None with a single window."""
    verdict: str
    """`falls behind`, `catches up`, `steady`, `up to date`, `at rest` or `unknown`."""
    caught_up_in_s: float | None
    """None if it never catches up at this pace, or already has."""

    @property
    def is_never(self) -> bool:
        """Whether there is lag that will not end at this pace."""
        return self.lag > 0 and self.verdict in {"falls behind", "steady", "at rest"}


@dataclass(frozen=True, slots=True)
class Lags:
    """Groups that fall behind come first, then those with the largest lag."""

    groups: list[GroupPace]
    recent_s: int
    how: str


def lags(history: WindowHistory) -> Lags:
    """The pace of every group with committed offsets at the end of the history."""
    names = ("group", "topic", "partition", "lag_last", "log_end_max", "committed_max")
    recent_s = int(max(HOUR_S, min(DAY_S, history.span_s * _RECENT_SHARE)))
    is_fine = LAG.name in history.fine
    width_s = history.width_s(LAG) if is_fine else HOUR_S
    since_s = (history.end_s - recent_s - 1) // width_s * width_s
    rows_of: dict[tuple[str, str, int], list[dict[str, Any]]] = defaultdict(list)
    for row in history.rows(LAG, *names, fine=is_fine, since_s=since_s):
        rows_of[row["group"], row["topic"], row["partition"]].append(row)
    groups: dict[str, list[list[dict[str, Any]]]] = defaultdict(list)
    for (group, _, _), rows in rows_of.items():
        if rows[-1]["start_s"] + width_s > history.end_s - GONE_S:
            groups[group].append(rows)
    found = [_pace(group, parts) for group, parts in groups.items()]
    found.sort(key=lambda each: (each.verdict != "falls behind", -each.lag, each.group))
    return Lags(
        found,
        recent_s,
        f"over the last {recent_s / HOUR_S:.1f} hours, from windows of {width_s} s: records by"
        " which log_end_max (produced) and committed_max (consumed) move on from window to"
        " window, over all partitions; time to catch up = lag / (consumed - produced a second)."
        " Rates within 1 % of each other are the same",
    )


def _pace(group: str, parts: Sequence[list[dict[str, Any]]]) -> GroupPace:
    lag = sum(rows[-1]["lag_last"] or 0 for rows in parts)
    seconds = max(rows[-1]["start_s"] for rows in parts) - min(rows[0]["start_s"] for rows in parts)
    if seconds <= 0:
        return GroupPace(group, len(parts), lag, None, None, "unknown", None)
    produced, consumed = (
        sum(_moved(rows, name) for rows in parts) / seconds
        for name in ("log_end_max", "committed_max")
    )
    verdict = _verdict(lag, produced, consumed)
    caught_up = lag / (consumed - produced) if verdict == "catches up" else None
    return GroupPace(group, len(parts), lag, produced, consumed, verdict, caught_up)


def _moved(rows: Sequence[dict[str, Any]], name: str) -> float:
    """The growth of offsets. They fall if the topic was recreated or the offsets were reset."""
    offsets = [row[name] for row in rows if row[name] is not None]
    return float(sum(max(0, after - before) for before, after in itertools.pairwise(offsets)))


def _verdict(lag: int, produced: float, consumed: float) -> str:
    if produced == consumed == 0:
        return "at rest" if lag else "up to date"
    if lag <= _IN_FLIGHT_S * produced:
        return "up to date"
    if produced - consumed > _SAME_SHARE * produced:
        return "falls behind"
    return "catches up" if consumed - produced > _SAME_SHARE * consumed else "steady"
