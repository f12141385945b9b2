"""Assignors that the group coordinator has for the newer consumer protocol (KIP-848). Pure."""

from collections.abc import Mapping
from typing import Final

from cluster.coordinator.groups.assignors.subscription import Assign, MemberSubscription
from cluster.coordinator.groups.topics import TopicId


def _assign(
    members: Mapping[str, MemberSubscription], topics: Mapping[TopicId, int]
) -> dict[str, dict[TopicId, frozenset[int]]]:
    result: dict[str, dict[TopicId, set[int]]] = {each: {} for each in members}
    for topic_id, count in topics.items():
        readers = sorted(each for each, member in members.items() if topic_id in member.topics)
        owners = {
            number: each
            for each in readers
            for number in members[each].assigned.get(topic_id, ())
            if number < count
        }
        most = -(-count // len(readers)) if readers else 0
        held = dict.fromkeys(readers, 0)
        for number in sorted(range(count), key=lambda each: each not in owners):
            owner = owners.get(number)
            if not readers:
                continue
            if owner is None or held[owner] >= most:
                owner = min(readers, key=lambda each: held[each])
            held[owner] += 1
            result[owner].setdefault(topic_id, set()).add(number)
    return {
        each: {topic_id: frozenset(numbers) for topic_id, numbers in parts.items()}
        for each, parts in result.items()
    }


ASSIGNORS: Final[dict[str, Assign]] = {"uniform": _assign, "range": _assign}
"""By Kafka's names."""
