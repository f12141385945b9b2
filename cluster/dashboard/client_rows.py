"""The rows of `/api/now`: a client under one quota, with the figures of each broker. Pure."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from cluster.dashboard.live_rows import Key
from cluster.dashboard.sources import Json
from cluster.views.client_states import ClientState


def ranked(groups: Mapping[Key, Sequence[ClientState]]) -> list[tuple[Key, Sequence[ClientState]]]:
    """Sorted by how near a client is to its limit, then by its rate, the highest first."""
    return sorted(groups.items(), key=lambda item: _badness(item[1]), reverse=True)


def client_row(key: Key, states: Sequence[ClientState]) -> Json:
    """One client under one quota, with the figures of each broker."""
    user, client_id, quota = key
    return {
        "user": user,
        "client_id": client_id,
        "quota": quota,
        "brokers": [_of_broker(state) for state in states],
    }


def _of_broker(state: ClientState) -> dict[str, Any]:
    row = state.row
    utilization = row.utilization
    return {
        "broker": state.source.broker,
        "state": state.source.state,
        "rule": row.rule,
        "limit": row.limit,
        "rate": round(row.rate, 3),
        # Null for an exceeded limit of 0, since JSON has no infinity.
        "utilisation": None if utilization is None or utilization == math.inf else utilization,
        "delay_ms": row.delay_ms,
        "muted_left_ms": state.muted_left_ms,
        "muted_channels": row.muted_channels if state.muted_left_ms else 0,
        "requests": row.requests,
        "throttled": row.throttled,
        "throttle_ms": round(row.throttle_ms),
        "connections": row.connections,
        "software": row.software or None,
        "pauses": {"honours_throttling": row.pauses.honors_throttling},
    }


def _badness(states: Sequence[ClientState]) -> tuple[bool, float, float]:
    live = [state.row for state in states if not state.source.is_dead]
    return (
        bool(live),
        max((row.utilization or 0.0 for row in live), default=0.0),
        max((row.rate for row in live), default=0.0),
    )
