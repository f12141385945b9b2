"""How each client stands against its quotas: rows of the stats file, intervals of the records.

Fed by what the quota core drains. Bounded by the rows of the file: the client that was active
longest ago gives its row to a new one. Pure, apart from the stores into the file's memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cluster.brokers.metric_records import QuotaInterval
from cluster.brokers.quotas.standing import IntervalUsage, QuotaStanding
from cluster.metrics.mmap_stats import MmapStats
from cluster.metrics.stats_layout import NO_LIMITS, QuotaRow
from cluster.model.quotas import DEFAULT, QuotaEntity, QuotaKind

_IDLE_MS: Final = 60 * 60 * 1000
"""After an hour without a request a client's row is free for others."""

Key = tuple[QuotaKind, str, str]
"""Quota, user, client id."""
Quotas = Mapping[QuotaEntity, Mapping[QuotaKind, float]]


@dataclass(slots=True)
class _Client:
    """Totals since the row was taken, and whether the row still shows a rate or a muting."""

    index: int
    requests: int = 0
    throttled: int = 0
    usage: float = 0.0
    throttle_ms: int = 0
    muted_ms: int = 0
    active_ms: int = 0
    is_settled: bool = True
    limits: tuple[float | None, ...] = NO_LIMITS


class QuotaStandings:
    """Owned by the broker's thread.

    Invariant: every client here has a row of its own.
    """

    def __init__(self, stats: MmapStats) -> None:
        self._stats = stats
        self._clients: dict[Key, _Client] = {}
        self._free = list(range(stats.row_capacity - 1, -1, -1))
        self._intervals: dict[Key, QuotaInterval] = {}
        self._quotas: Quotas = {}

    def take_quotas(self, quotas: Quotas) -> None:
        """What is configured now, for all entities."""
        if quotas != self._quotas:
            self._quotas = quotas
            for key, client in self._clients.items():
                client.limits = configured_limits(quotas, key)
                client.is_settled = False

    def on_usage(
        self, usage: IntervalUsage, standing: QuotaStanding | None, now_ms: int, wall_ms: int
    ) -> None:
        """What a client used since the last time, and where it stands if that matters."""
        key = (usage.kind, usage.user, usage.client_id)
        self._collect(key, usage)
        client = self._clients.get(key) or self._admit(key)
        client.requests += usage.requests
        client.throttled += usage.throttled
        client.usage += usage.usage
        client.throttle_ms += usage.throttle_ms
        client.muted_ms += usage.muted_ms
        if usage.requests or not client.active_ms:
            client.active_ms = now_ms
        window_ms, delay_ms = (0, 0) if standing is None else _window_and_delay(standing)
        self._write(
            key,
            client,
            (usage.rule, usage.limit, usage.rate),
            (window_ms, delay_ms, usage.mute_left_ms),
            now_ms,
            wall_ms,
        )

    def on_standing(self, standing: QuotaStanding, now_ms: int, wall_ms: int) -> None:
        """Where a client stands that has used nothing since the last time."""
        key = (standing.kind, standing.user, standing.client_id)
        client = self._clients.get(key)
        if client is not None:
            self._write(
                key,
                client,
                (standing.rule, standing.limit, standing.observed),
                (*_window_and_delay(standing), standing.mute_left_ms),
                now_ms,
                wall_ms,
            )

    def unsettled(self, at_most: int) -> list[Key]:
        """Clients whose row shows a rate or a limit that may be out of date."""
        keys = []
        for key, client in self._clients.items():
            if not client.is_settled:
                keys.append(key)
                if len(keys) == at_most:
                    break
        return keys

    def take_intervals(self) -> list[QuotaInterval]:
        """What was collected since the last call."""
        intervals, self._intervals = self._intervals, {}
        return list(intervals.values())

    def forget_idle(self, now_ms: int) -> None:
        """Free the rows of clients that have been silent for long."""
        idle = [k for k, c in self._clients.items() if c.active_ms < now_ms - _IDLE_MS]
        for key in idle:
            self._forget(key)

    def _collect(self, key: Key, usage: IntervalUsage) -> None:
        interval = self._intervals.get(key)
        if interval is None:
            interval = QuotaInterval(usage.kind.value, usage.user, usage.client_id)
            self._intervals[key] = interval
        interval.rule = usage.rule
        interval.limit = usage.limit
        interval.rate = usage.rate
        interval.usage += usage.usage
        interval.requests += usage.requests
        interval.throttled += usage.throttled
        interval.throttle_ms += usage.throttle_ms
        interval.throttle_ms_max = max(interval.throttle_ms_max, usage.throttle_ms_max)
        interval.muted_ms += usage.muted_ms

    def _write(
        self,
        key: Key,
        client: _Client,
        standing: tuple[str | None, float | None, float],
        waiting: tuple[int, int, int],
        now_ms: int,
        wall_ms: int,
    ) -> None:
        rule, limit, rate = standing
        window_ms, delay_ms, mute_left_ms = waiting
        client.is_settled = rate <= 0 and mute_left_ms == 0
        # In the order of `_clients`, the rows written longest ago come first.
        self._clients[key] = self._clients.pop(key)
        self._stats.write_row(
            client.index,
            QuotaRow(
                key[0].value,
                key[1],
                key[2],
                rule,
                limit,
                client.limits,
                rate,
                window_ms / 1000,
                delay_ms,
                client.requests,
                client.throttled,
                client.usage,
                client.throttle_ms,
                client.muted_ms,
                now_ms + mute_left_ms if mute_left_ms else 0,
                client.active_ms,
                wall_ms,
            ),
        )

    def _admit(self, key: Key) -> _Client:
        if not self._free:
            self._forget(min(self._clients, key=lambda k: self._clients[k].active_ms))
        client = _Client(self._free.pop(), limits=configured_limits(self._quotas, key))
        self._clients[key] = client
        return client

    def _forget(self, key: Key) -> None:
        client = self._clients.pop(key)
        self._stats.free_row(client.index)
        self._free.append(client.index)


def configured_limits(quotas: Quotas, key: Key) -> tuple[float | None, ...]:
    """What each of the eight rules says for this client, most specific first."""
    kind, user, client_id = key
    entities = (
        QuotaEntity(user, client_id),
        QuotaEntity(user, DEFAULT),
        QuotaEntity(user, None),
        QuotaEntity(DEFAULT, client_id),
        QuotaEntity(DEFAULT, DEFAULT),
        QuotaEntity(DEFAULT, None),
        QuotaEntity(None, client_id),
        QuotaEntity(None, DEFAULT),
    )
    return tuple(
        None if (limits := quotas.get(entity)) is None else limits.get(kind) for entity in entities
    )


def _window_and_delay(standing: QuotaStanding) -> tuple[int, int]:
    return standing.measured_ms, standing.delay_ms
