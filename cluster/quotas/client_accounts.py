"""Charges a client's requests: their time to one account, their bytes to another."""

import math
from collections.abc import Callable
from typing import Final

from cluster.model.clocks import MonotonicMs
from cluster.model.kept_names import kept_name
from cluster.model.quotas import QuotaClient, QuotaKind
from cluster.quotas.account import Account, Delay
from cluster.quotas.client_quotas import ClientQuotas

_PERCENT_SECONDS_PER_US: Final = 1e-4
"""100 % of one thread for one second is 1e6 us."""


class ClientAccounts:
    """Kept by a connection, so that accounts are not looked up for each request.

    If two quotas are exceeded, the longer delay counts, not the sum (as in Kafka).
    """

    __slots__ = ("_fetch", "_produce", "_quotas", "_request", "client")

    def __init__(self, quotas: ClientQuotas, user: str, client_id: str) -> None:
        """`user` and `client_id` may be of any length."""
        self._quotas = quotas
        self.client = QuotaClient(kept_name(user), kept_name(client_id))
        """With names as they are kept (`model/kept_names.py`)."""
        self._request: Account | None = None
        self._produce: Account | None = None
        self._fetch: Account | None = None

    def on_request(self, used_us: int, _size_bytes: int, now_ms: MonotonicMs) -> Delay | None:
        """Charge a request and the thread's time for this client since the last one.

        Returns None without a delay.
        """
        account = self._request
        if account is None or account.is_outdated:
            account = self._request = self._open(QuotaKind.REQUEST, now_ms)
        delay_ms = account.record(used_us * _PERCENT_SECONDS_PER_US, now_ms)
        return Delay(delay_ms, account) if delay_ms else None

    def on_produced(self, used_us: int, size_bytes: int, now_ms: MonotonicMs) -> Delay | None:
        """Charge a produce request of this size."""
        request, produce = self._request, self._produce
        if request is None or request.is_outdated:
            request = self._request = self._open(QuotaKind.REQUEST, now_ms)
        if produce is None or produce.is_outdated:
            produce = self._produce = self._open(QuotaKind.PRODUCE, now_ms)
        by_time_ms = request.record(used_us * _PERCENT_SECONDS_PER_US, now_ms)
        by_bytes_ms = produce.record(size_bytes, now_ms)
        if by_bytes_ms > by_time_ms:
            return Delay(by_bytes_ms, produce)
        return Delay(by_time_ms, request) if by_time_ms else None

    def on_fetched(self, used_us: int, size_bytes: int, now_ms: MonotonicMs) -> Delay | None:
        """Charge a fetch that can be answered with this many bytes.

        With a delay they must not be sent, unless `Delay.sends_data`.
        """
        request, fetch = self._request, self._fetch
        if request is None or request.is_outdated:
            request = self._request = self._open(QuotaKind.REQUEST, now_ms)
        if fetch is None or fetch.is_outdated:
            fetch = self._fetch = self._open(QuotaKind.FETCH, now_ms)
        by_time_ms = request.record(used_us * _PERCENT_SECONDS_PER_US, now_ms)
        by_bytes_ms = fetch.record(size_bytes, now_ms)
        if not by_time_ms and not by_bytes_ms:
            return None
        fetch.take_back(size_bytes, now_ms)
        if by_bytes_ms and self._quotas.is_large(size_bytes, fetch):
            # It would never fit: it is sent as soon as nothing is owed, and paid for afterwards.
            owed_ms = fetch.delay_ms(now_ms)
            if not owed_ms and not by_time_ms:
                fetch.add(size_bytes, now_ms)
                return Delay(by_bytes_ms, fetch, sends_data=True)
            by_bytes_ms = owed_ms
        if by_bytes_ms > by_time_ms:
            return Delay(by_bytes_ms, fetch)
        return Delay(by_time_ms, request)

    def on_left(self, used_ns: int, now_ms: MonotonicMs) -> None:
        """Charge the time for a closed connection since its last request."""
        self._open(QuotaKind.REQUEST, now_ms).add(used_ns * _PERCENT_SECONDS_PER_US / 1_000, now_ms)

    def fetch_bytes_max(self, now_ms: MonotonicMs) -> float:
        """The most bytes that one fetch should take: a much larger one would never be admitted."""
        fetch = self._fetch
        if fetch is None or fetch.is_outdated:
            fetch = self._fetch = self._open(QuotaKind.FETCH, now_ms)
        return math.inf if fetch.limit is None else fetch.limit * self._quotas.fetch_seconds

    def mutations(self, now_ms: MonotonicMs) -> Account:
        """The account of created and deleted partitions."""
        return self._open(QuotaKind.MUTATION, now_ms)

    def _open(self, kind: QuotaKind, now_ms: MonotonicMs) -> Account:
        return self._quotas.account(kind, self.client, now_ms)


Charge = Callable[[ClientAccounts, int, int, MonotonicMs], Delay | None]
"""One of the methods above: from accounts, microseconds, bytes and time (ms) to the delay."""
