"""Connections that share a limit and always want more, on a simulated clock."""

import bisect
import heapq
import itertools
from random import Random

import pytest

from cluster.model.clocks import MonotonicMs
from cluster.model.quotas import QuotaEntity, QuotaKind
from cluster.quotas.account import Delay
from cluster.quotas.client_accounts import ClientAccounts
from cluster.quotas.client_quotas import ClientQuotas

WARM_MS = 12_000
END_MS = 45_000
LIMIT = 4_000_000.0
CPU_LIMIT = 20.0
"""Percent of one processor."""


class Load:
    """Each connection sends its next request as soon as it may."""

    def __init__(self, kind: QuotaKind, limit: float, connections: int, size: int) -> None:
        """`size` of each request, in bytes, or in microseconds for request time."""
        self._kind = kind
        self._size = size
        quotas = ClientQuotas()
        quotas.set_quota(QuotaEntity(None, "app"), kind, limit)
        self._accounts = ClientAccounts(quotas, "u", "app")
        self._connections = connections

    def run(self) -> list[float]:
        """The times in milliseconds at which requests were granted."""
        random = Random(1)  # round trips are uneven
        turns = [(0.0, each) for each in range(self._connections)]
        granted = []
        while turns[0][0] < END_MS:
            at_ms, connection = turns[0]
            delay = self._ask(MonotonicMs(int(at_ms)))
            if delay is None or delay.sends_data or self._kind is not QuotaKind.FETCH:
                granted.append(at_ms)
            wait_ms = delay.ms if delay else 0
            heapq.heapreplace(turns, (at_ms + wait_ms + 0.2 + random.random(), connection))
        return granted

    def _ask(self, now_ms: MonotonicMs) -> Delay | None:
        if self._kind is QuotaKind.FETCH:
            return self._accounts.on_fetched(0, self._size, now_ms)
        if self._kind is QuotaKind.PRODUCE:
            return self._accounts.on_produced(0, self._size, now_ms)
        return self._accounts.on_produced(self._size, 0, now_ms)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "limit", "size", "worth"),
    [
        (QuotaKind.PRODUCE, LIMIT, 16_384, 16_384),
        (QuotaKind.PRODUCE, LIMIT, 65_536, 65_536),
        (QuotaKind.FETCH, LIMIT, 65_536, 65_536),
        (QuotaKind.REQUEST, CPU_LIMIT, 1_000, 0.1),
    ],
    ids=["small batches", "batches", "fetches", "request time"],
)
@pytest.mark.parametrize("connections", [1, 20, 50])
def test_any_ten_seconds_are_within_two_percent_however_many_share_the_limit(
    kind, limit, size, worth, connections
):
    granted = Load(kind, limit, connections, size).run()
    starts = itertools.chain(granted, (at_ms - 10_000 for at_ms in granted))
    shares = [
        (bisect.bisect_left(granted, start + 10_000) - bisect.bisect_left(granted, start))
        * (worth / limit / 10)
        for start in starts
        if WARM_MS <= start <= END_MS - 10_000
    ]
    assert min(shares) >= 0.98
    assert max(shares) <= 1.02


def test_debt_of_connections_with_capped_delays_is_forgiven():
    """Their requests cost more than the limit pays in their maximum wait of a second."""
    quotas = ClientQuotas()
    quotas.set_quota(QuotaEntity(None, "app"), QuotaKind.REQUEST, 1.0)
    accounts = ClientAccounts(quotas, "u", "app")
    for second in range(60):
        for _ in range(50):
            delay = accounts.on_produced(1_000, 0, MonotonicMs(second * 1_000))
    assert delay is not None
    assert delay.ms == 1_000
    assert accounts.on_produced(0, 0, MonotonicMs(59_000 + 11_000)) is None
