"""The JSON records of `__cluster_metrics`: one for each broker, and each active client's quota.

Pure. The fields are described in docs/metrics.md, which names this module as their source.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

VERSION: Final = 1

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


@dataclass(slots=True)
class QuotaInterval:
    """What one client did under one quota in one interval; it grows until it is written."""

    quota: str
    user: str
    client_id: str
    rule: str | None = None
    limit: float | None = None
    usage: float = 0.0
    """Bytes, or percent of one thread times seconds."""
    rate: float = 0.0
    """As the quota measured it, over its window, at the end."""
    requests: int = 0
    throttled: int = 0
    throttle_ms: int = 0
    throttle_ms_max: int = 0
    muted_ms: int = 0


def quota_record(broker: int, wall_ms: int, interval_ms: int, interval: QuotaInterval) -> bytes:
    """A record of kind `quota`; `wall_ms` is the end of the interval."""
    return _encode(
        {
            "v": VERSION,
            "kind": "quota",
            "ts": wall_ms,
            "interval_ms": interval_ms,
            "broker": broker,
            "quota": interval.quota,
            "user": interval.user,
            "client_id": interval.client_id,
            "rule": interval.rule,
            "limit": None if interval.limit is None else float(interval.limit),
            "usage": float(interval.usage),
            "rate": float(interval.rate),
            "requests": interval.requests,
            "throttled": interval.throttled,
            "throttle_ms": interval.throttle_ms,
            "throttle_ms_max": interval.throttle_ms_max,
            "muted_ms": interval.muted_ms,
        }
    ).encode("utf-8", "replace")


def broker_record(
    broker: int, wall_ms: int, interval_ms: int, values: Mapping[str, float]
) -> bytes:
    """A record of kind `broker`: rates are per second, gauges as they stand."""
    return _encode(
        {
            "v": VERSION,
            "kind": "broker",
            "ts": wall_ms,
            "interval_ms": interval_ms,
            "broker": broker,
            "values": dict(values),
        }
    ).encode("utf-8", "replace")
