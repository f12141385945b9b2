"""The quota core of one broker: records what clients use and says how long they have to wait.

Kafka's `ClientQuotaManager` and `ClientRequestQuotaManager` as one pure object: no sockets, no
clock (KIP-13, KIP-124). Limits and rates are per broker.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from cluster.brokers.quotas.account import Account
from cluster.brokers.quotas.quota_state import QuotaState
from cluster.brokers.quotas.quota_table import QuotaTable, Resolved
from cluster.brokers.quotas.sampled_rate import SampledRate, WindowOptions
from cluster.model.clocks import MonotonicMs
from cluster.model.quota_usage import QuotaUsage
from cluster.model.quotas import Limits, QuotaEntity, QuotaKind

IDLE_EXPIRY_MS: Final = 3_600_000
"""A client that sent nothing for an hour is forgotten, as in Kafka."""
CLIENTS_MAX: Final = 10_000
"""Above this, the tenth that has been silent longest is forgotten; a client takes about 2 kB."""

_BudgetKey = tuple[QuotaKind, str | None, str | None]
_ClientKey = tuple[QuotaKind, str, str]


class ClientQuotas:
    """Limits, budgets and usage of all clients of one broker; used by the broker's thread only.

    Invariant: every account holds what the table resolves for it now, and accounts with the same
    tags hold the same budget. `now_ms` is monotonic and never goes back.
    """

    def __init__(
        self,
        options: WindowOptions | None = None,
        *,
        clients_max: int = CLIENTS_MAX,
        idle_expiry_ms: int = IDLE_EXPIRY_MS,
    ) -> None:
        self._options = options or WindowOptions()
        self.fetch_seconds = self._options.fetch_seconds
        """How many seconds' worth of its limit a client may fetch at once."""
        self._clients_max = clients_max
        self._idle_expiry_ms = idle_expiry_ms
        self._table = QuotaTable()
        self._accounts: dict[_ClientKey, Account] = {}
        self._budgets: dict[_BudgetKey, SampledRate] = {}
        self._active: dict[Account, None] = {}
        self._expire_from_ms = 0

    # -- limits ------------------------------------------------------------------------------------

    def replace_quotas(self, quotas: Mapping[QuotaEntity, Limits], now_ms: MonotonicMs) -> None:
        """Take these limits in place of all others; they count from the next request on."""
        self._table.replace(quotas)
        self._resolve_again(now_ms)

    def set_quota(
        self, entity: QuotaEntity, kind: QuotaKind, limit: float | None, now_ms: MonotonicMs
    ) -> None:
        """Set one limit, or with None remove it."""
        self._table.set(entity, kind, limit)
        self._resolve_again(now_ms)

    def quotas(self) -> dict[QuotaEntity, dict[QuotaKind, float]]:
        """All limits that are set."""
        return self._table.snapshot()

    def resolve(self, kind: QuotaKind, user: str, client_id: str) -> Resolved:
        """Which rule applies, its limit, and who shares the budget."""
        account = self._accounts.get((kind, user, client_id))
        return self._table.resolve(kind, user, client_id) if account is None else account.resolved

    def _resolve_again(self, now_ms: MonotonicMs) -> None:
        for account in self._accounts.values():
            self._apply(account, now_ms)
        self._drop_unused_budgets()

    def _apply(self, account: Account, now_ms: MonotonicMs) -> None:
        resolved = self._table.resolve(account.kind, account.user, account.client_id)
        account.apply(resolved, self._budget(account.kind, resolved, now_ms))

    def _budget(self, kind: QuotaKind, resolved: Resolved, now_ms: MonotonicMs) -> SampledRate:
        key = (kind, resolved.user_tag, resolved.client_tag)
        budget = self._budgets.get(key)
        if budget is None:
            budget = self._budgets[key] = SampledRate(self._options, now_ms)
        return budget

    # -- accounts ----------------------------------------------------------------------------------

    def account(self, kind: QuotaKind, user: str, client_id: str, now_ms: MonotonicMs) -> Account:
        """Where to record what this client uses; made if it is new or was forgotten."""
        key = (kind, user, client_id)
        account = self._accounts.get(key)
        if account is None:
            if len(self._accounts) >= self._clients_max:
                self._forget_silent()
            cap_ms = self._options.window_ms if kind is QuotaKind.REQUEST else None
            account = Account(*key, self._active, cap_ms, now_ms)
            self._apply(account, now_ms)
            self._accounts[key] = account
        return account

    def _forget_silent(self) -> None:
        by_age = sorted(self._accounts.values(), key=lambda account: account.last_ms)
        self._forget(by_age[: max(1, len(by_age) // 10)])

    def _forget(self, accounts: Iterable[Account]) -> None:
        for account in accounts:
            account.is_closed = True
            del self._accounts[account.kind, account.user, account.client_id]
            self._active.pop(account, None)
        self._drop_unused_budgets()

    def _drop_unused_budgets(self) -> None:
        used = {
            (account.kind, account.resolved.user_tag, account.resolved.client_tag)
            for account in self._accounts.values()
        }
        for key in self._budgets.keys() - used:
            del self._budgets[key]

    def expire(self, now_ms: MonotonicMs) -> None:
        """Forget clients that have been silent for an hour; cheap to call often."""
        if now_ms < self._expire_from_ms:
            return
        self._expire_from_ms = now_ms + min(60_000, self._idle_expiry_ms)
        idle = [
            account
            for account in self._accounts.values()
            if now_ms - account.last_ms >= self._idle_expiry_ms and account not in self._active
        ]
        if idle:
            self._forget(idle)

    # -- telling -----------------------------------------------------------------------------------

    def drain_interval(self, now_ms: MonotonicMs) -> list[tuple[QuotaUsage, QuotaState]]:
        """What every client that was active or is muted used since the last drain, and its present
        state.
        """
        accounts = list(self._active)
        self._active.clear()
        drained = []
        for account in accounts:
            drained.append((account.drain_interval(now_ms), self._state_of(account, now_ms)))
            if account.muted_until_ms > now_ms:
                self._active[account] = None
        self.expire(now_ms)
        return drained

    def state_of(
        self, kind: QuotaKind, user: str, client_id: str, now_ms: MonotonicMs
    ) -> QuotaState | None:
        """A client's present state; None if it has used nothing of this kind lately."""
        account = self._accounts.get((kind, user, client_id))
        return None if account is None else self._state_of(account, now_ms)

    def _state_of(self, account: Account, now_ms: MonotonicMs) -> QuotaState:
        return QuotaState(
            rule=account.resolved.rule,
            limit=account.limit,
            rate=account.budget.rate(now_ms),
            measured_ms=account.budget.measured_ms(now_ms),
            delay_ms=account.delay_ms(now_ms),
            mute_left_ms=max(0, account.muted_until_ms - now_ms),
        )
