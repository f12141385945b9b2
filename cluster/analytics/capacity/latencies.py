"""Response times of each API at the end of the history, compared with earlier ones. Pure."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cluster.analytics.capacity.history import WindowHistory
from cluster.analytics.capacity.trends import DAY_S, HOUR_S
from cluster.analytics.windows.kinds import LATENCY
from cluster.metrics.histogram import BUCKETS, quantile_us

WEEK_S: Final = 7 * DAY_S
_FIRST: Final = ("Produce", "Fetch", "FetchConsumer", "FetchFollower")
_QUANTILES: Final = (0.5, 0.95, 0.99)
_ENOUGH: Final = 100
"""Fewer requests have no meaningful 99th percentile, so no ratio is given."""


@dataclass(frozen=True, slots=True)
class Times:
    """Percentiles of one API over all brokers; all of them 0 without requests."""

    requests: int
    p50_ms: float
    p95_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class ApiLatencies:
    """The response times of one API."""

    api: str
    now: Times
    before: Times | None
    p99_ratio: float | None
    """Now relative to before; None if either has fewer than 100 requests."""


@dataclass(frozen=True, slots=True)
class Latencies:
    """Produce, the fetches, then the others by the number of requests."""

    apis: list[ApiLatencies]
    now_from_s: int | None
    before_from_s: int | None
    """The begin of each span; None if there is none."""
    span_s: int
    how: str


def latencies(history: WindowHistory) -> Latencies:
    """Compare the last 24 hours with the same hours a week before, or with the start of the
    history.
    """
    rows = history.rows(LATENCY, "api")
    if not rows:
        return Latencies([], None, None, 0, "there are no windows of latencies")
    first_s, end_s = rows[0]["start_s"], rows[-1]["start_s"] + HOUR_S
    span_s = max(HOUR_S, min(DAY_S, (end_s - first_s) // (4 * HOUR_S) * HOUR_S))
    now_s = end_s - span_s
    before_s, which = first_s, "the first"
    if first_s <= now_s - WEEK_S:
        before_s, which = now_s - WEEK_S, "a week before, the same"
    now = _counts(history, now_s, span_s)
    has_before = before_s + span_s <= now_s
    before = _counts(history, before_s, span_s) if has_before else {}
    apis = [
        ApiLatencies(api, _times(counts), _times(before[api]) if api in before else None, None)
        for api, counts in sorted(now.items(), key=lambda each: _order(each[0], sum(each[1])))
    ]
    span = f"{span_s // HOUR_S} {'hour' if span_s == HOUR_S else 'hours'}"
    compared = f"{which} {span} of the history" if which == "the first" else f"{which} {span}"
    return Latencies(
        [_compared(each) for each in apis],
        *(now_s, before_s if has_before else None, span_s),
        f"histograms of all brokers added up (TotalTimeMs); now: the last {span}; before: "
        + (compared if has_before else "cannot be told, the history is too short")
        + ". Buckets double in width, within one it is interpolated",
    )


def p99_over_time(history: WindowHistory, api: str, step_s: int) -> dict[int, float]:
    """The 99th percentile of an API in ms, in each step with requests."""
    counts: dict[int, list[int]] = defaultdict(lambda: [0] * BUCKETS)
    is_fine = LATENCY.name in history.fine
    for row in history.rows(LATENCY, "histogram", fine=is_fine, api=[api]):
        _add(counts[row["start_s"] // step_s * step_s], row["histogram"] or ())
    return {at: quantile_us(each, 0.99) / 1000 for at, each in sorted(counts.items()) if any(each)}


def _counts(history: WindowHistory, first_s: int, span_s: int) -> dict[str, list[int]]:
    counts: dict[str, list[int]] = defaultdict(lambda: [0] * BUCKETS)
    for row in history.rows(
        LATENCY, "api", "histogram", since_s=first_s, before_s=first_s + span_s
    ):
        _add(counts[row["api"]], row["histogram"] or ())
    return {api: each for api, each in counts.items() if any(each)}


def _add(counts: list[int], histogram: Iterable[tuple[int, int]]) -> None:
    for bucket, count in histogram:
        counts[bucket] += count


def _times(counts: list[int]) -> Times:
    return Times(sum(counts), *(quantile_us(counts, share) / 1000 for share in _QUANTILES))


def _compared(each: ApiLatencies) -> ApiLatencies:
    before = each.before
    if before is None or min(before.requests, each.now.requests) < _ENOUGH or not before.p99_ms:
        return each
    return ApiLatencies(each.api, each.now, before, each.now.p99_ms / before.p99_ms)


def _order(api: str, requests: int) -> tuple[int, int, str]:
    return (_FIRST.index(api) if api in _FIRST else len(_FIRST), -requests, api)
