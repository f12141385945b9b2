"""The times of each API's requests, and their parts. Pure."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from cluster.metrics.histogram import Histogram
from cluster.metrics.kafka_names import REQUEST_PARTS
from cluster.metrics.stats_reader import Stats
from cluster.runtime.text_table import table_text
from cluster.views.broker_rates import request_changes

_QUANTILES: Final = (0.5, 0.99)
_HEADINGS: Final = {
    "TotalTimeMs": "TOTAL",
    "RequestQueueTimeMs": "QUEUE",
    "LocalTimeMs": "LOCAL",
    "RemoteTimeMs": "REMOTE",
    "ResponseQueueTimeMs": "RESP-QUEUE",
    "ResponseSendTimeMs": "SEND",
    "ThrottleTimeMs": "THROTTLE",
}
"""Headings by key of `REQUEST_PARTS`: the total, its parts in order, and additional times."""


class ApiTimes(NamedTuple):
    """One API on some brokers."""

    api: str
    requests: float
    """The number of requests, or requests per second."""
    times: dict[str, Histogram]
    """By key of `REQUEST_PARTS`; empty histograms if no request was timed."""

    def to_json(self) -> dict[str, Any]:
        """The fields that `--json` prints; times in ms, None without observations."""
        return {
            "api": self.api,
            "requests": self.requests,
            "times": {
                key: {
                    **{f"p{100 * each:g}": _quantile_ms(times, each) for each in _QUANTILES},
                    "mean": round(times.mean_us / 1_000, 3) if times.count else None,
                }
                for key, times in self.times.items()
            },
        }


def api_times(readings: Iterable[tuple[Stats, Stats | None]]) -> list[ApiTimes]:
    """Every API with requests, added up over brokers, the most frequent first.

    Takes each broker's reading and an earlier one: then requests are per second, and times cover
    the time in between. Without an earlier one they cover the time since the broker's start.
    """
    requests: dict[str, float] = {}
    times: dict[str, dict[str, Histogram]] = {}
    for now, former in readings:
        for api, count in request_changes(now, former).items():
            requests[api] = requests.get(api, 0) + count
            sums = times.setdefault(api, {part.key: Histogram() for part in REQUEST_PARTS})
            before = {} if former is None else former.requests.get(api, {})
            for key, of_part in now.requests.get(api, {}).items():
                sums[key] = sums[key].plus(of_part.since(before.get(key)))
    ordered = sorted(requests, key=lambda api: (-requests[api], api))
    return [ApiTimes(api, round(requests[api], 3), times[api]) for api in ordered]


def api_times_table(apis: Sequence[ApiTimes], *, is_total: bool) -> str:
    """Two lines of milliseconds for each API: median and 99th percentile."""
    count = "REQUESTS" if is_total else "REQUESTS/S"
    right = [count, *_HEADINGS.values()]
    rows = []
    for each in apis:
        heads = [(each.api, f"{each.requests:,.{0 if is_total else 1}f}"), ("", "")]
        for head, fraction in zip(heads, _QUANTILES, strict=True):
            cells = [_cell(_quantile_ms(each.times[key], fraction)) for key in _HEADINGS]
            rows.append((*head, f"p{100 * fraction:g}", *cells))
    return table_text(("API", count, "MS", *_HEADINGS.values()), rows, right=right)


def _quantile_ms(times: Histogram, fraction: float) -> float | None:
    return round(times.quantile_us(fraction) / 1_000, 4) if times.count else None


def _cell(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
