"""Why one client is throttled under one quota: the eight rules, and the delay on each broker.

Shared by `quotas explain` and the dashboard. Pure.
"""

from collections.abc import Sequence
from typing import Any, Final

from cluster.model.quota_delay import explain_delay
from cluster.model.quota_usage import SUMMED
from cluster.model.quotas import RULES, QuotaKind
from cluster.views.client_states import ClientState
from cluster.views.quantities import rate_unit

_LONG_MS: Final = 30_000
"""The default of Java's request.timeout.ms; librdkafka waits 60 s."""
_SMALLER: Final[dict[str, str]] = {
    QuotaKind.PRODUCE: "Smaller batches (batch.size)",
    QuotaKind.FETCH: "Smaller fetches (fetch.max.bytes)",
}
"""What shortens the delays of quotas that have no upper bound of delays."""


def arithmetic(state: ClientState, *, exact: bool = True) -> str:
    """The delay formula with this broker's numbers; rates in bytes, or in units for people."""
    row = state.row
    unit = (1.0, "B/s") if exact else rate_unit(row.quota, row.limit or row.rate)
    measured_ms = row.window_seconds * 1000
    return explain_delay(row.quota, row.rate, row.limit, measured_ms, row.delay_ms, unit)


def why_long(state: ClientState) -> str | None:
    """What a delay comes from during which clients give up waiting; None for a shorter one."""
    smaller = _SMALLER.get(state.row.quota)
    if smaller is None or state.row.delay_ms < _LONG_MS:
        return None
    return (
        "Such a delay is owed for requests that were accepted whatever their size: one on each"
        " connection, to be paid for afterwards. A client that gives up waiting and reconnects, as"
        " librdkafka does after socket.timeout.ms, has another one accepted and counted each time."
        f" {smaller} or a higher limit shorten it."
    )


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
            {
                **state.to_json(),
                "arithmetic": arithmetic(state),
                "why_long": why_long(state),
                "windows": state.windows(),
            }
            for state in by_broker(group)
        ],
        "sum": totals(group),
    }
