"""A client's present rate and delay under one kind of quota."""

from dataclasses import dataclass

from cluster.model.clocks import MonotonicMs


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
    delay_max_ms: int = 0
    """No request is delayed longer; 0 where there is no such bound."""
    muted_channels: int = 0
    """Connections that are not read now, for this quota."""
    samples: tuple[tuple[MonotonicMs, float], ...] = ()
    """The windows that the rate looks at, oldest first: begin, and what was used in it."""
