"""What this broker knows of rebalances of groups that another one coordinates now. Pure.

A new coordinator begins with an empty history: `groups explain` asks every broker, and so learns
what the former ones have kept.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final, NamedTuple

from cluster.coordinator.groups.history import Rebalance
from cluster.model.clocks import WallMs

REBALANCES_MAX: Final = 5_000
"""Of all groups, some kilobytes each at the most."""
STINTS_MAX: Final = 10
"""Of one group."""


class Stint(NamedTuple):
    """A time in which this broker coordinated a group, and the group's rebalances in it."""

    since_ms: WallMs
    until_ms: WallMs
    rebalances: tuple[Rebalance, ...]


class FormerHistories:
    """Owned by the broker's thread. Groups whose coordinator moved longest ago go first."""

    def __init__(self, most: int = REBALANCES_MAX) -> None:
        """`most`: how many rebalances are kept."""
        self._most = most
        self._stints: OrderedDict[str, list[Stint]] = OrderedDict()
        self._count = 0

    def keep(
        self, since_ms: WallMs, until_ms: WallMs, histories: Mapping[str, tuple[Rebalance, ...]]
    ) -> None:
        """These groups have another coordinator from now on."""
        for group_id, rebalances in histories.items():
            stints = self._stints.setdefault(group_id, [])
            self._stints.move_to_end(group_id)
            stints.append(Stint(since_ms, until_ms, rebalances))
            self._count += len(rebalances)
            if len(stints) > STINTS_MAX:
                self._count -= len(stints.pop(0).rebalances)
        while self._count > self._most:
            _, stints = self._stints.popitem(last=False)
            self._count -= sum(len(stint.rebalances) for stint in stints)

    def of(self, group_id: str) -> tuple[Stint, ...]:
        """Oldest first."""
        return tuple(self._stints.get(group_id, ()))
