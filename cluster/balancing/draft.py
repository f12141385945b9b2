"""A layout that is being changed replica by replica, with what each broker has. Pure."""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from cluster.balancing.replica_layout import Layout, Moves
from cluster.model.ids import BrokerId, TopicPartition

_LOOKED_AT: Final = 16
"""Partitions of about the wanted size, of which that of the most unevenly spread topic moves."""


class _Held(NamedTuple):
    """A replica in the list of its broker; of one size, partitions of all topics alternate."""

    size_bytes: int
    partition: int
    topic: str
    at: int


class Draft:
    """The replicas of a layout, and the brokers among which they may move.

    Partitions are numbered in their order. A move never puts two replicas of a partition on one
    broker. If some brokers have racks, those without share one, as when topics are created.
    """

    def __init__(
        self, layout: Layout, targets: Collection[BrokerId], *, keeps_placed: bool = False
    ) -> None:
        """`targets` are the live brokers that stay. With `keeps_placed` replicas that they have
        already do not move: only those that had to leave another broker do.
        """
        self._layout = layout
        self._keeps_placed = keeps_placed
        self.targets = sorted(targets)
        self.partitions: list[TopicPartition] = sorted(layout.replicas)
        self.replicas = [list(layout.replicas[partition]) for partition in self.partitions]
        self.sizes = [layout.sizes.get(partition, 0) for partition in self.partitions]
        self.is_fixed = [partition in layout.fixed for partition in self.partitions]
        self.has_racks = any(layout.racks.get(broker) is not None for broker in targets)
        known = {broker for held in self.replicas for broker in held}.union(targets)
        self._rack_of: dict[BrokerId, object] = {
            broker: layout.racks.get(broker, broker) for broker in known
        }
        self.held: dict[BrokerId, list[_Held]] = {broker: [] for broker in self._rack_of}
        self.size_bytes: Counter[BrokerId] = Counter()
        self.of_topic: Counter[tuple[str, BrokerId]] = Counter()
        for index, brokers in enumerate(self.replicas):
            for broker in brokers:
                self._add(index, broker)
        for rows in self.held.values():
            rows.sort()
        self._pools: dict[tuple[BrokerId, BrokerId], list[_Held]] = {}
        """Partitions that could move from one broker to another when their list was made."""

    def forget_candidates(self) -> None:
        """Have `chosen` look at all partitions again, also at those that could not move before."""
        self._pools.clear()

    def moves(self) -> Moves:
        """The partitions whose replicas or their order have changed."""
        return {
            partition: tuple(replicas)
            for partition, replicas in zip(self.partitions, self.replicas, strict=True)
            if tuple(replicas) != self._layout.replicas[partition]
        }

    def counts(self) -> dict[BrokerId, int]:
        """The replicas of each broker that stays."""
        return {broker: len(self.held[broker]) for broker in self.targets}

    def rack_change(self, index: int, source: BrokerId, target: BrokerId) -> int:
        """How many more pairs of the partition's replicas share a rack after the move."""
        old, new = self._rack_of[source], self._rack_of[target]
        if not self.has_racks or old == new:
            return 0
        others = [self._rack_of[broker] for broker in self.replicas[index] if broker != source]
        return others.count(new) - others.count(old)

    def shares_racks(self, index: int) -> bool:
        """Whether two replicas of the partition are in one rack."""
        racks = [self._rack_of[broker] for broker in self.replicas[index]]
        return len(set(racks)) < len(racks)

    def may_move(self, index: int, source: BrokerId, target: BrokerId) -> bool:
        """Whether the replica can move and shares no rack with more replicas afterwards."""
        replicas = self.replicas[index]
        return (
            source in replicas
            and target not in replicas
            and not self.is_fixed[index]
            and not (self._keeps_placed and self._is_placed(index, source))
            and self.rack_change(index, source, target) <= 0
        )

    def _is_placed(self, index: int, broker: BrokerId) -> bool:
        return broker in self._layout.replicas[self.partitions[index]]

    def move(self, index: int, source: BrokerId, target: BrokerId) -> None:
        """Replace one replica by one on another broker, at the same place in the list."""
        replicas = self.replicas[index]
        replicas[replicas.index(source)] = target
        row = self._row(index)
        rows = self.held[source]
        del rows[bisect_left(rows, row)]
        insort(self.held[target], row)
        for broker, change in ((source, -1), (target, 1)):
            self.size_bytes[broker] += change * row.size_bytes
            self.of_topic[row.topic, broker] += change

    def movable(self, source: BrokerId, target: BrokerId) -> Iterator[int]:
        """Partitions that may move from one broker to the other, the smallest first."""
        rows = self.held[source]
        return (row.at for row in rows if self.may_move(row.at, source, target))

    def chosen(self, source: BrokerId, target: BrokerId, wanted_bytes: float) -> int | None:
        """A partition that may move, of about the wanted size; None if none may move.

        Among similar ones that whose topic has most on the source, compared to the target.
        """
        found = self._nearest(source, target, wanted_bytes)
        if not found:
            return None
        similar = max(abs(self.sizes[found[0]] - wanted_bytes), wanted_bytes / 10)

        def preference(index: int) -> tuple[bool, int]:
            topic = self.partitions[index].topic
            excess = self.of_topic[topic, source] - self.of_topic[topic, target]
            return abs(self.sizes[index] - wanted_bytes) > similar, -excess

        return min(found, key=preference)

    def _nearest(self, source: BrokerId, target: BrokerId, wanted_bytes: float) -> list[int]:
        """Some partitions that may move, the one nearest to the wanted size first."""
        pool = self._pools.get((source, target))
        if pool is not None:
            found = self._nearest_of(pool, source, target, wanted_bytes)
            if found:
                return found
        pool = [row for row in self.held[source] if self.may_move(row.at, source, target)]
        self._pools[source, target] = pool
        return self._nearest_of(pool, source, target, wanted_bytes)

    def _nearest_of(
        self, pool: list[_Held], source: BrokerId, target: BrokerId, wanted_bytes: float
    ) -> list[int]:
        """Some partitions of the pool that may move; removes those it meets that no longer may."""
        found: list[int] = []
        high = bisect_left(pool, wanted_bytes, key=lambda row: row.size_bytes)
        low = high - 1
        while len(found) < _LOOKED_AT and (low >= 0 or high < len(pool)):
            is_high = low < 0 or (
                high < len(pool)
                and pool[high].size_bytes - wanted_bytes <= wanted_bytes - pool[low].size_bytes
            )
            at = high if is_high else low
            if self.may_move(pool[at].at, source, target):
                found.append(pool[at].at)
                high += is_high
            else:
                del pool[at]
                high -= not is_high
            low -= not is_high
        return found

    def _add(self, index: int, broker: BrokerId) -> None:
        row = self._row(index)
        self.held[broker].append(row)
        self.size_bytes[broker] += row.size_bytes
        self.of_topic[row.topic, broker] += 1

    def _row(self, index: int) -> _Held:
        topic, number = self.partitions[index]
        return _Held(self.sizes[index], number, topic, index)
