"""Clients as rows of the page's table: a row per client and quota, over all brokers. Pure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from cluster.metrics.stats_layout import QuotaRow
from cluster.model.clocks import MonotonicMs
from cluster.model.quotas import QuotaKind
from cluster.views.client_states import BrokerStats
from cluster.views.listed_clients import Hidden, hidden_as, is_idle

CLIENTS_MAX: Final = 1_500
"""Rows of clients in one reading; if there are more, those of shown clients, and of these the ones
nearest to their limits.

500 clients that produce, fetch and use request time have as many."""

Key = tuple[str, str, str]
"""User, client id, quota."""

COLUMNS: Final = (
    *("hidden", "is_live", "rate", "total", "brokers", "limit", "utilisation", "rule"),
    *("delay_ms", "muted_left_ms", "muted", "throttle_avg_ms", "throttle_max_ms"),
    *("connections", "software", "honours"),
)
"""The columns of a row.

`hidden` is a `Hidden`, equal in all rows of a client. `rate` and `limit` are those of the broker
where the client is nearest to its limit, `total` is the rate of all `brokers`. `muted` is the
number of muted connections; `throttle_avg_ms` and `throttle_max_ms` cover all throttled requests
since the client came, and are None without any; `utilisation` is None without a limit, and if a
limit of 0 is exceeded."""

Cells = tuple[bool | int | float | str | None, ...]
"""Values of `COLUMNS`, each rounded to what the page shows, so that equal texts are equal
values."""


def live_rows(
    brokers: Iterable[BrokerStats], now_ms: MonotonicMs, search: str = ""
) -> tuple[dict[Key, Cells], int]:
    """At most `CLIENTS_MAX` rows, those nearest to their limits first, and the number left out.

    With `search` only matching rows. Figures of dead brokers count for clients that no live broker
    knows.
    """
    live: dict[Key, list[QuotaRow]] = {}
    dead: dict[Key, list[QuotaRow]] = {}
    for broker in brokers:
        known = dead if broker.is_dead else live
        for row in broker.stats.rows:
            key = row.user, row.client_id, row.quota
            if not search or matches(key, search):
                known.setdefault(key, []).append(row)
    hidden = _hidden({**dead, **live}, now_ms)
    ranked = sorted(
        ((hidden[key[:2]] is None, max(map(_use, rows)), key) for key, rows in live.items()),
        reverse=True,
    )
    gone = sorted(key for key in dead if key not in live)
    shown = {key: (hidden[key[:2]], *_cells(live[key], now_ms)) for *_, key in ranked[:CLIENTS_MAX]}
    for key in gone[: CLIENTS_MAX - len(shown)]:
        shown[key] = (hidden[key[:2]], *_cells(dead[key], None))
    return shown, len(ranked) + len(gone) - len(shown)


def _hidden(
    known: Mapping[Key, Sequence[QuotaRow]], now_ms: MonotonicMs
) -> dict[tuple[str, str], Hidden | None]:
    """Why each client is hidden, by user and client id."""
    clients: dict[tuple[str, str], list[QuotaRow]] = {}
    for key, rows in known.items():
        clients.setdefault(key[:2], []).extend(rows)
    return {client: hidden_as(client[1], rows, now_ms) for client, rows in clients.items()}


def matches(key: Key, text: str) -> bool:
    """Whether the user or client id contains the text, ignoring case."""
    wanted = text.casefold()
    return wanted in key[0].casefold() or wanted in key[1].casefold()


def _use(row: QuotaRow) -> tuple[float, float]:
    """The used share of the limit, -1 without one; then the rate."""
    used = row.utilization
    return -1.0 if used is None else used, row.rate


def _cells(rows: Sequence[QuotaRow], now_ms: MonotonicMs | None) -> Cells:
    """`now_ms` is None if the brokers are dead: nothing is muted there."""
    worst = max(rows, key=_use)
    used, rate = _use(worst)
    delay_ms = muted_left_ms = muted_channels = throttled = throttle_max_ms = connections = 0
    throttle_ms = total = 0.0
    software = ""
    told = []
    for row in rows:
        total += row.rate
        connections += row.connections
        # The delay of a budget that it shares does not reach a client that sends nothing.
        if now_ms is not None and not is_idle(row, now_ms):
            delay_ms = max(delay_ms, row.delay_ms)
        if now_ms is not None and row.muted_until_ms > now_ms:
            muted_left_ms = max(muted_left_ms, row.muted_until_ms - now_ms)
            muted_channels += row.muted_channels
        throttled += row.throttled
        throttle_ms += row.throttle_ms
        throttle_max_ms = max(throttle_max_ms, row.throttle_ms_max)
        software = software or row.software
        told.append(row.pauses.honors_throttling)
    known = [each for each in told if each is not None]
    return (
        now_ms is not None,
        shown_rate(worst.quota, rate),
        shown_rate(worst.quota, total),
        len(rows),
        worst.limit,
        None if used < 0 or used == math.inf else math.floor(used * 100 + 0.5) / 100,
        worst.rule,
        shown_ms(delay_ms),
        shown_ms(muted_left_ms),
        muted_channels,
        shown_ms(throttle_ms / throttled) if throttled else None,
        shown_ms(throttle_max_ms) if throttled else None,
        connections,
        software or None,
        all(known) if known else None,
    )


def shown_rate(quota: str, rate: float) -> float:
    """The rate rounded to what the page shows.

    For bytes, three digits of B/s, KiB/s, MiB/s ...; for other quotas two decimals, from 10 on one.
    """
    if quota not in (QuotaKind.PRODUCE, QuotaKind.FETCH):
        return round(rate, 2 if rate < 10 else 1)
    number, unit = rate, 1
    while number >= 1024 and unit < 1024**4:
        number /= 1024
        unit *= 1024
    if number >= 100 or unit == 1:
        return math.floor(number + 0.5) * unit
    return round(round(number, 1 if number >= 10 else 2) * unit, 2)


def shown_ms(duration_ms: float) -> int:
    """The duration rounded to what the page shows: milliseconds, from 1 s on tenths."""
    step = 1 if duration_ms < 1_000 else 100
    return math.floor(duration_ms / step + 0.5) * step
