"""Adds up the lag of one group over its partitions, a hundred at a time. Pure."""

import heapq
from collections.abc import Iterator
from itertools import count, islice
from typing import Final

from cluster.brokers.groups.log_ends import Ends
from cluster.brokers.metrics.records import GroupFigures, PartitionLag
from cluster.coordinator.groups.views.progress import GroupProgress

OFFSETS_PER_STEP: Final = 100
"""How many partitions are processed in one step of a slice: some 0.2 ms."""


class GroupLag:
    """The lag of one group over the partitions that were added so far."""

    def __init__(self, progress: GroupProgress) -> None:
        self._progress = progress
        self.group = progress.group_id
        self.pieces: list[tuple[str, list[PartitionLag]]] = []
        self.lag = 0
        self._lag_max = 0
        self._partitions = 0
        self._unknown = 0
        self.record = b""

    @property
    def partitions(self) -> int:
        """The number of partitions that were added."""
        return self._partitions

    def add(self, topic: str, some: list[PartitionLag]) -> None:
        """Add some of its partitions."""
        self.pieces.append((topic, some))
        known = [lag for each in some if (lag := each.lag) is not None]
        self.lag += sum(known)
        self._lag_max = max(self._lag_max, *known, 0)
        self._partitions += len(some)
        self._unknown += len(some) - len(known)

    def figures(self, state_ms: dict[str, int]) -> GroupFigures:
        """The figures for its metric record, once all partitions were added."""
        progress = self._progress
        self._progress = progress._replace(committed={})  # frees the memory
        return GroupFigures(
            group=self.group,
            type=progress.group_type,
            protocol_type=progress.protocol_type,
            state=progress.state,
            generation=progress.generation,
            members=progress.members,
            partitions=self._partitions,
            partitions_unknown=self._unknown,
            lag=self.lag,
            lag_max=self._lag_max,
            state_ms=state_ms,
        )


class FurthestBehind:
    """Keeps the partitions of the groups with the largest lag, as many as fit into the stats file.

    The partitions of other groups are dropped, so memory does not grow with the number of offsets.
    """

    def __init__(self, at_most: int) -> None:
        """`at_most` limits the partitions; one group is always kept as a whole."""
        self._at_most = at_most
        self._partitions = 0
        self._order = count()
        self._heap: list[tuple[int, int, GroupLag]] = []

    def add(self, group: GroupLag) -> None:
        """Add a group whose partitions were all added."""
        heapq.heappush(self._heap, (group.lag, -next(self._order), group))
        self._partitions += group.partitions
        while self._partitions > self._at_most and len(self._heap) > 1:
            _, _, least = heapq.heappop(self._heap)
            self._partitions -= least.partitions
            least.pieces.clear()


def pieces_of(progress: GroupProgress, ends: Ends) -> Iterator[tuple[str, list[PartitionLag]]]:
    """The partitions of a group by topic, a hundred at a time."""
    for topic, partitions in sorted(progress.committed.items()):
        topic_ends = ends.get(topic, {})
        offsets = iter(sorted(partitions.items()))
        while some := list(islice(offsets, OFFSETS_PER_STEP)):
            yield topic, [PartitionLag(at, topic_ends.get(at), offset) for at, offset in some]
