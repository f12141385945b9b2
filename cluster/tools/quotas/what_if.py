"""`quotas explain --if KEY=AMOUNT`: the effect of another limit on the current traffic. Pure.

The delay is that of the broker's formula for the rate that it measures now. A throttled client
would send more without its limit: how much, nobody knows. Debts of requests that were larger than
the windows admit are not counted. Changes of topics are put through the broker's token bucket,
window by window, as far back as the broker reports them.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from cluster.metrics.stats_layout import QuotaRow
from cluster.model.clocks import MonotonicMs
from cluster.model.quota_delay import delay_of, explain_delay
from cluster.model.quotas import QuotaKind
from cluster.quotas.sampled_rate import MutationRate, WindowOptions
from cluster.views.client_states import ClientState
from cluster.views.quantities import duration, percent, rate, rate_unit
from cluster.views.supposed_limits import Supposed

_HELD_FROM: Final = 0.95
"""A rate this near to its limit is probably what the limit admits."""
_USUAL: Final = WindowOptions()
"""For changes of topics, whose settings brokers do not report."""


class LimitEffect(NamedTuple):
    """The effect of a limit on one broker."""

    delay_ms: int
    """The delay of the next request if the limit came into force now."""
    speed: float
    """The share of the current rate that the limit admits in the long run, at most 1."""
    request_ms: float
    """The time that the limit requires for a request of the client's average size."""
    is_held_now: bool
    """Whether the current rate is what the current limit admits, so that the client may want
    more."""


def outcome(row: QuotaRow, limit: float, written_ms: MonotonicMs) -> LimitEffect:
    """The effect of this limit on the rate of a row that was written then."""
    if row.quota == QuotaKind.MUTATION:
        delay_ms = _bucket_delay_ms(row, limit, written_ms)
    else:
        delay_ms = round(delay_of(row.rate, limit, row.window_seconds * 1000))
    return LimitEffect(
        min(delay_ms, row.delay_max_ms) if row.delay_max_ms else delay_ms,
        min(1.0, limit / row.rate) if row.rate > 0 else 1.0,
        1000 * row.usage / row.requests / limit if row.requests else 0.0,
        row.limit is not None and row.rate >= _HELD_FROM * row.limit,
    )


def _bucket_delay_ms(row: QuotaRow, limit: float, written_ms: MonotonicMs) -> int:
    bucket = MutationRate(_USUAL, written_ms)
    for begin_ms, changed in row.samples:
        bucket.unsettled += changed
        bucket.delay_ms(limit, MonotonicMs(begin_ms))
    return bucket.delay_ms(limit, written_ms)


def lines(what: Supposed, group: Sequence[ClientState]) -> Iterator[str]:
    """One line for each broker, for a person."""
    yield f"  if {what.key} were {rate(what.kind, what.limit)}:"
    for state in group:
        row, then = state.row, _outcome(state, what)
        measured_ms = row.window_seconds * 1000
        unit = rate_unit(what.kind, what.limit)
        formula = explain_delay(what.kind, row.rate, what.limit, measured_ms, then.delay_ms, unit)
        effect = (
            f"its traffic would go on at {percent(100 * then.speed)} of its speed, one request of"
            f" its average size every {duration(then.request_ms)}"
            if then.speed < 1
            else "its traffic would go on as it is"
        )
        yield f"    broker {state.source.broker}: {formula}; {effect}"
    if what.kind is QuotaKind.MUTATION:
        yield (
            f"    A burst of {duration(_USUAL.span_ms)} worth is supposed, of"
            " controller.quota.window.num and .size.seconds as they usually are."
        )
    if any(_outcome(state, what).is_held_now for state in group):
        yield "    It is held back by its limit now: without that it may send more."


def to_json(what: Supposed, state: ClientState) -> dict[str, Any]:
    """The effect on the broker of `state`, for scripts."""
    return {
        "broker": state.source.broker,
        "key": what.key,
        "limit": what.limit,
        **_outcome(state, what)._asdict(),
    }


def _outcome(state: ClientState, what: Supposed) -> LimitEffect:
    return outcome(state.row, what.limit, MonotonicMs(state.source.stats.written_ms))
