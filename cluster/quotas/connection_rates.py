"""Limits how many connections a second are accepted: by the broker, a listener, an address. Pure.

KIP-612, Kafka's `ConnectionQuotas`. Above the rate of the broker or of a listener, accepting
pauses. A connection above the rate of its address is closed after the delay and not counted. A
delay is at most one window.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from cluster.model.clocks import MonotonicMs
from cluster.model.quotas import DEFAULT, Limits, Name, QuotaEntity, QuotaKind
from cluster.quotas.sampled_rate import SampledRate, WindowOptions

HOSTS_MAX: Final = 10_000
"""Limited addresses that are remembered; above this the oldest tenth is forgotten. 1 kB each."""


class CreationRates(NamedTuple):
    """Connections per second; None for no limit."""

    broker: int | None = None
    listeners: Mapping[str, int] = {}
    """By the listener's name."""


class ConnectionRates:
    """One per broker, used by its thread only."""

    def __init__(self, options: WindowOptions) -> None:
        self._options = options
        self._limits = CreationRates()
        self._of_broker: SampledRate | None = None
        self._of_listeners: dict[str, SampledRate] = {}
        self._host_limits: dict[Name, float] = {}
        self._hosts: dict[str, SampledRate] = {}
        self.refused_count = 0
        """Connections that exceeded the rate of their address."""

    def limit(self, limits: CreationRates) -> None:
        """Set the rates of the broker and of its listeners."""
        self._limits = limits

    def take_quotas(self, quotas: Mapping[QuotaEntity, Limits]) -> None:
        """Set the rates of addresses: the quotas of `ip` entities, and their default."""
        self._host_limits = {
            entity.ip: limits[QuotaKind.CONNECTION]
            for entity, limits in quotas.items()
            if entity.ip is not None and QuotaKind.CONNECTION in limits
        }
        for host in [host for host in self._hosts if self._host_limit(host) is None]:
            del self._hosts[host]

    def close_after_ms(self, host: str, now_ms: MonotonicMs) -> int:
        """Count a connection from this address: 0 accepts it; else close it after this many ms."""
        limit = self._host_limit(host)
        if limit is None:
            return 0
        rate = self._hosts.get(host)
        if rate is None:
            if len(self._hosts) >= HOSTS_MAX:
                for oldest in list(self._hosts)[: HOSTS_MAX // 10]:
                    del self._hosts[oldest]
            rate = self._hosts[host] = SampledRate(self._options, now_ms)
        delay_ms = self._recorded(rate, limit, now_ms)
        if delay_ms:
            rate.record(-1, now_ms)
            rate.unsettled -= 1
            self.refused_count += 1
        return delay_ms

    def rate(self, host: str, now_ms: MonotonicMs) -> float:
        """The accepted connections per second of this address; 0 if it has no limit."""
        rate = self._hosts.get(host)
        return 0.0 if rate is None else rate.rate(now_ms)

    def pause_ms(self, listener: str, now_ms: MonotonicMs) -> tuple[int, int]:
        """Count an accepted connection; returns the pauses in ms of its listener and of all
        listeners.
        """
        own_ms = all_ms = 0
        limit = self._limits.listeners.get(listener)
        if limit is not None:
            own = self._of_listeners.get(listener)
            if own is None:
                own = self._of_listeners[listener] = SampledRate(self._options, now_ms)
            own_ms = self._recorded(own, limit, now_ms)
        limit = self._limits.broker
        if limit is not None:
            if self._of_broker is None:
                self._of_broker = SampledRate(self._options, now_ms)
            all_ms = self._recorded(self._of_broker, limit, now_ms)
        return own_ms, all_ms

    def _host_limit(self, host: str) -> float | None:
        limits = self._host_limits
        return limits.get(host, limits.get(DEFAULT)) if limits else None

    def _recorded(self, rate: SampledRate, limit: float, now_ms: MonotonicMs) -> int:
        rate.record(1, now_ms)
        window_ms = self._options.window_ms
        if limit <= 0:
            return window_ms
        rate.unsettled += 1
        return min(window_ms, rate.delay_ms(limit, now_ms))
