"""Clients as lists show them: one per user and client id, those that matter first. Pure.

Milena's own clients and idle ones are hidden until they are asked for.
"""

import enum
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cluster.metrics.stats_layout import QuotaRow
from cluster.model.clocks import MonotonicMs
from cluster.model.own_clients import is_own
from cluster.model.quotas import QuotaKind
from cluster.model.security import ANONYMOUS
from cluster.views.client_states import ClientState, by_client
from cluster.views.client_verdict import IDLE_AFTER_MS, NEAR_FROM, is_throttled


class Hidden(enum.StrEnum):
    """Why a list leaves out a client unless it is asked for."""

    OWN = "own"
    """It is one of Milena's tools, its page or its rollup."""
    IDLE = "idle"
    """It has sent no request for a minute."""


@dataclass(frozen=True, slots=True)
class ListedClient:
    """One client with its quotas on all brokers."""

    user: str
    client_id: str
    quotas: dict[str, list[ClientState]]
    """By kind of quota; in each, live brokers and high use first."""
    hidden: Hidden | None

    @property
    def states(self) -> list[ClientState]:
        return [state for group in self.quotas.values() for state in group]

    @property
    def is_throttled(self) -> bool:
        """Whether a living broker delays its responses now."""
        return any(map(is_throttled, self.states))

    @property
    def utilization(self) -> float | None:
        """The highest share of a limit on a live broker; None without a limit."""
        return max(
            (
                used
                for state in self.states
                if not state.source.is_dead and (used := state.row.utilization) is not None
            ),
            default=None,
        )

    @property
    def bytes_per_s(self) -> float:
        """What it produces and fetches on all live brokers."""
        return sum(
            state.row.rate
            for state in self.states
            if state.row.quota in (QuotaKind.PRODUCE, QuotaKind.FETCH) and not state.source.is_dead
        )

    @property
    def shown_quotas(self) -> dict[str, list[ClientState]]:
        """The quotas that have a rate, a limit or a mute."""
        return {
            quota: group
            for quota, group in self.quotas.items()
            if any(state.is_active or state.row.limit is not None for state in group)
        }


def listed_clients(states: Iterable[ClientState], now_ms: MonotonicMs) -> list[ListedClient]:
    """Every client: throttled ones first, then those near a limit, then by rate."""
    clients: dict[tuple[str, str], dict[str, list[ClientState]]] = {}
    for (user, client_id, quota), group in by_client(states).items():
        clients.setdefault((user, client_id), {})[quota] = group
    listed = [
        ListedClient(
            user,
            client_id,
            quotas,
            hidden_as(client_id, [each.row for group in quotas.values() for each in group], now_ms),
        )
        for (user, client_id), quotas in clients.items()
    ]
    return sorted(listed, key=_urgency)


def hidden_as(client_id: str, rows: Sequence[QuotaRow], now_ms: MonotonicMs) -> Hidden | None:
    """Why a client with these rows, on all brokers, is hidden; None if it is shown."""
    if is_own(client_id):
        return Hidden.OWN
    return Hidden.IDLE if all(is_idle(row, now_ms) for row in rows) else None


def is_idle(row: QuotaRow, now_ms: MonotonicMs) -> bool:
    """Whether no request was charged to this quota for a minute, and no connection is muted."""
    # A time in the future was written before the machine was restarted.
    is_recent = 0 <= now_ms - row.active_ms < IDLE_AFTER_MS
    return not is_recent and row.muted_until_ms <= now_ms


def has_users(users: Iterable[str | None]) -> bool:
    """Whether anybody has logged in: without that, naming the user of a client says nothing."""
    return any(user is not None and user != ANONYMOUS for user in users)


def hidden_words(hidden: Iterable[Hidden | None]) -> str:
    """`14 more: 9 of Milena's own, 5 without a request for a minute`; empty if there are none."""
    counts = Counter(each for each in hidden if each is not None)
    words = {Hidden.OWN: "of Milena's own", Hidden.IDLE: "without a request for a minute"}
    told = ", ".join(f"{counts[each]:,} {words[each]}" for each in Hidden if counts[each])
    return f"{counts.total():,} more: {told}" if told else ""


def _urgency(client: ListedClient) -> tuple[bool, bool, float, float, str, str]:
    used = client.utilization or 0.0
    is_near = used >= NEAR_FROM
    return (
        not client.is_throttled,
        not is_near,
        -used if is_near else 0.0,
        -client.bytes_per_s,
        client.client_id,
        client.user,
    )
