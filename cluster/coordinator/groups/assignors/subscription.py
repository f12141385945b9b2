"""What an assignor is given and what it gives. Pure."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from cluster.coordinator.groups.consumer_requests import Partitions
from cluster.coordinator.groups.topics import TopicId


class MemberSubscription(NamedTuple):
    """A member as an assignor sees it."""

    instance_id: str | None
    rack_id: str | None
    topics: frozenset[TopicId]
    """Those it subscribes to and that exist."""
    assigned: Partitions
    """What the assignment before this one gives it."""


Assign = Callable[
    [Mapping[str, MemberSubscription], Mapping[TopicId, int]],
    dict[str, dict[TopicId, frozenset[int]]],
]
"""(members by id, number of partitions by topic) -> partitions by member id; every member is in
it, without empty sets."""
