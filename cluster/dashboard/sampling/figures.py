"""The figures of the whole cluster between two readings of the brokers' stats files. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from cluster.metrics.broker_metrics import BY_KEY
from cluster.metrics.histogram import Histogram
from cluster.metrics.stats_reader import Stats
from cluster.views.broker_rates import idle_share
from cluster.views.client_states import ALIVE, BrokerStats

Figures = dict[str, float | None]
"""Values by name; None if nothing was measured."""

FIGURES: Final = (
    *("bytes_in", "bytes_out"),
    *("produce_p50_ms", "produce_p99_ms", "fetch_p50_ms", "fetch_p99_ms"),
    *("lag", "throttled", "throttle_ms"),
)
"""Bytes per second of clients; TotalTimeMs of produce requests and of consumers' fetches; the lag
of all groups; responses per second with a throttle time, and their mean throttle time."""
BUSY: Final = "busy:"
"""Prefix of the share of a broker's thread that is in use, from 0 to 1; its id follows."""
_APIS: Final = {"produce": "Produce", "fetch": "FetchConsumer"}
_QUANTILES: Final = {"p50": 0.5, "p99": 0.99}


def kept(brokers: Sequence[BrokerStats]) -> dict[int, Stats]:
    """What `figures` needs of a reading later: not clients and groups, which may take megabytes."""
    return {each.broker: replace(each.stats, rows=[], groups=b"") for each in brokers}


def figures(
    brokers: Sequence[BrokerStats], former: Mapping[int, Stats], lag: float | None
) -> Figures:
    """The figures since the reading `former`. A broker that was started since has none."""
    pairs = [
        (each.broker, each.stats, before)
        for each in brokers
        if each.state == ALIVE
        and (before := former.get(each.broker)) is not None
        and (before.pid, before.started_wall_ms) == (each.stats.pid, each.stats.started_wall_ms)
        and before.written_ms < each.stats.written_ms
    ]
    found: Figures = dict.fromkeys(FIGURES)
    if not pairs:
        return found
    found["lag"] = lag
    found["bytes_in"] = _per_second(pairs, "BytesInPerSec")
    found["bytes_out"] = _per_second(pairs, "BytesOutPerSec")
    for name, api in _APIS.items():
        times = _times(pairs, api)
        for suffix, fraction in _QUANTILES.items():
            key = f"{name}_{suffix}_ms"
            found[key] = times.quantile_us(fraction) / 1_000 if any(times.counts) else None
    found["throttled"] = _per_second(pairs, "ThrottledRequestsPerSec")
    throttled = _change(pairs, "ThrottledRequestsPerSec")
    found["throttle_ms"] = _change(pairs, "ThrottleTimeMs") / throttled if throttled else 0.0
    for broker, now, before in pairs:
        idle = idle_share(now, before)
        found[f"{BUSY}{broker}"] = None if idle is None else 1 - idle
    return found


_Pairs = Sequence[tuple[int, Stats, Stats]]


def _change(pairs: _Pairs, key: str) -> float:
    name = BY_KEY[key].name
    return sum(now.values.get(name, 0) - former.values.get(name, 0) for _, now, former in pairs)


def _per_second(pairs: _Pairs, key: str) -> float:
    name = BY_KEY[key].name
    return sum(
        (now.values.get(name, 0) - former.values.get(name, 0))
        * 1_000
        / (now.written_ms - former.written_ms)
        for _, now, former in pairs
    )


def _times(pairs: _Pairs, api: str) -> Histogram:
    total = Histogram()
    for _, now, former in pairs:
        after = now.requests.get(api, {}).get("TotalTimeMs")
        if after is not None:
            total = total.plus(after.since(former.requests.get(api, {}).get("TotalTimeMs")))
    return total
