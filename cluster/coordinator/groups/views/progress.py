"""How far a group has come, for metrics: its state, its members, what it has committed. Pure."""

from typing import Final, NamedTuple

from cluster.coordinator.groups.shared.subscription import CONSUMER
from cluster.coordinator.groups.state.classic_group import ClassicGroup
from cluster.coordinator.groups.state.consumer_group import ConsumerGroup
from cluster.model.clocks import Moment

CLASSIC: Final = "classic"
"""A type of groups, for ListGroups; the other is `consumer`, as its protocol type."""


class GroupProgress(NamedTuple):
    """One group at one moment; it does not change with the group."""

    group_id: str
    group_type: str
    protocol_type: str
    """`consumer`, `connect`, ...; empty for a group that only commits."""
    state: str
    generation: int
    """Of a group of the newer consumer protocol its epoch."""
    members: int
    state_times_ms: dict[str, int]
    """How long it has been in each state since it was loaded or made."""
    committed: dict[str, dict[int, int]]
    """Offsets by topic and partition."""


def progress_of(group: ClassicGroup | ConsumerGroup, now: Moment) -> GroupProgress:
    """Some 0.1 us for each offset, and 2 us for the group."""
    if isinstance(group, ConsumerGroup):
        what = (CONSUMER, CONSUMER, group.state().value, group.epoch.epoch)
    else:
        what = (CLASSIC, group.roster.protocol_type or "", group.state.value, group.generation_id)
    return GroupProgress(
        group.group_id,
        *what,
        len(group.members),
        group.times.by_state_ms(now),
        {
            topic: {number: committed.offset for number, committed in partitions.items()}
            for topic, partitions in group.offsets.topics.items()
        },
    )
