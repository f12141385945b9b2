"""The assignor `uniform`: gives all members equally many partitions, and moves few. Pure.

Kafka: `UniformAssignor`, which has one algorithm for members that all subscribe to the same topics
and another for the rest.
"""

from collections.abc import Iterator, Mapping

from cluster.coordinator.groups.assignors.balancing import assign_unlike
from cluster.coordinator.groups.assignors.subscription import MemberSubscription, TopicId


def assign_uniform(
    members: Mapping[str, MemberSubscription], topics: Mapping[TopicId, int]
) -> dict[str, dict[TopicId, frozenset[int]]]:
    """Implements `Assign`. Members with the same subscription get equally many partitions or one
    more, with the fewest possible moves. Otherwise the subscribers of each topic are balanced as
    far as moving its partitions achieves."""
    subscribed = next((each.topics for each in members.values()), frozenset())
    if all(each.topics is subscribed or each.topics == subscribed for each in members.values()):
        return _assign_alike(
            members, {topic: topics[topic] for topic in subscribed & topics.keys()}
        )
    return assign_unlike(members, topics)


def _assign_alike(
    members: Mapping[str, MemberSubscription], topics: Mapping[TopicId, int]
) -> dict[str, dict[TopicId, frozenset[int]]]:
    """Members keep their partitions up to their share, and get free ones in the order of topics.

    Kafka: `UniformHomogeneousAssignmentBuilder`.
    """
    if not members:
        return {}
    free = {topic: set(range(topics[topic])) for topic in sorted(topics)}
    size, with_one_more = divmod(sum(topics.values()), len(members))
    assigned: dict[str, dict[TopicId, frozenset[int]]] = {}
    unfilled: list[tuple[str, int]] = []
    for index, member_id in enumerate(sorted(members)):
        may_have_more = with_one_more > 0
        kept, room = _keep(members[member_id].assigned, free, size + may_have_more)
        if may_have_more:
            # a member without an extra partition leaves it to new members, if there are enough
            if room and len(members) - index > with_one_more:
                room -= 1
            else:
                with_one_more -= 1
        assigned[member_id] = kept
        if room:
            unfilled.append((member_id, room))
    left = _each_free(free)
    for member_id, room in unfilled:
        _give(assigned[member_id], left, room)
    return assigned


def _keep(
    before: Mapping[TopicId, frozenset[int]], free: Mapping[TopicId, set[int]], room: int
) -> tuple[dict[TopicId, frozenset[int]], int]:
    """The partitions that a member keeps, removed from the free ones; and its remaining share."""
    kept: dict[TopicId, frozenset[int]] = {}
    for topic, partitions in before.items():
        if topic not in free:
            continue
        free_ones = free[topic]
        held = partitions if partitions <= free_ones else partitions & free_ones
        if len(held) > room:
            held = frozenset(sorted(held)[:room])
        if held:
            free_ones -= held
            room -= len(held)
            kept[topic] = held
    return kept, room


def _each_free(free: Mapping[TopicId, set[int]]) -> Iterator[tuple[TopicId, int]]:
    for topic, partitions in free.items():
        for partition in sorted(partitions):
            yield topic, partition


def _give(
    assigned: dict[TopicId, frozenset[int]], left: Iterator[tuple[TopicId, int]], room: int
) -> None:
    """Take the next free partitions, up to the remaining share."""
    given: dict[TopicId, set[int]] = {}
    for _, (topic, partition) in zip(range(room), left, strict=False):
        given.setdefault(topic, set()).add(partition)
    for topic, partitions in given.items():
        assigned[topic] = assigned.get(topic, frozenset()) | partitions
