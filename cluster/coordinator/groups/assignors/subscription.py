"""What an assignor is given and what it gives. Pure."""

import uuid
from collections.abc import Callable, Mapping
from typing import NamedTuple

TopicId = uuid.UUID
Partitions = Mapping[TopicId, frozenset[int]]
"""Numbers of partitions by topic; no empty sets."""


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
it, without empty sets.

Every partition of a topic that somebody subscribes to gets one owner, who subscribes to it. A topic
without a number of partitions is one that does not exist. The order in which members and topics
come makes no difference. A set that did not change is the member's own of before."""
