"""Rebalances of groups in earlier periods of their coordinator. Pure.

A broker keeps its own when it stops coordinating a group, and those that other brokers send it.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cluster.coordinator.groups.history.explanation import FormerCoordinator, KeptHistory

REBALANCES_MAX: Final = 5_000
"""For all groups together; a rebalance takes some kilobytes at most."""
FORMER_COORDINATORS_MAX: Final = 10
"""For one group."""


@dataclass(frozen=True, slots=True)
class _Kept:
    partition: int
    coordinators: tuple[FormerCoordinator, ...]
    count: int


class FormerHistories:
    """Owned by the broker's thread. Evicts the groups that were least recently added to."""

    def __init__(self, most: int = REBALANCES_MAX) -> None:
        """`most` limits the number of rebalances."""
        self._most = most
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._count = 0

    def keep(
        self, partition: int, group_id: str, coordinators: Iterable[FormerCoordinator]
    ) -> None:
        """Add periods to a group of a partition, unless they are known already."""
        before = self._kept.pop(group_id, None)
        known = () if before is None else before.coordinators
        self._count -= 0 if before is None else before.count
        by_time = {(each.since_wall_ms, each.broker): each for each in (*known, *coordinators)}
        newest = tuple(by_time[key] for key in sorted(by_time))[-FORMER_COORDINATORS_MAX:]
        count = sum(len(each.rebalances) for each in newest)
        self._kept[group_id] = _Kept(partition, newest, count)
        self._count += count
        while self._count > self._most:
            _, oldest = self._kept.popitem(last=False)
            self._count -= oldest.count

    def of(self, group_id: str) -> tuple[FormerCoordinator, ...]:
        """The known periods of a group, oldest first."""
        kept = self._kept.get(group_id)
        return () if kept is None else kept.coordinators

    def of_partition(self, partition: int) -> list[KeptHistory]:
        """All groups of one partition, the most recently added to first."""
        return [
            KeptHistory(group_id, kept.coordinators)
            for group_id, kept in reversed(self._kept.items())
            if kept.partition == partition
        ]
