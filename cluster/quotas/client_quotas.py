"""The quotas of one broker: records the usage of clients and computes their delays.

Kafka's `ClientQuotaManager` and `ClientRequestQuotaManager` as one pure object without sockets or
clock (KIP-13, KIP-124). Limits and rates are per broker.
"""

import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Final

from cluster.model.clocks import MonotonicMs
from cluster.model.quota_usage import QuotaUsage
from cluster.model.quotas import Limits, QuotaClient, QuotaEntity, QuotaKind
from cluster.quotas.account import Account
from cluster.quotas.quota_state import QuotaState
from cluster.quotas.quota_table import QuotaTable, Resolved
from cluster.quotas.sampled_rate import (
    MutationRate,
    SampledRate,
    WindowCredit,
    WindowOptions,
)

IDLE_MS: Final = 1_000
"""A client is forgotten if it has sent nothing for this long after its last sample became obsolete,
and owes nothing: it is then in the same state as a new one."""
ACCOUNTS_MAX: Final = 200_000
"""Above this, some clients that have long been idle are forgotten: 100 MB. A client has one account
for the time of its requests, and one for each kind of its bytes."""
NAMES_MAX_BYTES: Final = 64 << 20
"""Memory of the client ids of all accounts; above this some are forgotten as well. An id that is
kept whole takes at most 770 bytes."""
_ACCOUNT_BYTES: Final = 450
"""The size of a new account without its names."""
_LOOKED_AT_SHARE: Final = 64
"""The share of accounts that is checked a few times a second: half of all within 11 s."""
_LOOKED_AT: Final = 256
"""Accounts that are checked at once, to make room or a few times a second."""
_LOOKED_AT_EACH: Final = 2
"""Accounts that are checked for each new one, so that idle ones go as fast as clients come."""
_GOING: Final = 32
"""Accounts that are forgotten at once to make room."""

_SharedKey = tuple[QuotaKind, str | None, str | None]
_BudgetKey = _SharedKey | QuotaClient
"""The key of a shared budget is its kind and the shared names; else it is the client."""


class ClientQuotas:
    """Limits, budgets and usage of all clients of one broker; used by the broker's thread only.

    Invariant: every account has the limit that the table resolves for it, and accounts with the
    same tags share a budget. `now_ms` is monotonic and never goes back.
    """

    def __init__(
        self,
        options: WindowOptions | None = None,
        mutation_options: WindowOptions | None = None,
        *,
        accounts_max: int = ACCOUNTS_MAX,
        names_max_bytes: int = NAMES_MAX_BYTES,
    ) -> None:
        self._options = options or WindowOptions()
        self._request_options = replace(self._options, delay_ms_max=self._options.window_ms)
        self._mutation_options = mutation_options or WindowOptions()
        self.fetch_seconds = self._options.fetch_seconds
        """How many seconds' worth of its limit a client may fetch at once."""
        self._accounts_max = accounts_max
        self._names_max_bytes = names_max_bytes
        self._names_bytes = 0
        self._idle_ms = IDLE_MS + max(self._options.span_ms, self._mutation_options.span_ms)
        self.version = 0
        """Incremented whenever a limit changes."""
        self._table = QuotaTable()
        self._accounts: dict[QuotaKind, dict[QuotaClient, Account]] = {k: {} for k in QuotaKind}
        self._budgets: dict[_SharedKey, SampledRate] = {}
        """Budgets that several accounts may share."""
        self._sharers: Counter[_SharedKey] = Counter()
        """The number of accounts that share each."""
        self._next: deque[Account] = deque()
        """All accounts, in the order in which they are checked."""
        self._active: deque[Account] = deque()
        """Accounts with something to report, each once; some of them may have been forgotten."""

    # -- limits ------------------------------------------------------------------------------------

    def replace_quotas(self, quotas: Mapping[QuotaEntity, Limits]) -> None:
        """Replace all limits; they apply from the next request on."""
        self._table.replace(quotas)
        self._on_changed()

    def set_quota(self, entity: QuotaEntity, kind: QuotaKind, limit: float | None) -> None:
        """Set one limit, or remove it with None."""
        self._table.set(entity, kind, limit)
        self._on_changed()

    def quotas(self) -> dict[QuotaEntity, dict[QuotaKind, float]]:
        """All configured limits."""
        return self._table.snapshot()

    def resolve(self, kind: QuotaKind, user: str, client_id: str) -> Resolved:
        """The rule that applies, its limit, and who shares it. Names are as they are kept."""
        return self._table.resolve(kind, user, client_id)

    def _on_changed(self) -> None:
        """Accounts are resolved again when they are next used, since few of many are."""
        self.version += 1
        for account in self._next:
            account.is_outdated = True

    def _apply(self, account: Account, now_ms: MonotonicMs) -> None:
        resolved = self._table.resolve(account.kind, *account.client)
        account.is_outdated = False
        key = _budget_key(account.kind, account.client, resolved)
        if key != account.budget.key:
            self._leave_budget(account)
            account.budget = self._join_budget(account.kind, key, now_ms)
        account.rule = resolved.rule
        account.limit = resolved.limit

    def _leave_budget(self, account: Account) -> None:
        key = account.budget.key
        if not isinstance(key, QuotaClient):
            self._sharers[key] -= 1
            if not self._sharers[key]:
                del self._sharers[key], self._budgets[key]

    def _join_budget(self, kind: QuotaKind, key: _BudgetKey, now_ms: MonotonicMs) -> SampledRate:
        if isinstance(key, QuotaClient):
            return self._new_budget(kind, key, now_ms)
        budget = self._budgets.get(key)
        if budget is None:
            budget = self._budgets[key] = self._new_budget(kind, key, now_ms)
        self._sharers[key] += 1
        return budget

    def _new_budget(self, kind: QuotaKind, key: _BudgetKey, now_ms: MonotonicMs) -> SampledRate:
        if kind is QuotaKind.MUTATION:
            return MutationRate(self._mutation_options, now_ms, key)
        options = self._request_options if kind is QuotaKind.REQUEST else self._options
        return SampledRate(options, now_ms, key)

    def is_large(self, size_bytes: int, account: Account) -> bool:
        """Whether this many bytes are more than one window's worth of the account's limit.

        Never with Kafka's credit: there a fetch of more than all windows' worth waits forever.
        """
        options = self._options
        return (
            options.credit is WindowCredit.ELAPSED
            and account.limit is not None
            and size_bytes * 1_000 > account.limit * options.window_ms
        )

    # -- accounts ----------------------------------------------------------------------------------

    def account(self, kind: QuotaKind, client: QuotaClient, now_ms: MonotonicMs) -> Account:
        """The account of this client; created if it is new or was forgotten.

        Its names are as they are kept (`model/kept_names.py`), hence not long. Passing the same
        object for several kinds saves memory.
        """
        accounts = self._accounts[kind]
        account = accounts.get(client)
        if account is None:
            self._expire(_LOOKED_AT_EACH, now_ms)
            self._names_bytes += sys.getsizeof(client.client_id)
            if len(self._next) >= self._accounts_max or self._names_bytes > self._names_max_bytes:
                self._make_room()
            resolved = self._table.resolve(kind, *client)
            budget = self._join_budget(kind, _budget_key(kind, client, resolved), now_ms)
            account = Account(kind, client, self._active, now_ms, resolved, budget)
            accounts[client] = account
            self._next.append(account)
        elif account.is_outdated:
            self._apply(account, now_ms)
        return account

    def refreshed(self, account: Account, now_ms: MonotonicMs) -> Account:
        """The same client's account, with its current limit."""
        return self.account(account.kind, account.client, now_ms)

    def _make_room(self) -> None:
        count = min(_LOOKED_AT, len(self._next))
        silent_ms = sorted(account.last_ms for account in islice(self._next, count))
        until_ms = silent_ms[max(0, min(_GOING, count // 10) - 1)]
        self._look_at(count, lambda account: account.last_ms <= until_ms)

    def _look_at(self, count: int, is_over: Callable[[Account], bool]) -> None:
        """Check the next accounts, and forget those that are over; the others go to the end."""
        for _ in range(min(count, len(self._next))):
            account = self._next.popleft()
            if is_over(account):
                account.is_outdated = True
                del self._accounts[account.kind][account.client]
                self._names_bytes -= sys.getsizeof(account.client.client_id)
                self._leave_budget(account)
                if account.is_active:
                    account.is_active = False
                    self._drop_inactive()
            else:
                self._next.append(account)

    def _drop_inactive(self) -> None:
        """Remove forgotten accounts from the queue of active ones: two for each that was forgotten.

        So at most half of the queue are forgotten ones, however many come.
        """
        waiting = self._active
        for _ in range(min(2, len(waiting))):
            account = waiting.popleft()
            if account.is_active:
                waiting.append(account)

    def expire(self, now_ms: MonotonicMs) -> None:
        """Check some clients, and forget those that have long been idle; constant work."""
        self._expire(_LOOKED_AT, now_ms)

    def expire_share(self, now_ms: MonotonicMs) -> Iterator[None]:
        """The same for a share of all clients, in steps of constant work."""
        for _ in range(1 + len(self._next) // (_LOOKED_AT * _LOOKED_AT_SHARE)):
            self.expire(now_ms)
            yield

    def _expire(self, count: int, now_ms: MonotonicMs) -> None:
        self._look_at(count, lambda account: self._is_over(account, now_ms))

    def _is_over(self, account: Account, now_ms: MonotonicMs) -> bool:
        return (
            now_ms - account.last_ms >= self._idle_ms
            and now_ms >= account.muted_until_ms
            and not account.is_active
            and not account.delay_ms(now_ms)
        )

    # -- telling -----------------------------------------------------------------------------------

    @property
    def held_bytes(self) -> int:
        """The approximate memory of all accounts."""
        return len(self._next) * _ACCOUNT_BYTES + self._names_bytes

    @property
    def active_count(self) -> int:
        """The number of accounts that `drain_interval` visits: active and muted ones."""
        return len(self._active)

    def drain_interval(
        self, now_ms: MonotonicMs, at_most: int | None = None
    ) -> list[tuple[QuotaUsage, QuotaState]]:
        """The usage since the last drain and the current state of every active or muted client.

        At most `at_most` clients, those that have waited longest.
        """
        drained = []
        count = len(self._active) if at_most is None else min(at_most, len(self._active))
        for _ in range(count):
            account = self._active.popleft()
            if not account.is_active:
                continue  # forgotten
            account.is_active = False
            drained.append((account.drain_interval(now_ms), self._state_of(account, now_ms)))
            if account.muted_until_ms > now_ms:
                account.is_active = True
                self._active.append(account)
        return drained

    def state_of(
        self, kind: QuotaKind, user: str, client_id: str, now_ms: MonotonicMs
    ) -> QuotaState | None:
        """A client's current state; None if it has used nothing of this kind lately."""
        account = self._accounts[kind].get(QuotaClient(user, client_id))
        return None if account is None else self._state_of(account, now_ms)

    def state_of_silent(self, kind: QuotaKind, user: str, client_id: str) -> QuotaState:
        """The state of a client that was forgotten because it was idle."""
        resolved = self._table.resolve(kind, user, client_id)
        return QuotaState(
            rule=resolved.rule,
            limit=resolved.limit,
            rate=0.0,
            measured_ms=self._options.window_ms,
            delay_ms=0,
            mute_left_ms=0,
        )

    def _state_of(self, account: Account, now_ms: MonotonicMs) -> QuotaState:
        if account.is_outdated:
            account = self.refreshed(account, now_ms)
        return QuotaState(
            rule=account.rule,
            limit=account.limit,
            rate=account.budget.rate(now_ms),
            measured_ms=account.budget.measured_ms(now_ms),
            delay_ms=account.delay_ms(now_ms),
            mute_left_ms=max(0, account.muted_until_ms - now_ms),
            delay_max_ms=account.delay_ms_max or 0,
            muted_channels=account.muted_channels,
            samples=account.budget.windows(),
        )


def _budget_key(kind: QuotaKind, client: QuotaClient, resolved: Resolved) -> _BudgetKey:
    tags = resolved.tags
    return client if tags == client else (kind, *tags)
