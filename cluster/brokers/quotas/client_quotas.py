"""The quota core of one broker: records what clients use and says how long they have to wait.

Kafka's `ClientQuotaManager` and `ClientRequestQuotaManager` as one pure object: no sockets, no
clock (QTA2-QTA5). Limits and rates are per broker.
"""

import math
from collections.abc import Mapping
from typing import Final

from cluster.brokers.quotas.quota_table import QuotaTable, Resolved
from cluster.brokers.quotas.sampled_rate import SampledRate, WindowOptions
from cluster.brokers.quotas.standing import IntervalUsage, QuotaStanding, delay_arithmetic
from cluster.model.quotas import Limits, QuotaEntity, QuotaKind

IDLE_EXPIRY_MS: Final = 3_600_000
"""A client that sent nothing for an hour is forgotten, as in Kafka."""
CLIENTS_MAX: Final = 10_000
"""Above this, the tenth that has been silent longest is forgotten; a client takes about 2 kB."""

_BudgetKey = tuple[QuotaKind, str | None, str | None]
_ClientKey = tuple[QuotaKind, str, str]


class _Client:
    """One user and client id under one kind of quota: its budget and its running interval."""

    __slots__ = (
        "budget",
        "client_id",
        "counted_until_ms",
        "kind",
        "last_ms",
        "muted_ms",
        "muted_until_ms",
        "requests",
        "resolved",
        "throttle_ms",
        "throttle_ms_max",
        "throttled",
        "usage",
        "user",
    )

    def __init__(
        self, key: _ClientKey, resolved: Resolved, budget: SampledRate, now_ms: int
    ) -> None:
        self.kind, self.user, self.client_id = key
        self.resolved = resolved
        self.budget = budget
        self.last_ms = now_ms
        self.muted_until_ms = now_ms
        self.counted_until_ms = now_ms
        self.begin_interval()

    def begin_interval(self) -> None:
        self.usage = 0.0
        self.requests = 0
        self.throttled = 0
        self.throttle_ms = 0
        self.throttle_ms_max = 0
        self.muted_ms = 0

    def count_muted(self, now_ms: int) -> None:
        """Add what has passed of the time that its channels are muted."""
        end_ms = min(now_ms, self.muted_until_ms)
        if end_ms > self.counted_until_ms:
            self.muted_ms += end_ms - self.counted_until_ms
        self.counted_until_ms = now_ms


class ClientQuotas:
    """Limits, budgets and usage of all clients of one broker; used by the broker's thread only.

    Invariant: every known client holds what the table resolves for it now, and clients with the
    same tags hold the same budget. `now_ms` is monotonic and never goes back.
    """

    def __init__(
        self,
        options: WindowOptions | None = None,
        *,
        clients_max: int = CLIENTS_MAX,
        idle_expiry_ms: int = IDLE_EXPIRY_MS,
    ) -> None:
        self._options = options or WindowOptions()
        self._clients_max = clients_max
        self._idle_expiry_ms = idle_expiry_ms
        self._table = QuotaTable()
        self._clients: dict[_ClientKey, _Client] = {}
        self._budgets: dict[_BudgetKey, SampledRate] = {}
        self._active: dict[_ClientKey, _Client] = {}
        self._expire_from_ms = 0

    # -- limits ------------------------------------------------------------------------------------

    def replace_quotas(self, quotas: Mapping[QuotaEntity, Limits], now_ms: int) -> None:
        """Take these limits in place of all others; they count from the next request on."""
        self._table.replace(quotas)
        self._resolve_again(now_ms)

    def set_quota(
        self, entity: QuotaEntity, kind: QuotaKind, limit: float | None, now_ms: int
    ) -> None:
        """Set one limit, or with None remove it."""
        self._table.set(entity, kind, limit)
        self._resolve_again(now_ms)

    def quotas(self) -> dict[QuotaEntity, dict[QuotaKind, float]]:
        """All limits that are set."""
        return self._table.snapshot()

    def resolve(self, kind: QuotaKind, user: str, client_id: str) -> Resolved:
        """Which rule applies, its limit, and who shares the budget."""
        client = self._clients.get((kind, user, client_id))
        return self._table.resolve(kind, user, client_id) if client is None else client.resolved

    def max_value_in_window(self, kind: QuotaKind, user: str, client_id: str) -> float:
        """The most that one fetch should take: a much larger one would never be admitted."""
        limit = self.resolve(kind, user, client_id).limit
        return math.inf if limit is None else limit * self._options.fetch_seconds

    def _resolve_again(self, now_ms: int) -> None:
        for client in self._clients.values():
            client.resolved = self._table.resolve(client.kind, client.user, client.client_id)
            client.budget = self._budget(client.kind, client.resolved, now_ms)
        self._drop_unused_budgets()

    def _budget(self, kind: QuotaKind, resolved: Resolved, now_ms: int) -> SampledRate:
        key = (kind, resolved.user_tag, resolved.client_tag)
        budget = self._budgets.get(key)
        if budget is None:
            budget = self._budgets[key] = SampledRate(self._options, now_ms)
        return budget

    # -- usage -------------------------------------------------------------------------------------

    def record(self, kind: QuotaKind, user: str, client_id: str, value: float, now_ms: int) -> int:
        """Count bytes, or percent of one thread x seconds; the delay in ms, 0 for none."""
        key = (kind, user, client_id)
        client = self._clients.get(key)
        if client is None:
            client = self._admit(key, now_ms)
        if client.requests == 0:
            self._active[key] = client
        client.last_ms = now_ms
        client.requests += 1
        client.usage += value
        budget = client.budget
        budget.record(value, now_ms)
        limit = client.resolved.limit
        if limit is None:
            return 0
        delay_ms = budget.delay_ms(limit, now_ms)
        if kind is QuotaKind.REQUEST and delay_ms > self._options.window_ms:
            return self._options.window_ms
        return delay_ms

    def unrecord(
        self, kind: QuotaKind, user: str, client_id: str, value: float, now_ms: int
    ) -> None:
        """Take back what was recorded at the same time: the answer goes out without the bytes."""
        client = self._clients.get((kind, user, client_id))
        if client is not None:
            client.usage -= value
            client.budget.record(-value, now_ms)

    def on_throttled(
        self, kind: QuotaKind, user: str, client_id: str, delay_ms: int, now_ms: int
    ) -> None:
        """A channel of this client was told to wait, and is muted from now for `delay_ms`."""
        key = (kind, user, client_id)
        client = self._clients.get(key)
        if client is None:
            client = self._admit(key, now_ms)
        self._active[key] = client
        client.count_muted(now_ms)
        client.throttled += 1
        client.throttle_ms += delay_ms
        client.throttle_ms_max = max(client.throttle_ms_max, delay_ms)
        client.muted_until_ms = max(client.muted_until_ms, now_ms + delay_ms)

    def on_limits_eased(
        self, kind: QuotaKind, user: str, client_id: str, until_ms: int, now_ms: int
    ) -> None:
        """The mute of this client was shortened, since its limit has changed."""
        client = self._clients.get((kind, user, client_id))
        if client is not None:
            client.count_muted(now_ms)
            client.muted_until_ms = until_ms

    def delay_ms(self, kind: QuotaKind, user: str, client_id: str, now_ms: int) -> int:
        """What a request that uses nothing would be told now."""
        client = self._clients.get((kind, user, client_id))
        if client is None or client.resolved.limit is None:
            return 0
        return self._capped(kind, client.budget.delay_ms(client.resolved.limit, now_ms))

    def _capped(self, kind: QuotaKind, delay_ms: int) -> int:
        return min(delay_ms, self._options.window_ms) if kind is QuotaKind.REQUEST else delay_ms

    def _admit(self, key: _ClientKey, now_ms: int) -> _Client:
        if len(self._clients) >= self._clients_max:
            self._forget_silent()
        resolved = self._table.resolve(*key)
        client = _Client(key, resolved, self._budget(key[0], resolved, now_ms), now_ms)
        self._clients[key] = client
        return client

    def _forget_silent(self) -> None:
        by_age = sorted(self._clients, key=lambda key: self._clients[key].last_ms)
        for key in by_age[: max(1, len(by_age) // 10)]:
            del self._clients[key]
            self._active.pop(key, None)
        self._drop_unused_budgets()

    def _drop_unused_budgets(self) -> None:
        used = {
            (client.kind, client.resolved.user_tag, client.resolved.client_tag)
            for client in self._clients.values()
        }
        for key in self._budgets.keys() - used:
            del self._budgets[key]

    def expire(self, now_ms: int) -> None:
        """Forget clients that have been silent for an hour; cheap to call often."""
        if now_ms < self._expire_from_ms:
            return
        self._expire_from_ms = now_ms + min(60_000, self._idle_expiry_ms)
        idle = [
            key
            for key, client in self._clients.items()
            if now_ms - client.last_ms >= self._idle_expiry_ms and key not in self._active
        ]
        for key in idle:
            del self._clients[key]
        if idle:
            self._drop_unused_budgets()

    # -- telling -----------------------------------------------------------------------------------

    def drain_interval(self, now_ms: int) -> list[IntervalUsage]:
        """What happened since the last drain, of every client that was active or is muted."""
        drained = []
        still_muted = {}
        for key, client in self._active.items():
            client.count_muted(now_ms)
            drained.append(
                IntervalUsage(
                    client.kind,
                    client.user,
                    client.client_id,
                    client.resolved.rule,
                    client.resolved.limit,
                    client.usage,
                    client.budget.rate(now_ms),
                    client.requests,
                    client.throttled,
                    client.throttle_ms,
                    client.throttle_ms_max,
                    client.muted_ms,
                    max(0, client.muted_until_ms - now_ms),
                )
            )
            client.begin_interval()
            if client.muted_until_ms > now_ms:
                still_muted[key] = client
        self._active = still_muted
        self.expire(now_ms)
        return drained

    def explain(self, user: str | None, client_id: str | None, now_ms: int) -> list[QuotaStanding]:
        """Where clients stand, one entry per client and kind; None matches any that was seen.

        With both given there is an entry for each kind even if the client was never seen.
        """
        keys = [
            key for key in self._clients if user in (None, key[1]) and client_id in (None, key[2])
        ]
        if user is not None and client_id is not None:
            keys = [(kind, user, client_id) for kind in QuotaKind]
        return [self._standing(key, now_ms) for key in sorted(keys, key=_by_client)]

    def _standing(self, key: _ClientKey, now_ms: int) -> QuotaStanding:
        kind, user, client_id = key
        client = self._clients.get(key)
        resolved = self.resolve(kind, user, client_id)
        # A client that was not seen may still share a budget that others use.
        budget = self._budgets.get((kind, resolved.user_tag, resolved.client_tag))
        if budget is None:
            budget = SampledRate(self._options, now_ms)
        measured_ms = budget.measured_ms(now_ms)
        limit = resolved.limit
        observed = budget.rate(now_ms)
        delay_ms = 0 if limit is None else self._capped(kind, budget.delay_ms(limit, now_ms))
        cap_ms = self._options.window_ms if kind is QuotaKind.REQUEST else None
        return QuotaStanding(
            kind,
            user,
            client_id,
            client is not None,
            resolved.rule,
            limit,
            resolved.user_tag,
            resolved.client_tag,
            observed,
            budget.total,
            measured_ms,
            None if limit is None else observed / limit,
            delay_ms,
            delay_arithmetic(kind, limit, budget.total, measured_ms, delay_ms, cap_ms),
            0 if client is None else max(0, client.muted_until_ms - now_ms),
        )


def _by_client(key: _ClientKey) -> tuple[str, str, int]:
    return key[1], key[2], list(QuotaKind).index(key[0])
