"""Scenario: a noisy client is limited by a quota, and a polite one must not be affected.

Phases: `alone` (polite client only), `limited` (noisy client with its quota; the beginning, while
the quota's windows fill, is not judged), `unlimited` (without the quota, to show its effect). They
are in this order because a quota counts what a client has used in the ten seconds before it was
set. The polite client sends at the same rate all the time. The lengths suit both values of
`milena.quota.window.credit`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cluster.loadtest.client_interval import ClientInterval, total, within
from cluster.loadtest.neighbor_verdict import Judged
from cluster.loadtest.spawned_process import Worker, WorkerGroup, now_us
from cluster.loadtest.worker_orders import ProducerOrder

NOISY: Final = "noisy"
POLITE: Final = "polite"

WAVE_S: Final = 11.0
"""The span of all windows of a quota: with Kafka's credit a client sends in waves of this
length."""
NOISY_FACTOR: Final = 1.5
"""The rate that the noisy client attempts, as a multiple of its quota."""

_LISTEN_S: Final = 0.2
_WARM_UP_US: Final = 1_500_000
"""The polite client's first records are not judged, since it connects and segments are created."""


@dataclass(frozen=True, slots=True)
class Phases:
    """The length of each phase in seconds."""

    alone: float = 8.0
    settling: float = 12.0
    """Long enough for a client to use up Kafka's credit, the allowance of ten seconds."""
    limited: float = 2 * WAVE_S
    unlimited: float = 6.0
    """0 skips this phase."""

    @property
    def is_long_enough(self) -> bool:
        """Whether the judged time covers two complete waves."""
        return self.limited >= 2 * WAVE_S


SHORT: Final = Phases(alone=5.0, settling=3.0, limited=WAVE_S, unlimited=2.0)


@dataclass(frozen=True, slots=True)
class NeighborPlan:
    """The orders of both clients, which send until they are stopped, and the phases."""

    polite: ProducerOrder
    noisy: ProducerOrder
    phases: Phases


@dataclass(frozen=True, slots=True)
class Hooks:
    """Callbacks of the phases."""

    limit: Callable[[], None]
    """Sets the quota; returns when it is in effect on every broker."""
    unlimit: Callable[[], None]
    """Removes the quota."""
    on_phase: Callable[[str, float], None] = lambda _name, _seconds: None
    """Called at the start of each phase with its name and length in seconds."""
    progress: Callable[[Sequence[Worker]], None] = lambda _workers: None
    while_limited: Callable[[], None] = lambda: None
    """Called once in the middle of the judged time; should be short."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """The intervals of both clients between two times of the monotonic clock."""

    from_us: int
    until_us: int
    polite: ClientInterval
    noisy: ClientInterval | None


def run_neighbors(plan: NeighborPlan, hooks: Hooks) -> dict[str, Stretch]:
    """Run all phases and return the measurements by phase. Raises WorkerFailed, UserError."""
    with WorkerGroup() as group:
        return _Scenario(plan, hooks, group).run()


class _Scenario:
    def __init__(self, plan: NeighborPlan, hooks: Hooks, group: WorkerGroup) -> None:
        self._plan = plan
        self._hooks = hooks
        self._group = group

    def run(self) -> dict[str, Stretch]:
        phases, hooks = self._plan.phases, self._hooks
        (polite,) = self._group.start([self._plan.polite])
        moments: dict[str, tuple[int, int, Worker | None]] = {}

        hooks.on_phase("alone", phases.alone)
        begin_us = self._group.go([polite])
        self._pass(phases.alone)
        moments["alone"] = (begin_us + _WARM_UP_US, now_us(), None)

        hooks.on_phase("limited", phases.settling + phases.limited)
        hooks.limit()
        (noisy,) = self._group.start([self._plan.noisy])
        self._group.go([noisy])
        self._pass(phases.settling)
        begin_us = now_us()
        self._pass(phases.limited / 2)
        hooks.while_limited()
        self._pass(phases.limited - (now_us() - begin_us) / 1e6)
        moments["limited"] = (begin_us, now_us(), noisy)

        if phases.unlimited:
            hooks.on_phase("unlimited", phases.unlimited)
            hooks.unlimit()
            begin_us = now_us()
            self._pass(phases.unlimited)
            moments["unlimited"] = (begin_us, now_us(), noisy)

        self._group.stop([noisy, polite])
        return {
            name: Stretch(
                begin_us,
                end_us,
                _cut(polite, begin_us, end_us),
                None if one is None else _cut(one, begin_us, end_us),
            )
            for name, (begin_us, end_us, one) in moments.items()
        }

    def _pass(self, seconds: float) -> None:
        end_us = now_us() + int(seconds * 1e6)
        while now_us() < end_us:
            self._group.listen(_LISTEN_S)
            self._hooks.progress(self._group.workers)


def _cut(worker: Worker, from_us: int, until_us: int) -> ClientInterval:
    return total(within(worker.intervals, from_us, until_us))


def judged(
    stretches: Mapping[str, Stretch],
    *,
    polite_rate: float,
    quota: float,
    is_rough: bool,
    broker_rates: Mapping[int, float],
) -> Judged:
    """The input of the verdict. `broker_rates`: the noisy client's bytes/s at each leader."""
    alone, limited = stretches["alone"], stretches["limited"]
    noisy = limited.noisy or ClientInterval(0)
    return Judged(
        quota=quota,
        is_rough=is_rough,
        broker_rates=broker_rates,
        noisy_throttle_ms=noisy.throttle_ms,
        polite_rate_scheduled=polite_rate,
        polite_rate=limited.polite.records_per_s,
        polite_failed=limited.polite.failed,
        polite_throttle_ms=limited.polite.throttle_ms,
        p99_alone_ms=alone.polite.latency.percentile_us(99) / 1e3,
        p99_limited_ms=limited.polite.latency.percentile_us(99) / 1e3,
    )


def rates_by_broker(
    interval: ClientInterval, leaders: Mapping[int, int], seconds: float
) -> dict[int, float]:
    """Acknowledged bytes/s of a client at each leader, from its bytes per partition."""
    rates = dict.fromkeys(leaders.values(), 0.0)
    for partition, size_bytes in interval.bytes_by_partition.items():
        if partition in leaders and seconds > 0:
            rates[leaders[partition]] += size_bytes / seconds
    return rates
