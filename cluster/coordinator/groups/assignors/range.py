"""The assignor `range`: gives each subscriber of a topic a contiguous range of partitions. Pure.

Kafka: `RangeAssignor`. Topics with the same subscribers and partition counts are divided in the
same way (co-partitioned): the owner of partition 3 of one topic owns partition 3 of the others.
"""

from collections.abc import Mapping

from cluster.coordinator.groups.assignors.subscribers import subscribers
from cluster.coordinator.groups.assignors.subscription import MemberSubscription, TopicId


def assign_range(
    members: Mapping[str, MemberSubscription], topics: Mapping[TopicId, int]
) -> dict[str, dict[TopicId, frozenset[int]]]:
    """Implements `Assign`. Static members come first, ordered by instance id, so that they keep
    their ranges when they return with other member ids; then the others by member id. The first
    members get the partitions that are left over."""
    member_ids = sorted(members, key=lambda each: _place(each, members[each]))
    assigned: dict[str, dict[TopicId, frozenset[int]]] = {member_id: {} for member_id in member_ids}
    for topic, indexes in subscribers(members[each] for each in member_ids).items():
        size, left_over = divmod(topics.get(topic, 0), len(indexes))
        start = 0
        for place, index in enumerate(indexes):
            end = start + size + (place < left_over)
            if start == end:
                break
            assigned[member_ids[index]][topic] = frozenset(range(start, end))
            start = end
    return assigned


def _place(member_id: str, member: MemberSubscription) -> tuple[bool, str]:
    if member.instance_id is None:
        return True, member_id
    return False, member.instance_id
