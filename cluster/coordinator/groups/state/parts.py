"""What the parts of one shard share. Pure."""

from collections.abc import Callable
from dataclasses import dataclass, field

from cluster.coordinator.groups.shared.counts import GroupCounts
from cluster.coordinator.groups.shared.options import GroupOptions
from cluster.coordinator.groups.state.classic_group import ClassicGroup
from cluster.coordinator.groups.state.classic_states import GroupState
from cluster.coordinator.groups.state.consumer_group import ConsumerGroup, MemberAlarms
from cluster.coordinator.groups.state.group_offsets import GroupOffsets
from cluster.coordinator.shards.alarms import Alarms
from cluster.coordinator.shards.outbox import Outbox
from cluster.model.clocks import Moment

AnyGroup = ClassicGroup | ConsumerGroup


@dataclass(slots=True)
class ShardParts:
    """One shard's groups, what it has to say, and when it wants to be called."""

    options: GroupOptions
    new_uuid: Callable[[], str]
    counts: GroupCounts = field(default_factory=GroupCounts)
    groups: dict[str, ClassicGroup] = field(default_factory=dict)
    """Those of the classic protocol, and those that only commit offsets."""
    consumer_groups: dict[str, ConsumerGroup] = field(default_factory=dict)
    """Those of the newer consumer protocol; a group id is in one of the two."""
    outbox: Outbox = field(default_factory=Outbox)
    alarms: Alarms = field(default_factory=Alarms)

    def find(self, group_id: str) -> AnyGroup | None:
        """The group, of either type."""
        return self.groups.get(group_id) or self.consumer_groups.get(group_id)

    def group_ids(self) -> list[str]:
        """Of all groups."""
        return [*self.groups, *self.consumer_groups]

    def new_consumer_group(self, group_id: str, alarms: MemberAlarms) -> ConsumerGroup:
        """A group that is in none of the two yet."""
        return ConsumerGroup(group_id, alarms, GroupOffsets())

    def forget_consumer_group(self, group: ConsumerGroup, now: Moment) -> None:
        """It is no more; offsets that were committed meanwhile stay, as of a group that only
        commits."""
        group.release()
        if self.consumer_groups.get(group.group_id) is group:
            del self.consumer_groups[group.group_id]
        if not group.offsets.is_unused:
            self.group_or_new(group.group_id, now).offsets = group.offsets

    def group_or_new(self, group_id: str, now: Moment) -> ClassicGroup:
        """The group, made if there is none."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = ClassicGroup(group_id)
            group.start_times(now)
        return group

    def remove_if_disposable(self, group: AnyGroup, now: Moment) -> None:
        """Nobody would miss it: it goes. One of the newer consumer protocol is stored if it is."""
        if isinstance(group, ClassicGroup) and group.is_disposable:
            self.remove(group, now)

    def remove(self, group: ClassicGroup, now: Moment) -> None:
        """The group is dead."""
        group.release()
        group.transition(GroupState.DEAD, now)
        if self.groups.get(group.group_id) is group:
            del self.groups[group.group_id]
