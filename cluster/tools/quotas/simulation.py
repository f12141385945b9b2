"""A load against the quota core of the broker, on a clock of its own: when is who throttled. Pure.

A connection sends its requests in order, each when it is due and the one before has been answered;
a throttled connection goes on when its delay is over, as the broker's mute makes every client do.
Handling takes no time. A fetch takes at most what the broker hands out at once, and is repeated
after a delay, since a throttled answer has no records (KIP-219).
"""

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from cluster.brokers.quotas.client_accounts import ClientAccounts
from cluster.brokers.quotas.client_quotas import ClientQuotas
from cluster.brokers.quotas.sampled_rate import WindowOptions
from cluster.model.clocks import MonotonicMs
from cluster.model.quotas import QuotaEntity, QuotaKind

_USER: Final = "simulated"
_CLIENT_ID: Final = "simulated"
_START_MS: Final = 1
"""The clock's begin: time 0 of the load."""


class Offer(NamedTuple):
    """A request that a connection wants to send, or the records that it wants to fetch."""

    at_ms: int
    """Since the begin of the load."""
    size_bytes: int
    connection: int


class Step(NamedTuple):
    """One request as the broker took it."""

    at_ms: int
    connection: int
    due_ms: int
    """When the connection wanted to send it."""
    size_bytes: int
    """0 for a fetch that was answered without records."""
    rate: float
    """Of `Simulated.kind`, after the request."""
    delay_ms: int


@dataclass(frozen=True, slots=True)
class Simulated:
    """What is simulated: limits, windows, what a request is."""

    limits: Mapping[QuotaKind, float]
    windows: WindowOptions
    fetches: bool = False
    """Requests are fetches, rather than produce requests."""
    request_us: int = 0
    """How long each keeps the broker's thread."""

    @property
    def kind(self) -> QuotaKind:
        """The quota whose rate is told."""
        kind = QuotaKind.FETCH if self.fetches else QuotaKind.PRODUCE
        return kind if kind in self.limits else QuotaKind.REQUEST


def steady_load(
    rate: float, connections: int, batch_bytes: int, duration_ms: int
) -> Iterator[Offer]:
    """So many bytes per second in requests of `batch_bytes`, in turn from each connection."""
    every_ms = batch_bytes * 1_000 / rate
    for number in range(math.ceil(duration_ms / every_ms)):
        yield Offer(int(number * every_ms), batch_bytes, number % connections)


def simulate(what: Simulated, offers: Iterable[Offer]) -> Iterator[Step]:
    """Every request in the order in which the broker takes them, until all are sent."""
    quotas = ClientQuotas(what.windows)
    for kind, limit in what.limits.items():
        quotas.set_quota(QuotaEntity(_USER, None), kind, limit, MonotonicMs(_START_MS))
    waiting: dict[int, deque[Offer]] = {}
    for offer in sorted(offers, key=lambda each: each.at_ms):
        waiting.setdefault(offer.connection, deque()).append(offer)
    accounts = {number: ClientAccounts(quotas, _USER, _CLIENT_ID) for number in waiting}
    # (when it can be taken, when it was due, connection): earlier requests first.
    turns = [(queue[0].at_ms, queue[0].at_ms, number) for number, queue in waiting.items()]
    heapq.heapify(turns)
    while turns:
        at_ms, due_ms, number = heapq.heappop(turns)
        queue = waiting[number]
        offer = queue.popleft()
        step = _take(what, quotas, accounts[number], offer, due_ms, at_ms)
        yield step
        if step.size_bytes < offer.size_bytes:
            queue.appendleft(offer._replace(size_bytes=offer.size_bytes - step.size_bytes))
        if queue:
            next_ms = max(queue[0].at_ms, at_ms + step.delay_ms)
            heapq.heappush(turns, (next_ms, queue[0].at_ms, number))


def _take(
    what: Simulated,
    quotas: ClientQuotas,
    accounts: ClientAccounts,
    offer: Offer,
    due_ms: int,
    at_ms: int,
) -> Step:
    now_ms = MonotonicMs(_START_MS + at_ms)
    size_bytes = offer.size_bytes
    if what.fetches:
        size_bytes = int(min(size_bytes, max(1, accounts.fetch_bytes_max(now_ms))))
        delay = accounts.on_fetched(what.request_us, size_bytes, now_ms)
        size_bytes = 0 if delay is not None else size_bytes
    else:
        delay = accounts.on_produced(what.request_us, size_bytes, now_ms)
    state = quotas.state_of(what.kind, _USER, _CLIENT_ID, now_ms)
    return Step(
        at_ms,
        offer.connection,
        due_ms,
        size_bytes,
        0.0 if state is None else state.rate,
        0 if delay is None else delay.ms,
    )


@dataclass(slots=True)
class Interval:
    """What happened within one interval of the timeline."""

    begin_ms: int
    offered_bytes: int = 0
    taken_bytes: int = 0
    requests: int = 0
    throttled: int = 0
    delay_ms_max: int = 0
    muted_ms: int = 0
    """Summed over connections."""
    rate: float = 0.0
    """At the last request of it."""


def timeline(offers: Iterable[Offer], steps: Iterable[Step], interval_ms: int) -> list[Interval]:
    """Offers and steps by interval, from 0 to the last that has any, without gaps."""
    found: dict[int, Interval] = {}

    def at(time_ms: int) -> Interval:
        number = time_ms // interval_ms
        return found.setdefault(number, Interval(number * interval_ms))

    for offer in offers:
        at(offer.at_ms).offered_bytes += offer.size_bytes
    for step in steps:
        interval = at(step.at_ms)
        interval.requests += 1
        interval.taken_bytes += step.size_bytes
        interval.rate = step.rate
        if step.delay_ms:
            interval.throttled += 1
            interval.delay_ms_max = max(interval.delay_ms_max, step.delay_ms)
            _spread_mute(step, interval_ms, at)
    last = max(found, default=-1)
    rows = [found.get(number) or Interval(number * interval_ms) for number in range(last + 1)]
    for before, row in itertools.pairwise(rows):
        if not row.requests:
            row.rate = before.rate  # nothing was looked at: the figure of before is repeated
    return rows


def _spread_mute(step: Step, interval_ms: int, at: Callable[[int], Interval]) -> None:
    begin_ms, end_ms = step.at_ms, step.at_ms + step.delay_ms
    while begin_ms < end_ms:
        until_ms = min(end_ms, (begin_ms // interval_ms + 1) * interval_ms)
        at(begin_ms).muted_ms += until_ms - begin_ms
        begin_ms = until_ms
