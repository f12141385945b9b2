"""One sentence that says why a client is or is not throttled, over all its quotas and brokers.

Shared by `quotas explain`, `top` and the dashboard. Pure.
"""

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from cluster.model.quota_pauses import Pauses
from cluster.model.quotas import QuotaKind
from cluster.views.client_states import SILENT, BrokerStats, ClientState
from cluster.views.quantities import duration, percent, rate

IDLE_AFTER_MS: Final = 60_000
"""A client without a request for this long is idle."""
NEAR_FROM: Final = 0.9
"""The share of its limit from which a client is near it."""

_DOES: Final[dict[str, str]] = {
    QuotaKind.PRODUCE: "writes",
    QuotaKind.FETCH: "reads",
    QuotaKind.REQUEST: "takes",
    QuotaKind.MUTATION: "creates and deletes",
    QuotaKind.CONNECTION: "opens",
}
_DELAYED: Final = "each answer is delayed by up to"
_DELAYED_OTHERS: Final[dict[str, str]] = {QuotaKind.MUTATION: "further changes wait up to"}
_OF_WHAT: Final[dict[str, str]] = {QuotaKind.REQUEST: " of a thread's time"}
_NAMES: Final[dict[str, str]] = {
    QuotaKind.PRODUCE: "for writing",
    QuotaKind.FETCH: "for reading",
    QuotaKind.REQUEST: "for request time",
    QuotaKind.MUTATION: "for changes of topics",
    QuotaKind.CONNECTION: "for connections",
}
_SHARED: Final = ("user", "default-user")
"""The rules whose budget all clients of a user share. Those of a client id are shared too, but by
clients of the same name."""
_HONORS: Final = {
    True: "this client honors the delay",
    False: "this client ignores the delay, so the broker mutes it",
    None: "whether this client honors the delay is not known yet",
}


class Standing(StrEnum):
    """How a client stands with its limits; the most urgent first."""

    THROTTLED = "throttled"
    NEAR = "near"
    BELOW = "below"
    UNLIMITED = "unlimited"
    IDLE = "idle"
    GONE = "gone"
    """Only brokers that are dead know the client."""


class ClientVerdict(NamedTuple):
    """A client's standing, and the sentence about it, without the client's name and a full stop."""

    standing: Standing
    sentence: str
    quota: str | None = None
    """The quota that decides, if one does."""


def client_verdict(states: Sequence[ClientState], brokers: Sequence[BrokerStats]) -> ClientVerdict:
    """The verdict about one client, from all its states (at least one) and all brokers."""
    living = [state for state in states if not state.source.is_dead]
    if not living:
        return ClientVerdict(Standing.GONE, _gone(states))
    throttled = [state for state in living if is_throttled(state)]
    if throttled:
        return _throttled(living, throttled, brokers)
    idle_ms = min(map(unused_ms, living))
    if idle_ms >= IDLE_AFTER_MS:
        sentence = f"idle: no request for {duration(idle_ms)}, so nothing is throttled"
        return ClientVerdict(Standing.IDLE, sentence + _staleness(living))
    limited = [state for state in living if state.row.limit is not None]
    if not limited:
        return ClientVerdict(Standing.UNLIMITED, _unlimited(living) + _staleness(living))
    return _below(max(limited, key=_share), living)


def is_throttled(state: ClientState) -> bool:
    """Whether a living broker delays this client's answers now.

    The delay of a budget that it shares does not reach a client that sends nothing.
    """
    delayed = state.row.delay_ms > 0 and unused_ms(state) < IDLE_AFTER_MS
    return not state.source.is_dead and (state.muted_left_ms > 0 or delayed)


def unused_ms(state: ClientState) -> int:
    """Milliseconds since the client last used this quota on this broker."""
    return max(0, state.source.stats.written_ms + state.source.age_ms - state.row.active_ms)


def judged_pauses(states: Sequence[ClientState]) -> bool | None:
    """Whether a client honors throttling, from its mutes on all these brokers; None: unknown."""
    counts = zip(*(state.row.pauses for state in states), strict=True)
    return Pauses(*map(sum, counts)).honors_throttling


def _throttled(
    living: Sequence[ClientState],
    throttled: Sequence[ClientState],
    brokers: Sequence[BrokerStats],
) -> ClientVerdict:
    worst = max(throttled, key=_delay_ms)
    quota = worst.row.quota
    group = [state for state in throttled if state.row.quota == quota]
    parts = [
        f"throttled{_where(group, brokers)}: {_against(max(group, key=_share))}",
        f"{_DELAYED_OTHERS.get(quota, _DELAYED)} {duration(_delay_ms(worst))}",
        _HONORS[judged_pauses([state for state in living if state.row.quota == quota])],
    ]
    others = dict.fromkeys(state.row.quota for state in throttled if state.row.quota != quota)
    if others:
        parts.append(f"also throttled {' and '.join(_NAMES[other] for other in others)}")
    sentence = "; ".join(parts) + _staleness(group)
    return ClientVerdict(Standing.THROTTLED, sentence, quota)


def _where(group: Sequence[ClientState], brokers: Sequence[BrokerStats]) -> str:
    """` on all 3 brokers`, ` on broker 1 of 3`; empty for the only broker."""
    count = sum(not broker.is_dead for broker in brokers)
    names = sorted(str(state.source.broker) for state in group)
    if len(names) >= count:
        return (
            "" if count <= 1 else " on both brokers" if count == 2 else f" on all {count} brokers"
        )
    if len(names) == 1:
        return f" on broker {names[0]} only"
    return f" on {len(names)} of {count} brokers ({', '.join(names)})"


def _against(state: ClientState) -> str:
    """`1.06 MiB/s against a limit of 1.00 MiB/s`."""
    row = state.row
    if row.limit is None:  # the limit was removed while the connection is muted
        return f"{_used(state)}, with no limit any more"
    used, limit = _used(state), rate(row.quota, row.limit) if row.limit > 0 else "0"
    told = f"{used} against a limit of {limit}{_sharing(row.rule)}"
    return told if row.rate > row.limit else f"{told}, and a burst before is not paid off"


def _below(state: ClientState, living: Sequence[ClientState]) -> ClientVerdict:
    row = state.row
    limit = row.limit or 0.0
    if limit <= 0:
        sentence = f"not throttled yet, but its limit {_NAMES[row.quota]} is 0 and admits nothing"
        return ClientVerdict(Standing.NEAR, sentence + _staleness([state]), row.quota)
    share = _share(state)
    is_near = share >= NEAR_FROM
    brokers = {other.source.broker for other in living if other.row.quota == row.quota}
    busiest = f" on broker {state.source.broker}, its busiest" if len(brokers) > 1 else ""
    parts = [
        f"not throttled{', but near the limit' if is_near else ''}: it {_DOES[row.quota]}"
        f" {_used(state)}{busiest}, {percent(100 * share)} of its limit of"
        f" {rate(row.quota, limit)}{_sharing(row.rule)}",
        f"{rate(row.quota, max(0.0, limit - row.rate))} free",
    ]
    if is_near and row.throttled:
        parts.append(f"{row.throttled:,} of its {row.requests:,} requests were throttled before")
    sentence = "; ".join(parts) + _staleness([state])
    return ClientVerdict(Standing.NEAR if is_near else Standing.BELOW, sentence, row.quota)


def _unlimited(living: Sequence[ClientState]) -> str:
    busy = [state for state in living if state.row.rate > 0]
    bytes_first = sorted(busy, key=lambda state: state.row.quota == QuotaKind.REQUEST)
    if not bytes_first:
        return "not throttled: no limit applies to it"
    quota = bytes_first[0].row.quota
    total = sum(state.row.rate for state in busy if state.row.quota == quota)
    amount = rate(quota, total) + _OF_WHAT.get(quota, "")
    return f"not throttled: no limit applies to it; it {_DOES[quota]} {amount}"


def _gone(states: Sequence[ClientState]) -> str:
    ids = sorted({state.source.broker for state in states})
    names = f"broker {ids[0]} is" if len(ids) == 1 else f"brokers {', '.join(map(str, ids))} are"
    age_ms = min(state.source.age_ms for state in states)
    return (
        f"not throttled: {names} dead, and no other knows it; last figures {duration(age_ms)} ago"
    )


def _staleness(states: Sequence[ClientState]) -> str:
    """A clause for figures that are old because none of their brokers writes any."""
    if any(state.source.state != SILENT for state in states):
        return ""
    age_ms = min(state.source.age_ms for state in states)
    return f"; these figures are {duration(age_ms)} old because the broker does not respond"


def _sharing(rule: str | None) -> str:
    return " that all clients of this user share" if rule in _SHARED else ""


def _used(state: ClientState) -> str:
    return rate(state.row.quota, state.row.rate) + _OF_WHAT.get(state.row.quota, "")


def _share(state: ClientState) -> float:
    """Rate over limit; without a limit below every other."""
    utilization = state.row.utilization
    return -math.inf if utilization is None else utilization


def _delay_ms(state: ClientState) -> int:
    return max(state.row.delay_ms, state.muted_left_ms)
