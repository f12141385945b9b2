"""Why a group rebalanced: the last rebalances of a group with their causes and phases. Pure."""

from dataclasses import dataclass, field
from typing import Final

from cluster.model.clocks import MonotonicMs, WallMs

REBALANCES_KEPT: Final = 20
"""Per group."""
CAUSES_KEPT: Final = 20
"""Per rebalance: the first says why it began, the others what made it longer."""


@dataclass(frozen=True, slots=True)
class Rebalance:
    """One rebalance; times are of the monotonic clock, None for what has not happened."""

    generation_id: int
    """That it led to, or will lead to."""
    started_ms: MonotonicMs
