"""A load against the broker's quotas, on a simulated clock: who is throttled when. Pure.

A connection sends its requests in order, each when it is due and the previous one has been
answered; a throttled connection continues when its delay is over, as the broker's mute makes every
client do. Handling takes no time. A fetch takes at most what the broker sends at once, and is
repeated after a delay, since a throttled response has no records (KIP-219); so is a change of
topics that is refused (KIP-599), and a connection that is closed for its address's rate (KIP-612).
"""

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from cluster.model.clocks import MonotonicMs
from cluster.model.errors import Refused
from cluster.model.quotas import QuotaEntity, QuotaKind
from cluster.quotas.client_accounts import ClientAccounts
from cluster.quotas.client_quotas import ClientQuotas
from cluster.quotas.connection_rates import ConnectionRates
from cluster.quotas.mutation_quota import MutationQuota
from cluster.quotas.sampled_rate import WindowOptions

_USER: Final = "simulated"
_CLIENT_ID: Final = "simulated"
_HOST: Final = "192.0.2.1"
_START_MS: Final = 1
"""The clock at the beginning of the load."""


COUNTED: Final = (QuotaKind.MUTATION, QuotaKind.CONNECTION)
"""Quotas that do not count bytes: created and deleted partitions, and accepted connections."""


class Offer(NamedTuple):
    """A request that a connection wants to send, or records that it wants to fetch.

    For an address, a connection that one of its clients wants to open.
    """

    at_ms: int
    """Since the beginning of the load."""
    amount: int
    """Bytes, partitions, or 1 for a connection."""
    connection: int


class Step(NamedTuple):
    """One request as the broker handled it."""

    at_ms: int
    connection: int
    due_ms: int
    """When the connection wanted to send it."""
    amount: int
    """0 for a fetch that was answered without records, and for a refused request."""
    rate: float
    """The rate of `Simulated.kind` after the request."""
    delay_ms: int


@dataclass(frozen=True, slots=True)
class Simulated:
    """The simulated limits, windows and kind of request."""

    limits: Mapping[QuotaKind, float]
    windows: WindowOptions
    load: QuotaKind = QuotaKind.PRODUCE
    """The kind of load; never REQUEST, which limits produce requests and fetches."""
    request_us: int = 0
    """How long each request occupies the broker's thread."""

    @property
    def kind(self) -> QuotaKind:
        """The quota whose rate is shown."""
        return self.load if self.load in self.limits else QuotaKind.REQUEST


def steady_load(rate: float, connections: int, batch: int, duration_ms: int) -> Iterator[Offer]:
    """A load of this much per second in requests of `batch`, in turn from each connection."""
    every_ms = batch * 1_000 / rate
    for number in range(math.ceil(duration_ms / every_ms)):
        yield Offer(int(number * every_ms), batch, number % connections)


def simulate(what: Simulated, offers: Iterable[Offer]) -> Iterator[Step]:
    """Every request in the order in which the broker handles it, until all are sent."""
    broker = _Broker(what)
    waiting: dict[int, deque[Offer]] = {}
    for offer in sorted(offers, key=lambda each: each.at_ms):
        waiting.setdefault(offer.connection, deque()).append(offer)
    # (when it can be handled, when it was due, connection): earlier requests first.
    turns = [(queue[0].at_ms, queue[0].at_ms, number) for number, queue in waiting.items()]
    heapq.heapify(turns)
    while turns:
        at_ms, due_ms, number = heapq.heappop(turns)
        queue = waiting[number]
        offer = queue.popleft()
        step = broker.take(offer, due_ms, at_ms)
        yield step
        if step.amount < offer.amount:
            queue.appendleft(offer._replace(amount=offer.amount - step.amount))
        if queue:
            next_ms = max(queue[0].at_ms, at_ms + step.delay_ms)
            heapq.heappush(turns, (next_ms, queue[0].at_ms, number))


class _Broker:
    """Calls the quotas of a broker as its handlers and its acceptor do."""

    def __init__(self, what: Simulated) -> None:
        self._what = what
        self._quotas = ClientQuotas(what.windows, what.windows)
        self._addresses = ConnectionRates(what.windows)
        self._accounts: dict[int, ClientAccounts] = {}
        for kind, limit in what.limits.items():
            if kind is not QuotaKind.CONNECTION:
                entity = QuotaEntity(_USER, None)
                self._quotas.set_quota(entity, kind, limit)
        self._addresses.take_quotas({QuotaEntity(None, None, _HOST): what.limits})

    def take(self, offer: Offer, due_ms: int, at_ms: int) -> Step:
        now_ms = MonotonicMs(_START_MS + at_ms)
        if self._what.load is QuotaKind.CONNECTION:
            delay_ms = self._addresses.close_after_ms(_HOST, now_ms)
            amount, rate = 0 if delay_ms else offer.amount, self._addresses.rate(_HOST, now_ms)
        else:
            amount, delay_ms = self._take_request(offer, now_ms)
            state = self._quotas.state_of(self._what.kind, _USER, _CLIENT_ID, now_ms)
            rate = 0.0 if state is None else state.rate
        return Step(at_ms, offer.connection, due_ms, amount, rate, delay_ms)

    def _take_request(self, offer: Offer, now_ms: MonotonicMs) -> tuple[int, int]:
        """The amount that is taken, and the delay."""
        accounts = self._accounts.get(offer.connection)
        if accounts is None:
            accounts = ClientAccounts(self._quotas, _USER, _CLIENT_ID)
            self._accounts[offer.connection] = accounts
        amount, request_us = offer.amount, self._what.request_us
        match self._what.load:
            case QuotaKind.MUTATION:
                mutation = MutationQuota(accounts.mutations(now_ms), lambda: now_ms, is_strict=True)
                try:
                    mutation.admit("simulated", amount)
                except Refused:
                    amount = 0
                delay = mutation.larger(None)
            case QuotaKind.FETCH:
                amount = int(min(amount, max(1, accounts.fetch_bytes_max(now_ms))))
                delay = accounts.on_fetched(request_us, amount, now_ms)
                amount = 0 if delay is not None and not delay.sends_data else amount
            case _:
                delay = accounts.on_produced(request_us, amount, now_ms)
        return amount, 0 if delay is None else delay.ms


@dataclass(slots=True)
class Interval:
    """One interval of the timeline."""

    begin_ms: int
    offered: int = 0
    taken: int = 0
    """The taken amount, as `Offer.amount`."""
    requests: int = 0
    throttled: int = 0
    delay_ms_max: int = 0
    muted_ms: int = 0
    """Summed over connections."""
    rate: float = 0.0
    """The rate at its last request."""


def timeline(offers: Iterable[Offer], steps: Iterable[Step], interval_ms: int) -> list[Interval]:
    """Offers and steps by interval, from 0 to the last one with any, without gaps."""
    found: dict[int, Interval] = {}

    def at(time_ms: int) -> Interval:
        number = time_ms // interval_ms
        return found.setdefault(number, Interval(number * interval_ms))

    for offer in offers:
        at(offer.at_ms).offered += offer.amount
    for step in steps:
        interval = at(step.at_ms)
        interval.requests += 1
        interval.taken += step.amount
        interval.rate = step.rate
        if step.delay_ms:
            interval.throttled += 1
            interval.delay_ms_max = max(interval.delay_ms_max, step.delay_ms)
            _spread_mute(step, interval_ms, at)
    last = max(found, default=-1)
    rows = [found.get(number) or Interval(number * interval_ms) for number in range(last + 1)]
    for before, row in itertools.pairwise(rows):
        if not row.requests:
            row.rate = before.rate  # no request: the earlier figure is repeated
    return rows


def _spread_mute(step: Step, interval_ms: int, at: Callable[[int], Interval]) -> None:
    begin_ms, end_ms = step.at_ms, step.at_ms + step.delay_ms
    while begin_ms < end_ms:
        until_ms = min(end_ms, (begin_ms // interval_ms + 1) * interval_ms)
        at(begin_ms).muted_ms += until_ms - begin_ms
        begin_ms = until_ms
