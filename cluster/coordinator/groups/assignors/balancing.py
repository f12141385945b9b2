"""Balances partitions among members that subscribe to different topics. Pure.

Kafka: `UniformHeterogeneousAssignmentBuilder`, which guarantees the same: the subscribers of a
topic have equally many partitions, or as nearly as moving partitions of this one topic achieves. It
does not search for chains of moves through several topics.
"""

import heapq
from collections.abc import Mapping, Sequence
from typing import Final

from cluster.coordinator.groups.assignors.subscribers import subscribers
from cluster.coordinator.groups.assignors.subscription import MemberSubscription, TopicId

MOST_ROUNDS: Final = 16
"""Each round about halves the differences; one round suffices if the subscribers of a topic
subscribe to the same topics (Kafka: `MAX_ITERATION_COUNT`)."""
NOBODY: Final = -1


def assign_unlike(
    members: Mapping[str, MemberSubscription], topics: Mapping[TopicId, int]
) -> dict[str, dict[TopicId, frozenset[int]]]:
    """Members keep the partitions of topics that they still subscribe to; free partitions go to the
    members with the fewest; then partitions move from members with the most to members with the
    fewest."""
    balance = _Balance(members, topics)
    balance.keep()
    balance.give()
    balance.level()
    return balance.assigned()


class _Balance:
    """One computation. A member is its index in the order of member ids."""

    def __init__(
        self, members: Mapping[str, MemberSubscription], topics: Mapping[TopicId, int]
    ) -> None:
        self._members = [(member_id, members[member_id]) for member_id in sorted(members)]
        self._sizes = [0] * len(members)
        """The number of partitions of each member."""
        self._changed: set[int] = set()
        """Members whose partitions differ from what they had."""
        found = subscribers(member for _, member in self._members)
        self._topics = sorted(
            found.keys() & topics.keys(),
            key=lambda topic: (-topics[topic] / len(found[topic]), len(found[topic]), topic),
        )
        """The topics with the most partitions per subscriber first: the others even out the rest.
        """
        self._subscribers = [found[each] for each in self._topics]
        self._owners: list[list[int]] = [[NOBODY] * topics[each] for each in self._topics]
        """The owner of each partition of each topic."""
        self._least: dict[int, int] = {}
        """A cache of `_least_of` by topic, until a partition moves."""

    def keep(self) -> None:
        """Members keep the partitions of topics that they subscribe to."""
        places = {topic: place for place, topic in enumerate(self._topics)}
        for index, (_, member) in enumerate(self._members):
            for topic, partitions in member.assigned.items():
                place = places.get(topic)
                if place is None or topic not in member.topics:
                    self._changed.add(index)
                    continue
                owners = self._owners[place]
                for partition in partitions:
                    if partition < len(owners) and owners[partition] == NOBODY:
                        owners[partition] = index
                        self._sizes[index] += 1
                    else:
                        self._changed.add(index)

    def give(self) -> None:
        """Give free partitions to the subscribers with the fewest partitions."""
        sizes = self._sizes
        heaps: dict[int, list[tuple[int, int]]] = {}
        for subscribed, owners in zip(self._subscribers, self._owners, strict=True):
            free = [number for number, owner in enumerate(owners) if owner == NOBODY]
            if not free:
                continue
            least = heaps.get(id(subscribed))
            if least is None:
                least = heaps[id(subscribed)] = [(sizes[each], each) for each in subscribed]
                heapq.heapify(least)
            for number in free:
                size, index = least[0]
                while size != sizes[index]:  # the member received partitions of another topic since
                    heapq.heapreplace(least, (sizes[index], index))
                    size, index = least[0]
                heapq.heapreplace(least, (size + 1, index))
                owners[number] = index
                sizes[index] += 1
                self._changed.add(index)

    def level(self) -> None:
        """Move partitions until no topic can be balanced better, or for a limited number of
        rounds."""
        each_topic = list(zip(self._subscribers, self._owners, strict=True))
        for _ in range(MOST_ROUNDS):
            moved = [self._level_topic(subscribed, owners) for subscribed, owners in each_topic]
            if not any(moved):
                return

    def assigned(self) -> dict[str, dict[TopicId, frozenset[int]]]:
        """The current partitions of each member."""
        found: dict[int, dict[TopicId, set[int]]] = {index: {} for index in self._changed}
        for topic, owners in zip(self._topics, self._owners, strict=True):
            for number, index in enumerate(owners):
                if index in found:
                    found[index].setdefault(topic, set()).add(number)
        return {
            member_id: _frozen(found[index], member.assigned)
            if index in found
            else dict(member.assigned)
            for index, (member_id, member) in enumerate(self._members)
        }

    def _level_topic(self, subscribed: Sequence[int], owners: list[int]) -> bool:
        """Move partitions of one topic from the members with the most; returns whether any
        moved."""
        sizes = self._sizes
        if not owners:
            return False
        most = max(map(sizes.__getitem__, set(owners)))
        if most - self._least_of(subscribed) <= 1:
            return False
        owned: dict[int, list[int]] = {}
        for number, index in enumerate(owners):
            owned.setdefault(index, []).append(number)
        givers = [(-sizes[index], -index) for index in owned]
        takers = [(sizes[index], index) for index in subscribed]
        heapq.heapify(givers)
        heapq.heapify(takers)
        while givers:
            giver, taker = -givers[0][1], takers[0][1]
            if sizes[giver] - sizes[taker] <= 1:
                break
            owners[owned[giver].pop()] = taker
            sizes[giver] -= 1
            sizes[taker] += 1
            self._changed.update((giver, taker))
            heapq.heapreplace(takers, (sizes[taker], taker))
            if owned[giver]:
                heapq.heapreplace(givers, (-sizes[giver], -giver))
            else:
                heapq.heappop(givers)
        self._least.clear()
        return True

    def _least_of(self, subscribed: Sequence[int]) -> int:
        """The smallest number of partitions of these members."""
        least = self._least.get(id(subscribed))
        if least is None:
            least = min(map(self._sizes.__getitem__, subscribed))
            self._least[id(subscribed)] = least
        return least


def _frozen(
    found: Mapping[TopicId, set[int]], before: Mapping[TopicId, frozenset[int]]
) -> dict[TopicId, frozenset[int]]:
    """The partitions as frozen sets; unchanged sets are reused."""
    frozen = {topic: frozenset(partitions) for topic, partitions in found.items()}
    return {
        topic: before[topic] if before.get(topic) == partitions else partitions
        for topic, partitions in frozen.items()
    }
