"""How far one group is behind, added up over its partitions, a hundred at a time. Pure."""

import heapq
from collections.abc import Iterator
from itertools import count, islice
from typing import Final

from cluster.brokers.groups.log_ends import Ends
from cluster.brokers.metrics.records import GroupFigures, PartitionLag
from cluster.coordinator.groups.views.progress import GroupProgress

OFFSETS_PER_STEP: Final = 100
"""Partitions looked at in a step of long work: some 0.2 ms."""


class GroupLag:
    """One group, as far as it was looked at: its partitions, how far it is behind, its record."""

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
        """How many of them were added."""
        return self._partitions

    def add(self, topic: str, some: list[PartitionLag]) -> None:
        """Some of its partitions."""
        self.pieces.append((topic, some))
        known = [lag for each in some if (lag := each.lag) is not None]
        self.lag += sum(known)
        self._lag_max = max(self._lag_max, *known, 0)
        self._partitions += len(some)
        self._unknown += len(some) - len(known)

    def figures(self, state_ms: dict[str, int]) -> GroupFigures:
        """What its record says, once all of its partitions are known."""
        progress = self._progress
        self._progress = progress._replace(committed={})  # so that its memory is free
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
    """Keeps partitions of the groups that are furthest behind, so many that they fill a file.

    Others forget theirs, so that memory does not grow with the number of offsets.
    """

    def __init__(self, at_most: int) -> None:
        """`at_most`: partitions, besides those of the one group that is furthest behind."""
        self._at_most = at_most
        self._partitions = 0
        self._order = count()
        self._heap: list[tuple[int, int, GroupLag]] = []

    def add(self, group: GroupLag) -> None:
        """A group all of whose partitions are known."""
        heapq.heappush(self._heap, (group.lag, -next(self._order), group))
        self._partitions += group.partitions
        while self._partitions > self._at_most and len(self._heap) > 1:
            _, _, least = heapq.heappop(self._heap)
            self._partitions -= least.partitions
            least.pieces.clear()


def pieces_of(progress: GroupProgress, ends: Ends) -> Iterator[tuple[str, list[PartitionLag]]]:
    """A group's partitions by topic, a hundred at a time."""
    for topic, partitions in sorted(progress.committed.items()):
        topic_ends = ends.get(topic, {})
        offsets = iter(sorted(partitions.items()))
        while some := list(islice(offsets, OFFSETS_PER_STEP)):
            yield topic, [PartitionLag(at, topic_ends.get(at), offset) for at, offset in some]
