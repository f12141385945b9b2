"""The JSON records of `__cluster_metrics`: one for each broker, and each active client's quota.

Pure. The fields are described in docs/metrics.md, which names this module as their source.
"""

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Final

from cluster.model.clocks import WallMs
from cluster.model.quota_usage import QuotaUsage

VERSION: Final = 1
_USAGE_FIELDS: Final = tuple(field.name for field in fields(QuotaUsage))

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def quota_record(broker: int, wall_ms: WallMs, interval_ms: int, usage: QuotaUsage) -> bytes:
    """A record of kind `quota`; `wall_ms` is the end of the interval."""
    head = {
        "v": VERSION,
        "kind": "quota",
        "ts": wall_ms,
        "interval_ms": interval_ms,
        "broker": broker,
    }
    values = {name: getattr(usage, name) for name in _USAGE_FIELDS}
    for name in ("limit", "usage", "rate"):  # readers take a column's type from any of its values
        if values[name] is not None:
            values[name] = float(values[name])
    return _encode(head | values).encode("utf-8", "replace")


def broker_record(
    broker: int, wall_ms: WallMs, interval_ms: int, values: Mapping[str, float]
) -> bytes:
    """A record of kind `broker`: rates are per second, gauges are present values."""
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
