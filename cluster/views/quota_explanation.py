"""Why one client is throttled under one quota: the eight rules, and the delay on each broker.

Shared by `quotas explain` and the dashboard. Pure.
"""

from collections.abc import Sequence
from typing import Any

from cluster.model.quota_delay import explain_delay
from cluster.model.quota_usage import SUMMED
from cluster.model.quotas import RULES
from cluster.views.client_states import ClientState
from cluster.views.quantities import rate_unit


def arithmetic(state: ClientState, *, exact: bool = True) -> str:
    """The delay formula with this broker's numbers; rates in bytes, or in units for people."""
    row = state.row
    unit = (1.0, "B/s") if exact else rate_unit(row.quota, row.limit or row.rate)
    measured_ms = row.window_seconds * 1000
    return explain_delay(row.quota, row.rate, row.limit, measured_ms, row.delay_ms, unit)


def newest(group: Sequence[ClientState]) -> ClientState:
    """The state written last; the limits in states of dead brokers may be old."""
    return max(group, key=lambda state: state.row.written_wall_ms)


def by_broker(group: Sequence[ClientState]) -> list[ClientState]:
    """The states of a group in the order of their brokers' ids."""
    return sorted(group, key=lambda state: state.source.broker)


def totals(group: Sequence[ClientState]) -> dict[str, Any]:
    """Totals over brokers: rates and limits are added; delays are not, each broker has its own."""
    living = [state for state in group if not state.source.is_dead]
    limits = [state.row.limit for state in living]
    known = [limit for limit in limits if limit is not None]
    limit = sum(known) if known and len(known) == len(limits) else None
    total = sum(state.row.rate for state in living)
    return {
        "brokers": len(living),
        "rate": total,
        "limit": limit,
        "utilisation": total / limit if limit else None,
        "delay_ms": max((state.row.delay_ms for state in living), default=0),
        "muted_left_ms": max((state.muted_left_ms for state in living), default=0),
        **{name: sum(getattr(state.row, name) for state in group) for name in SUMMED},
        "connections": sum(state.row.connections for state in living),
    }


def explanation(group: Sequence[ClientState]) -> dict[str, Any]:
    """The states of one client and quota, at least one, as `--json` prints them."""
    row = newest(group).row
    return {
        "user": row.user,
        "client_id": row.client_id,
        "quota": row.quota,
        "rule": row.rule,
        "limit": row.limit,
        "rules": [
            {"rule": rule, "limit": limit, "matched": rule == row.rule}
            for rule, limit in zip(RULES, row.limits, strict=True)
        ],
        "brokers": [
            {**state.to_json(), "arithmetic": arithmetic(state), "windows": state.windows()}
            for state in by_broker(group)
        ],
        "sum": totals(group),
    }
