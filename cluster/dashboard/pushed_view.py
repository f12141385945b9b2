"""The page's view of latencies: as clients see them, beside those that brokers measure. Pure."""

from collections.abc import Iterable, Sequence
from typing import Final

from cluster.dashboard.sources import Json
from cluster.protocol.peer.pushed_metrics import PushedMetricsAnswer
from cluster.views.pushed_latencies import (
    PushedLatency,
    latest_clients,
    measured_times,
    pushed_latencies,
)

SHOWN_MAX: Final = 200
"""Latencies in one response; if there are more, the largest."""


def pushed_view(answers: Sequence[PushedMetricsAnswer], apis: Iterable[Json]) -> Json:
    """`apis` are the times of brokers in the last seconds, see `api_view`."""
    clients = latest_clients(answers)
    found = sorted(pushed_latencies(clients), key=_order)
    now_ms = max((answer.now_ms for answer in answers), default=0)
    times = {(each["broker"], each["api"]): each for each in apis}
    measured = measured_times(answers)
    return {
        "clients": sum(not each.is_closed for each in clients),
        "latencies": [
            {
                "client_id": each.client.client_id,
                "software": each.client.software,
                "host": each.client.host,
                "role": each.role,
                "broker": each.broker,
                "avg_ms": each.avg_ms,
                "max_ms": each.max_ms,
                "api": each.api,
                "measured_ms": measured.get(each.place),
                "p50_ms": times.get((each.broker, each.api), {}).get("p50_ms"),
                "p99_ms": times.get((each.broker, each.api), {}).get("p99_ms"),
                "age_ms": max(0, now_ms - each.client.ts_ms),
            }
            for each in found[:SHOWN_MAX]
        ],
        "left_out": max(0, len(found) - SHOWN_MAX),
    }


def _order(latency: PushedLatency) -> tuple[float, str, str, int]:
    return (
        -(latency.avg_ms or 0.0),
        latency.client.client_id,
        latency.client.client_instance_id,
        latency.broker,
    )
