"""The input and output of an assignor. Pure."""

import uuid
from collections.abc import Callable, Mapping
from typing import NamedTuple

TopicId = uuid.UUID
Partitions = Mapping[TopicId, frozenset[int]]
"""Partition numbers by topic; no set is empty."""


class MemberSubscription(NamedTuple):
    """The facts about a member that assignors use."""

    instance_id: str | None
    rack_id: str | None
    topics: frozenset[TopicId]
    """The existing topics to which the member subscribes."""
    assigned: Partitions
    """The member's partitions by the previous assignment."""


Assign = Callable[
    [Mapping[str, MemberSubscription], Mapping[TopicId, int]],
    dict[str, dict[TopicId, frozenset[int]]],
]
"""(members by id, partition counts by topic) -> partitions by member id, for every member, without
empty sets.

Every partition of a subscribed topic gets one owner, which subscribes to the topic. A topic without
a partition count does not exist. The order of members and topics makes no difference. An unchanged
set is the same object as before.
"""
