"""What the parts of one shard share. Pure."""

from collections.abc import Callable
from dataclasses import dataclass, field

from cluster.coordinator.groups.alarms import Alarms
from cluster.coordinator.groups.classic_group import ClassicGroup
from cluster.coordinator.groups.counts import GroupCounts
from cluster.coordinator.groups.moment import Moment
from cluster.coordinator.groups.options import GroupOptions
from cluster.coordinator.groups.outbox import Outbox
from cluster.coordinator.groups.states import GroupState


@dataclass(slots=True)
class ShardParts:
    """One shard's groups, what it has to say, and when it wants to be called."""

    options: GroupOptions
    new_uuid: Callable[[], str]
    counts: GroupCounts = field(default_factory=GroupCounts)
    groups: dict[str, ClassicGroup] = field(default_factory=dict)
    outbox: Outbox = field(default_factory=Outbox)
    alarms: Alarms = field(default_factory=Alarms)

    def group_or_new(self, group_id: str, now: Moment) -> ClassicGroup:
        """The group, made if there is none."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = ClassicGroup(group_id)
            group.begin_in_state(now)
        return group

    def remove(self, group: ClassicGroup, now: Moment) -> None:
        """The group is dead."""
        group.let_go()
        group.transition(GroupState.DEAD, now)
        if self.groups.get(group.group_id) is group:
            del self.groups[group.group_id]
