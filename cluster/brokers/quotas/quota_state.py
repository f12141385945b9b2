"""A client's present rate and delay under one kind of quota."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaState:
    """`rate` and `measured_ms` are those of the budget, which others may share."""

    rule: str | None
    limit: float | None
    rate: float
    """Bytes/s, or percent of one thread."""
    measured_ms: int
    delay_ms: int
    """The delay that the next request would get if it used nothing."""
    mute_left_ms: int
