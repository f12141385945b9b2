"""The figures of `figures.FIGURES` over days, from the windows of the rollup."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from cluster.dashboard.recent_history import MISSING_READER
from cluster.dashboard.sampling.figures import BUSY
from cluster.dashboard.sources import Json
from cluster.metrics.histogram import BUCKETS, quantile_us
from cluster.model.errors import UserError

_DAY_S: Final = 86_400
RANGES_S: Final = {"1d": _DAY_S, "7d": 7 * _DAY_S, "30d": 30 * _DAY_S}
_WIDTH_AND_STEP: Final = {"1d": ("1m", 300), "7d": ("1h", 3_600), "30d": ("1h", 3_600)}
"""The width of the windows, and the seconds of a point: 288, 168 and 720 points."""
_APIS: Final = {"Produce": "produce", "FetchConsumer": "fetch"}
_EVENTS_MAX: Final = 500

Row = dict[str, Any]
Points = dict[int, float]
"""Values by the start of the step, in seconds."""


def rollup_past(place: Path, name: str, now_ms: int, command: str) -> Json:
    """The same as `Recorder.series`. Without windows, `empty` is the reason and `command` creates
    some. Raises UserError for windows that cannot be read.
    """
    first_ms = now_ms - RANGES_S[name] * 1_000
    found: Json = {"range": name, "run": None, "from_ms": first_ms, "to_ms": now_ms}
    found |= {"ts": [], "values": {}}
    if not place.is_dir():
        return {
            **found,
            **_nothing("The rollup has not written any window yet. This makes them", command),
        }
    try:
        import pyarrow as pa
    except ImportError:
        return {**found, **_nothing(". ".join(MISSING_READER), command)}
    from cluster.analytics.windows.manifest import UnusableDirectory

    width, step_s = _WIDTH_AND_STEP[name]
    try:
        columns, events = _read(place, width, step_s, first_ms, now_ms)
    except UnusableDirectory as problem:
        raise UserError(f"cannot read the rollup's windows: {problem}") from None
    except (OSError, pa.ArrowException) as problem:
        reason = str(problem).partition("\n")[0]
        raise UserError(f"cannot read the rollup's windows: {reason}") from None
    if not columns:
        why = "The rollup has no window of this time. This adds what is new"
        return {**found, **_nothing(why, command)}
    starts = range(-(-first_ms // (step_s * 1_000)) * step_s, now_ms // 1_000, step_s)
    values = {key: [points.get(start) for start in starts] for key, points in columns.items()}
    # A point stands for its step, so it is drawn in the middle.
    times = [start * 1_000 + step_s * 500 for start in starts]
    return {**found, "step_s": step_s, "ts": times, "values": values, "events": events}


def _nothing(why: str, command: str) -> Json:
    return {"step_s": None, "events": [], "empty": f"{why}:", "command": f"{command} rollup"}


def _read(
    place: Path, width: str, step_s: int, first_ms: int, now_ms: int
) -> tuple[dict[str, Points], list[Json]]:
    from cluster.analytics.windows.kinds import BROKER, EVENT, GROUP, LATENCY, QUOTA, WindowKind
    from cluster.analytics.windows.reading import read_windows

    since = datetime.fromtimestamp(first_ms / 1_000, UTC)
    until = datetime.fromtimestamp(now_ms / 1_000, UTC) + timedelta(minutes=1)

    def rows(kind: WindowKind, width: str, *columns: str) -> list[Row]:
        table = read_windows(place, kind, width, since, until, ["window_start", *columns])
        found: list[Row] = table.to_pylist()
        for row in found:
            row["start_s"] = int(row.pop("window_start").timestamp())
        return found

    traffic = ("broker", "bytes_in_exact", "bytes_out_exact", "covered_ms", "idle_ms")
    columns = {
        **brokers(rows(BROKER, width, *traffic), step_s),
        **latencies(rows(LATENCY, width, "api", "histogram"), step_s),
        **lag(rows(GROUP, width, "group", "lag_avg"), step_s),
        # Windows of a minute of thousands of clients would take too long.
        **throttles(rows(QUOTA, "1h", "throttled", "throttle_ms_exact"), step_s),
    }
    found = rows(EVENT, "1m", "event", "subject", "events", "detail", "last_at")
    return columns, [event(row) for row in found[-_EVENTS_MAX:]]


def brokers(rows: Iterable[Row], step_s: int) -> dict[str, Points]:
    """Throughput, and how busy each broker was."""
    covered: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    idle: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    sums: dict[str, Points] = {"bytes_in": defaultdict(float), "bytes_out": defaultdict(float)}
    for row in rows:
        at, broker = row["start_s"] // step_s * step_s, row["broker"]
        covered[broker][at] += row["covered_ms"] or 0
        idle[broker][at] += row["idle_ms"] or 0
        for name, total in sums.items():
            total[at] += float(row[f"{name}_exact"] or 0)
    longest: dict[int, float] = defaultdict(float)
    for times in covered.values():
        for at, covered_ms in times.items():
            longest[at] = max(longest[at], covered_ms)
    found = {
        name: {at: 1_000 * total[at] / longest[at] for at in total if longest[at]}
        for name, total in sums.items()
    }
    for broker, times in sorted(covered.items()):
        found[f"{BUSY}{broker}"] = {
            at: min(1.0, max(0.0, 1 - idle[broker][at] / covered_ms))
            for at, covered_ms in times.items()
            if covered_ms
        }
    return {name: points for name, points in found.items() if points}


def latencies(rows: Iterable[Row], step_s: int) -> dict[str, Points]:
    """Percentiles of the histograms of all brokers added up."""
    counts: dict[str, dict[int, list[int]]] = defaultdict(
        lambda: defaultdict(lambda: [0] * BUCKETS)
    )
    for row in rows:
        if row["api"] in _APIS:
            total = counts[_APIS[row["api"]]][row["start_s"] // step_s * step_s]
            for bucket, count in row["histogram"] or ():
                total[bucket] += count
    return {
        f"{name}_{suffix}_ms": {
            at: quantile_us(each, fraction) / 1_000 for at, each in totals.items() if any(each)
        }
        for name, totals in counts.items()
        for suffix, fraction in (("p50", 0.5), ("p99", 0.99))
    }


def lag(rows: Iterable[Row], step_s: int) -> dict[str, Points]:
    """The sum of the groups' mean lags, each over its windows of the step."""
    seen: dict[int, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row["lag_avg"] is not None:
            seen[row["start_s"] // step_s * step_s][row["group"]].append(row["lag_avg"])
    points = {
        at: sum(sum(lags) / len(lags) for lags in groups.values()) for at, groups in seen.items()
    }
    return {"lag": points} if points else {}


def throttles(rows: Iterable[Row], step_s: int) -> dict[str, Points]:
    """Throttle times of windows of an hour; their values hold for each step in them."""
    hour_s = 3_600
    count: dict[int, int] = defaultdict(int)
    total_ms: Points = defaultdict(float)
    for row in rows:
        count[row["start_s"]] += row["throttled"] or 0
        total_ms[row["start_s"]] += float(row["throttle_ms_exact"] or 0)
    if not count:
        return {}
    hours = {hour: total_ms[hour] / count[hour] if count[hour] else 0.0 for hour in count}
    steps = [(hour, at) for hour in hours for at in range(hour, hour + hour_s, step_s)]
    return {
        "throttle_ms": {at: hours[hour] for hour, at in steps},
        "throttled": {at: count[hour] / hour_s for hour, at in steps},
    }


_KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "broker-up": ("start", "broker {}"),
    "broker-down": ("death", "broker {}"),
    "controller": ("controller", "broker {}"),
    "election": ("election", "topic {}"),
    "quota": ("quota", "{}"),
    "rebalance": ("rebalance", "group {}"),
}
"""The kind and subject of an event of the brokers, as those of the supervisor have them."""


def event(row: Row) -> Json:
    """The latest of the events of one window."""
    kind, subject = _KINDS.get(row["event"], (row["event"], "{}"))
    last_at = row["last_at"]
    ts = row["start_s"] * 1_000 if last_at is None else int(last_at.timestamp() * 1_000)
    text = {"broker-up": "is up", "broker-down": "is down", "controller": "is the controller"}
    said = text.get(row["event"], f"{row['event']}: {row['detail'] or ''}")
    times = f" ({row['events']} times)" if (row["events"] or 0) > 1 else ""
    return {"ts": ts, "kind": kind, "subject": subject.format(row["subject"]), "text": said + times}
