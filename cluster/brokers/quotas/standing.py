"""What the quota core tells about a client: an interval's usage, and why it waits. Pure values."""

from dataclasses import dataclass

from cluster.model.quotas import QuotaKind


@dataclass(frozen=True, slots=True)
class IntervalUsage:
    """What one client did under one kind of quota since the interval before was drained.

    `usage` is in bytes, or percent of one thread x seconds; `rate` is the windowed rate at the end.
    """

    kind: QuotaKind
    user: str
    client_id: str
    rule: str | None
    limit: float | None
    usage: float
    rate: float
    requests: int
    throttled: int
    throttle_ms: int
    throttle_ms_max: int
    muted_ms: int
    mute_left_ms: int


@dataclass(frozen=True, slots=True)
class QuotaStanding:
    """Where one client stands under one kind of quota now.

    `user_tag` and `client_tag` name who shares the budget (None: all); `observed` and `measured_ms`
    are those of the shared budget. `delay_ms` is what the next request would be told if it used
    nothing.
    """

    kind: QuotaKind
    user: str
    client_id: str
    is_seen: bool
    """False when the client has sent nothing of this kind lately: its figures are zero."""
    rule: str | None
    limit: float | None
    user_tag: str | None
    client_tag: str | None
    observed: float
    total: float
    measured_ms: int
    utilisation: float | None
    """observed / limit; None without a limit."""
    delay_ms: int
    arithmetic: str
    mute_left_ms: int


def delay_arithmetic(
    kind: QuotaKind,
    limit: float | None,
    total: float,
    measured_ms: int,
    delay_ms: int,
    delay_cap_ms: int | None,
) -> str:
    """The delay formula with its numbers, in one line for a person."""
    unit, of = ("%", "%-seconds") if kind is QuotaKind.REQUEST else (" B/s", " B")
    observed = total * 1_000 / measured_ms
    measured = f"{total:.10g}{of} / {measured_ms / 1_000:.3f} s = {observed:.6g}{unit}"
    if limit is None:
        return f"{measured}; no limit is set"
    if observed <= limit:
        return f"{measured} <= {limit:.10g}{unit}: no delay"
    formula = f"{measured}; ({observed:.6g} - {limit:.10g}) / {limit:.10g} x {measured_ms} ms"
    uncapped_ms = (observed - limit) / limit * measured_ms
    if delay_cap_ms is not None and uncapped_ms > delay_cap_ms:
        return f"{formula} = {uncapped_ms:.0f} ms, at most {delay_cap_ms} ms"
    return f"{formula} = {delay_ms} ms"
