"""The history with other brokers, traffic, retention or quotas. Pure."""

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from cluster.analytics.capacity import steady_disk, throttling
from cluster.analytics.capacity.busy_model import MIB, BusyModel, Load, fitted
from cluster.analytics.capacity.disks import YEAR_DAYS, disks
from cluster.analytics.capacity.growth import growth
from cluster.analytics.capacity.headroom import is_covered, quantile
from cluster.analytics.capacity.history import GONE_S, WindowHistory
from cluster.analytics.capacity.report import CoveredPeriod
from cluster.analytics.capacity.scenario import (
    ImpossibleScenario,
    Scenario,
    Spread,
    average,
    spread,
)
from cluster.analytics.capacity.topics import topics_now
from cluster.analytics.capacity.trends import DAY_S, Trend
from cluster.analytics.windows.kinds import BROKER, QUOTA, TOPIC
from cluster.model.printable import one_line

HIGH: Final = 0.9
"""Capacity is planned for the busy share that a tenth of the windows exceeds."""
_NAMES_MAX: Final = 20
_CPU_HOW: Final = (
    "busy share of a broker's thread, window by window of {width} s: busy + b * (change of MiB/s,"
    " replication included) + c * (change of requests/s), with b and c fitted per broker by least"
    " squares and the unexplained part unchanged. Where R2 is below 0.5, or there are"
    " fewer than 30 windows, busy time is assumed to be proportional to the bytes. High: the 90th"
    " percentile of windows. 100 %: when the high share, with all loads grown to the end of the"
    " history, reaches 100 % if the traffic continues to grow"
)
_SPREAD_HOW: Final = (
    "partitions and leaders are moved so that each added broker takes an equal share from every"
    " other; of too many the highest ids go and their load is spread in proportion. Replicas: 1 +"
    " replication bytes / bytes in, at most one per broker"
)


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """One broker's thread and bytes, now and in the scenario; shares are 0 to 1, above 1 is too
    much.
    """

    broker: int
    is_new: bool
    windows: int
    busy_avg_now: float
    busy_high_now: float
    busy_avg: float
    busy_high: float
    windows_full: int
    """Windows in which more work would have been required than time allows."""
    client_bytes_per_s_now: float
    client_bytes_per_s: float
    replication_bytes_per_s_now: float
    replication_bytes_per_s: float
    bytes_per_s_max: float
    """The highest window in the scenario, including replication."""
    days_until_busy: float | None
    model: BusyModel


@dataclass(frozen=True, slots=True)
class Limit:
    """The limit that is reached first."""

    broker: int
    what: str
    """`100 % busy` or `a full disk`."""
    in_days: float


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The result of a scenario."""

    period: CoveredPeriod
    scenario: Scenario
    brokers_now: int
    brokers: int
    replicas_now: float
    replicas: float
    busy: list[BrokerLoad]
    disks: list[steady_disk.SteadyDisk]
    first_limit: Limit | None
    throttled: list[throttling.Throttled]
    traffic_trend: Trend
    notes: list[str]
    """What is unknown, and what a reader of the figures must know."""
    how: dict[str, str]

    def as_json(self) -> dict[str, Any]:
        """The document that `--json` prints."""
        return asdict(self)


def what_if(history: WindowHistory, scenario: Scenario) -> WhatIf:
    """Apply the scenario to the history. Raises ImpossibleScenario."""
    loads = _loads(history)
    notes: list[str] = []
    if not loads:
        if not scenario.quotas or scenario.brokers is not None:
            raise ImpossibleScenario(
                "there are no windows of brokers in this time: only a quota, with or without"
                " growth, can be answered from quota windows"
            )
        notes.append(
            "there are no windows of brokers: there are no figures of processors and disks"
        )
    _check_topics(history, scenario)
    now = {broker: average([_bytes(load) for load in each]) for broker, each in loads.items()}
    placed = spread(scenario, now, _copies(history, loads)) if loads else None
    trend = growth(history).trend
    busy: list[BrokerLoad] = []
    steady: list[steady_disk.SteadyDisk] = []
    if placed is not None:
        busy = _busy(loads, scenario, placed, trend)
        steady = steady_disk.steady_disks(
            history,
            scenario,
            placed,
            disks(history).brokers,
            topics_now(history),
        )
        notes += _notes(placed, busy, steady, trend)
    limited = []
    if scenario.quotas:
        limited = throttling.throttled(
            history, scenario.quotas, _factors(history, scenario, placed)
        )
        notes.append(
            "traffic that a quota would have prevented still counts in the load of the brokers"
        )
        if not limited:
            notes.append("no window has a client id under these quotas")
    return WhatIf(
        period=CoveredPeriod(history.first_s, history.end_s, history.fine_s),
        scenario=scenario,
        brokers_now=len(loads),
        brokers=len(placed.kept) + len(placed.added) if placed else 0,
        replicas_now=placed.copies_now if placed else 0.0,
        replicas=placed.copies if placed else 0.0,
        busy=busy,
        disks=steady,
        first_limit=_first_limit(busy, steady),
        throttled=limited,
        traffic_trend=trend,
        notes=notes,
        how={
            "busy": _CPU_HOW.format(width=history.fine_s),
            "brokers": _SPREAD_HOW,
            "disks": steady_disk.HOW,
            "throttled": throttling.HOW.format(width=history.width_s(QUOTA)),
        },
    )


def _loads(history: WindowHistory) -> dict[int, list[Load]]:
    """The windows of each broker present at the end, if records cover half of them."""
    names = ("bytes_in_exact", "bytes_out_exact")
    copies = ("replication_bytes_in_exact", "replication_bytes_out_exact")
    found: dict[int, list[Load]] = defaultdict(list)
    for row in history.rows(
        BROKER, "broker", "idle_ms", "covered_ms", "requests", *names, *copies, fine=True
    ):
        if is_covered(row, history.fine_s):
            seconds = row["covered_ms"] / 1000
            found[row["broker"]].append(
                Load(
                    row["start_s"],
                    max(0.0, 1 - (row["idle_ms"] or 0) / row["covered_ms"]),
                    sum(row[name] or 0 for name in names) / seconds / MIB,
                    sum(row[name] or 0 for name in copies) / seconds / MIB,
                    (row["requests"] or 0) / seconds,
                )
            )
    return {
        broker: loads
        for broker, loads in sorted(found.items())
        if loads[-1].start_s + history.fine_s > history.end_s - GONE_S
    }


def _copies(history: WindowHistory, brokers: Collection[int]) -> float:
    """Replicas of each record, from the bytes that followers fetched: 1 without any."""
    rows = history.sums(BROKER, ["broker"], "bytes_in_exact", "replication_bytes_in_exact")
    told = [row for row in rows if row["broker"] in brokers]
    came_in = sum(row["bytes_in_exact"] for row in told)
    copied = sum(row["replication_bytes_in_exact"] for row in told)
    return 1 + copied / came_in if came_in else 1.0


def _busy(
    loads: Mapping[int, list[Load]], scenario: Scenario, placed: Spread, trend: Trend
) -> list[BrokerLoad]:
    more = (1 + scenario.growth) * placed.factor
    made = [
        _kept(broker, loads[broker], more, more * placed.replication_factor, trend)
        for broker in placed.kept
    ]
    return made + [_like(made, broker) for broker in placed.added]


def _kept(
    broker: int, loads: Sequence[Load], more: float, more_replication: float, trend: Trend
) -> BrokerLoad:
    model = fitted(loads)
    after = [
        load._replace(
            client_mib_per_s=load.client_mib_per_s * more,
            replication_mib_per_s=load.replication_mib_per_s * more_replication,
            requests_per_s=load.requests_per_s * more,
        )
        for load in loads
    ]
    shares = [model.busy(*pair) for pair in zip(loads, after, strict=True)]
    at_the_end = _at_the_end(after, trend)
    high_at_the_end = quantile(
        [model.busy(*pair) for pair in zip(loads, at_the_end, strict=True)], HIGH
    )
    now = [load.busy for load in loads]
    return BrokerLoad(
        broker=broker,
        is_new=False,
        windows=len(loads),
        busy_avg_now=average(now),
        busy_high_now=quantile(now, HIGH),
        busy_avg=average(shares),
        busy_high=quantile(shares, HIGH),
        windows_full=sum(share >= 1 for share in shares),
        client_bytes_per_s_now=MIB * average([load.client_mib_per_s for load in loads]),
        client_bytes_per_s=MIB * average([load.client_mib_per_s for load in after]),
        replication_bytes_per_s_now=MIB * average([load.replication_mib_per_s for load in loads]),
        replication_bytes_per_s=MIB * average([load.replication_mib_per_s for load in after]),
        bytes_per_s_max=MIB * max(load.mib_per_s for load in after),
        days_until_busy=_days_until_busy(high_at_the_end, model.base, trend),
        model=model,
    )


def _at_the_end(loads: Sequence[Load], trend: Trend) -> list[Load]:
    """The loads at the end of the history, after the traffic's growth until then."""
    if trend.verdict != "grows" or trend.percent_per_day is None:
        return list(loads)
    growth = 1 + trend.percent_per_day / 100
    end_s = max(load.start_s for load in loads)
    factors = [growth ** ((end_s - load.start_s) / DAY_S) for load in loads]
    return [
        load._replace(
            client_mib_per_s=load.client_mib_per_s * factor,
            replication_mib_per_s=load.replication_mib_per_s * factor,
            requests_per_s=load.requests_per_s * factor,
        )
        for load, factor in zip(loads, factors, strict=True)
    ]


def _days_until_busy(high: float, base: float, trend: Trend) -> float | None:
    """The days until the high share reaches 1, with the traffic's growth; None if not within a
    year.
    """
    if high >= 1:
        return 0.0
    if trend.verdict != "grows" or not trend.percent_per_day or trend.percent_per_day <= 0:
        return None
    moving = high - min(base, high)
    if moving <= 0:
        return None
    days = math.log((1 - high + moving) / moving) / math.log1p(trend.percent_per_day / 100)
    return days if days <= YEAR_DAYS else None


def _like(made: Sequence[BrokerLoad], broker: int) -> BrokerLoad:
    """An added broker: the average of the others."""

    def mean(name: str) -> float:
        return average([getattr(each, name) for each in made])

    days = [each.days_until_busy for each in made if each.days_until_busy is not None]
    return replace(
        made[0],
        broker=broker,
        is_new=True,
        busy_avg_now=0.0,
        busy_high_now=0.0,
        client_bytes_per_s_now=0.0,
        replication_bytes_per_s_now=0.0,
        busy_avg=mean("busy_avg"),
        busy_high=mean("busy_high"),
        windows_full=round(mean("windows_full")),
        client_bytes_per_s=mean("client_bytes_per_s"),
        replication_bytes_per_s=mean("replication_bytes_per_s"),
        bytes_per_s_max=mean("bytes_per_s_max"),
        days_until_busy=average(days) if len(days) == len(made) else None,
        model=BusyModel("average of the others", 0.0, 0.0, 0.0, None, 0),
    )


def _factors(history: WindowHistory, scenario: Scenario, placed: Spread | None) -> dict[int, float]:
    """The rates of clients relative to the measured ones, by broker."""
    grown = 1 + scenario.growth
    if placed is not None:
        return dict.fromkeys(placed.kept, grown * placed.factor)
    return {row["broker"]: grown for row in history.rows(QUOTA, "broker", fine=True)}


def _first_limit(
    busy: Sequence[BrokerLoad], steady: Sequence[steady_disk.SteadyDisk]
) -> Limit | None:
    found = [
        Limit(each.broker, "100 % busy", each.days_until_busy)
        for each in busy
        if each.days_until_busy is not None
    ]
    found += [
        Limit(each.broker, "a full disk", each.days_until_full)
        for each in steady
        if each.days_until_full is not None
    ]
    return min(found, key=lambda each: (each.in_days, each.broker), default=None)


def _check_topics(history: WindowHistory, scenario: Scenario) -> None:
    if not scenario.topic_retention_s:
        return
    known = {row["topic"] for row in history.sums(TOPIC, ["topic"], "records")}
    missing = sorted(scenario.topic_retention_s.keys() - known)
    if missing:
        named = ", ".join(map(one_line, sorted(known)[:_NAMES_MAX])) or "none"
        raise ImpossibleScenario(
            f"no windows of topic {one_line(missing[0])}; there are: {named}", "retention"
        )


def _notes(
    placed: Spread,
    busy: Sequence[BrokerLoad],
    steady: Sequence[steady_disk.SteadyDisk],
    trend: Trend,
) -> list[str]:
    notes = []
    if placed.copies < placed.copies_now - 0.01:
        notes.append(
            f"{placed.copies_now:.2g} replicas of a record do not fit on {_brokers(placed)}:"
            f" {placed.copies:.2g} are reckoned with"
        )
    poor = [str(each.broker) for each in busy if each.model.kind == "proportional"]
    if poor:
        notes.append(
            f"broker {', '.join(poor)}: bytes and requests explain too little of the busy time, or"
            " there are too few windows; it is assumed to be proportional to the bytes"
        )
    if trend.verdict != "grows" or trend.percent_per_day is None:
        reason = f"its growth {trend.how}" if trend.verdict == "unknown" else "it does not grow"
        notes.append(f"when the traffic makes a broker 100 % busy is unknown: {reason}")
    if not steady:
        notes.append("there are no windows of logs: there are no figures of disks")
    elif any(each.room is None for each in steady):
        notes.append("the records do not contain the size of the disks")
    return notes


def _brokers(placed: Spread) -> str:
    count = len(placed.kept) + len(placed.added)
    return f"{count} {'broker' if count == 1 else 'brokers'}"


def _bytes(load: Load) -> float:
    return load.client_mib_per_s * MIB
