"""The clients that a limit would have throttled, and how often, from quota windows. Pure, without
Spark.

As `quotas recommend --if` counts it for client ids: a limit of a client id applies if no rule or a
less specific one held; clients with a shared budget each get their share.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from cluster.analytics.capacity.history import WindowHistory
from cluster.analytics.windows.histogram import rates_of
from cluster.analytics.windows.kinds import QUOTA
from cluster.model.quotas import RULES

Runs = list[tuple[float, int]]
"""Rates, and the number of seconds with each."""

LEVEL: Final = "client"
_BY_USER: Final = ("user", "default-user")
_BY_CLIENT: Final = ("client", "default-client")
HOW: Final = (
    "quota windows of {width} s at each broker: a window counts if its highest rate (rate_max),"
    " scaled, is above the limit; seconds from its histogram (error at most 0.4 %). Of a client id"
    " of several users the highest rates are added to the highest. A client that is throttled"
    " now may want more than was measured"
)


@dataclass(frozen=True, slots=True)
class Throttled:
    """One client id under one quota."""

    client_id: str
    quota: str
    limit: float
    windows_over: int
    windows: int
    """Counted for each broker."""
    seconds_over: int
    seconds: int
    rate_max: float
    """At one broker, with the supposed growth and brokers."""


def throttled(
    history: WindowHistory, limits: Mapping[str, float], factors: Mapping[int, float]
) -> list[Throttled]:
    """Every client id that was active in a quota with a limit, the most throttled first.

    `factors` are by broker: the supposed rate relative to the measured one; windows of other
    brokers are left out.
    """
    names = ("broker", "user", "client_id", "quota", "rule", "limit")
    rows = [
        row
        for row in history.rows(
            QUOTA, *names, "usage_exact", "rate_max", "records", "histogram", fine=True
        )
        if row["quota"] in limits and row["broker"] in factors
    ]
    _add_shares(rows)
    rates = _bucket_rates(rows)
    active: dict[tuple[str, str], dict[tuple[int, int], dict[str, Runs]]]
    active = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for row in rows:
        if row["rule"] is not None and RULES.index(row["rule"]) < RULES.index(LEVEL):
            continue
        scale = row["share"] * factors[row["broker"]]
        place = (row["start_s"], row["broker"])
        runs = active[row["client_id"] or "", row["quota"]][place][row["user"] or ""]
        runs += [(rate * scale, count) for rate, count in _runs(row, rates)]
    found = [
        _counted(client_id, quota, limits[quota], list(places.values()))
        for (client_id, quota), places in active.items()
    ]
    return sorted(
        found, key=lambda each: (-each.windows_over / each.windows, -each.rate_max, each.client_id)
    )


def _counted(client_id: str, quota: str, limit: float, places: list[dict[str, Runs]]) -> Throttled:
    windows_over = seconds_over = seconds = 0
    highest = 0.0
    for of_users in places:
        added = _added([sorted(runs, reverse=True) for runs in of_users.values()])
        over = sum(count for rate, count in added if rate > limit)
        seconds += sum(count for _, count in added)
        seconds_over += over
        windows_over += over > 0
        highest = max(highest, added[0][0])
    return Throttled(
        client_id, quota, limit, windows_over, len(places), seconds_over, seconds, highest
    )


def _added(of_users: list[Runs]) -> Runs:
    """Adds the highest seconds to the highest; every list begins with its highest."""
    if len(of_users) == 1:
        return of_users[0]
    places = sorted({end for runs in of_users for end in _ends(runs)})
    added, begin = [], 0
    for end in places:
        added.append((sum(_rate_at(runs, begin) for runs in of_users), end - begin))
        begin = end
    return added


def _ends(runs: Runs) -> Iterator[int]:
    return itertools.accumulate(count for _, count in runs)


def _rate_at(runs: Runs, place: int) -> float:
    """0 beyond the last."""
    return next((run[0] for run, end in zip(runs, _ends(runs), strict=True) if place < end), 0.0)


def _add_shares(rows: list[dict[str, Any]]) -> None:
    """Add to each window its share in the usage of the budget."""
    budgets: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        budgets[
            *(row["start_s"], row["broker"], row["quota"], row["rule"], row["limit"]),
            None if row["rule"] in _BY_CLIENT else row["user"],
            None if row["rule"] in _BY_USER else row["client_id"],
        ].append(row)
    for together in budgets.values():
        used = sum(row["usage_exact"] or 0.0 for row in together)
        for row in together:
            row["share"] = (row["usage_exact"] or 0.0) / used if used else 1 / len(together)


def _bucket_rates(rows: list[dict[str, Any]]) -> dict[int, float]:
    codes = sorted({bucket for row in rows for bucket, _ in row["histogram"] or ()})
    return dict(zip(codes, rates_of(pa.array(codes, pa.int32())).to_pylist(), strict=True))


def _runs(row: dict[str, Any], rates: Mapping[int, float]) -> Runs:
    """The runs of one window. Without its histogram, its highest rate stands for every second."""
    highest, records = row["rate_max"] or 0.0, row["records"] or 1
    told = sorted(row["histogram"] or (), reverse=True)
    if sum(count for _, count in told) != records:
        return [(highest, records)]
    rest = [(min(highest, rates[bucket]), count) for bucket, count in told]
    rest[0] = (rest[0][0], rest[0][1] - 1)
    return [(highest, 1), *(run for run in rest if run[1])]  # exact, unlike a bucket
