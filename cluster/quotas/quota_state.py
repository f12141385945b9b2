"""A client's current rate and delay under one kind of quota."""

from dataclasses import dataclass

from cluster.model.clocks import MonotonicMs


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaState:
    """`rate` and `measured_ms` are those of the budget, which others may share."""

    rule: str | None
    limit: float | None
    rate: float
    """In bytes/s, or percent of one thread."""
    measured_ms: int
    delay_ms: int
    """The delay of the next request if it used nothing."""
    mute_left_ms: int
    delay_max_ms: int = 0
    """The upper bound of a delay; 0 without a bound."""
    muted_channels: int = 0
    """Connections that are currently muted for this quota."""
    samples: tuple[tuple[MonotonicMs, float], ...] = ()
    """The windows of the rate, oldest first: begin and usage."""
