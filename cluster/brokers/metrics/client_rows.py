"""Each client's use of its quotas: rows of the stats file and intervals of the metric records.

`ClientQuotas.drain_interval` gives the usage. The rows of the file bound the memory: if all are
taken, a new client gets the row that was written longest ago. Pure, apart from stores into the
file's memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cluster.brokers.throttling.connected_clients import ConnectedClients
from cluster.metrics.mmap_stats import MmapStats
from cluster.metrics.stats_layout import NO_LIMITS, QuotaRow
from cluster.model.clocks import MonotonicMs, WallMs
from cluster.model.quota_pauses import NO_PAUSES
from cluster.model.quota_usage import QuotaUsage
from cluster.model.quotas import QuotaEntity, QuotaKind, entities_for
from cluster.quotas.quota_state import QuotaState
from cluster.quotas.quota_table import kept_entity

_IDLE_MS: Final = 60 * 60 * 1000
"""A client that sends no request for an hour loses its row."""

Key = tuple[QuotaKind, str, str]
"""Quota, user, client id."""
Quotas = Mapping[QuotaEntity, Mapping[QuotaKind, float]]


@dataclass(slots=True)
class _Client:
    """The owner of a row."""

    index: int
    totals: QuotaUsage
    """Since the row was taken."""
    active_ms: int = 0
    is_settled: bool = True
    """Whether the row shows neither a rate nor a mute, so that it needs no update."""
    limits: tuple[float | None, ...] | None = NO_LIMITS
    """None if they have changed and have to be looked up."""


class ClientRows:
    """Owned by the broker's thread.

    Invariant: every client here has its own row.
    """

    def __init__(self, stats: MmapStats, connected: ConnectedClients) -> None:
        self._stats = stats
        self._connected = connected
        self._clients: dict[Key, _Client] = {}
        self._free = list(range(stats.row_capacity - 1, -1, -1))
        self._intervals: dict[Key, QuotaUsage] = {}
        self._quotas: Quotas = {}
        self.lost_count = 0
        """How often a client's row was given to another client because all were taken."""

    @property
    def count(self) -> int:
        """The number of rows in use."""
        return len(self._clients)

    def take_quotas(self, quotas: Quotas) -> None:
        """Take over the configured limits of all entities."""
        kept = {kept_entity(entity): limits for entity, limits in quotas.items()}
        if kept != self._quotas:
            self._quotas = kept
            for client in self._clients.values():
                client.limits = None
                client.is_settled = False

    def on_usage(
        self, usage: QuotaUsage, state: QuotaState, now_ms: MonotonicMs, wall_ms: WallMs
    ) -> None:
        """Add a client's usage since the last call; `state` is its current rate and delay."""
        key = (usage.quota, usage.user, usage.client_id)
        interval = self._intervals.get(key)
        if interval is None:
            self._intervals[key] = usage
        else:
            interval.add(usage)
        client = self._clients.get(key) or self._admit(key)
        client.totals.add(usage)
        if usage.requests or not client.active_ms:
            client.active_ms = now_ms
        self._write(key, client, state, now_ms, wall_ms)

    def on_state(self, key: Key, state: QuotaState, now_ms: MonotonicMs, wall_ms: WallMs) -> None:
        """Update the row of a client that has been idle since the last call."""
        client = self._clients.get(key)
        if client is not None:
            self._write(key, client, state, now_ms, wall_ms)

    def note_connections(self) -> None:
        """Mark the rows of clients whose connections have changed as out of date."""
        for user, client_id in self._connected.take_changed():
            for kind in QuotaKind:
                client = self._clients.get((kind, user, client_id))
                if client is not None:
                    client.is_settled = False

    def unsettled(self, at_most: int) -> list[Key]:
        """At most `at_most` clients whose row may show an outdated rate or limit."""
        keys = []
        for key, client in self._clients.items():
            if not client.is_settled:
                keys.append(key)
                if len(keys) == at_most:
                    break
        return keys

    def take_intervals(self) -> list[QuotaUsage]:
        """Remove and return the usage collected since the last call."""
        intervals, self._intervals = self._intervals, {}
        return list(intervals.values())

    def forget_idle(self, now_ms: MonotonicMs) -> None:
        """Free the rows of clients that have long been idle."""
        idle = [k for k, c in self._clients.items() if c.active_ms < now_ms - _IDLE_MS]
        for key in idle:
            self._forget(key)

    def _write(
        self,
        key: Key,
        client: _Client,
        state: QuotaState,
        now_ms: MonotonicMs,
        wall_ms: WallMs,
    ) -> None:
        mute_left_ms = state.mute_left_ms
        client.is_settled = state.rate <= 0 and mute_left_ms == 0
        # The order of `_clients` is that of writing: the first row was written longest ago.
        self._clients[key] = self._clients.pop(key)
        if client.limits is None:
            client.limits = configured_limits(self._quotas, key)
        quota, user, client_id = key
        totals = client.totals
        who = self._connected.get(user, client_id)
        self._stats.write_row(
            client.index,
            QuotaRow(
                quota=quota,
                user=user,
                client_id=client_id,
                rule=state.rule,
                limit=state.limit,
                limits=client.limits,
                rate=state.rate,
                window_seconds=state.measured_ms / 1000,
                delay_ms=state.delay_ms,
                delay_max_ms=state.delay_max_ms,
                requests=totals.requests,
                throttled=totals.throttled,
                usage=totals.usage,
                throttle_ms=totals.throttle_ms,
                throttle_ms_max=totals.throttle_ms_max,
                muted_ms=totals.muted_ms,
                muted_until_ms=now_ms + mute_left_ms if mute_left_ms else 0,
                active_ms=client.active_ms,
                written_wall_ms=wall_ms,
                connections=0 if who is None else who.connection_count,
                software="" if who is None else " ".join(who.software).strip(),
                pauses=NO_PAUSES if who is None else who.pauses.get(quota, NO_PAUSES),
                samples=state.samples,
                muted_channels=state.muted_channels,
            ),
        )

    def _admit(self, key: Key) -> _Client:
        if not self._free:
            self._forget(next(iter(self._clients)))  # written longest ago
            self.lost_count += 1
        quota, user, client_id = key
        totals = QuotaUsage(quota=quota, user=user, client_id=client_id)
        client = _Client(self._free.pop(), totals, limits=configured_limits(self._quotas, key))
        self._clients[key] = client
        return client

    def _forget(self, key: Key) -> None:
        client = self._clients.pop(key)
        self._stats.free_row(client.index)
        self._free.append(client.index)


def configured_limits(quotas: Quotas, key: Key) -> tuple[float | None, ...]:
    """The limit that each of `RULES` sets for this client."""
    kind, user, client_id = key
    return tuple(
        None if (limits := quotas.get(entity)) is None else limits.get(kind)
        for entity in entities_for(user, client_id)
    )
