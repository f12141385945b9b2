"""How far a group has come, for metrics: its state, its members, what it has committed. Pure."""

from typing import NamedTuple

from cluster.coordinator.groups.classic_group import ClassicGroup
from cluster.coordinator.groups.moment import Moment

CLASSIC = "classic"


class GroupProgress(NamedTuple):
    """One group at one moment; it does not change with the group."""

    group_id: str
    group_type: str
    protocol_type: str
    """`consumer`, `connect`, ...; empty for a group that only commits."""
    state: str
    generation: int
    members: int
    state_times_ms: dict[str, int]
    """How long it has been in each state since it was loaded or made."""
    committed: dict[str, dict[int, int]]
    """Offsets by topic and partition."""


def progress_of(group: ClassicGroup, now: Moment) -> GroupProgress:
    """Some 0.1 us for each offset, and 2 us for the group."""
    return GroupProgress(
        group.group_id,
        CLASSIC,
        group.protocol_type or "",
        group.state.value,
        group.generation_id,
        len(group.members),
        group.state_times_ms(now),
        {
            topic: {number: committed.offset for number, committed in partitions.items()}
            for topic, partitions in group.offsets.topics.items()
        },
    )
