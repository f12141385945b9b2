"""The subscribers of each topic. Pure."""

from collections.abc import Iterable, Sequence
from itertools import chain

from cluster.coordinator.groups.assignors.subscription import MemberSubscription, TopicId


def subscribers(members: Iterable[MemberSubscription]) -> dict[TopicId, Sequence[int]]:
    """For each subscribed topic, the indexes of its subscribers in ascending order.

    Topics with the same subscribers share one sequence, which is computed once: a thousand members
    and topics make a million pairs, but usually only a few distinct subscriptions.
    """
    alike: dict[frozenset[TopicId], list[int]] = {}
    for index, member in enumerate(members):
        alike.setdefault(member.topics, []).append(index)
    ways: dict[TopicId, list[int]] = {}
    for way, topics in enumerate(alike):
        for topic in topics:
            ways.setdefault(topic, []).append(way)
    indexes = list(alike.values())
    made: dict[tuple[int, ...], Sequence[int]] = {}
    found: dict[TopicId, Sequence[int]] = {}
    for topic, numbers in ways.items():
        key = tuple(numbers)
        if key not in made:
            made[key] = sorted(chain.from_iterable(indexes[way] for way in key))
        found[topic] = made[key]
    return found
