"""The shared state of one shard. Pure."""

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
    """The groups of a shard, its pending effects and its deadlines."""

    options: GroupOptions
    new_uuid: Callable[[], str]
    counts: GroupCounts = field(default_factory=GroupCounts)
    groups: dict[str, ClassicGroup] = field(default_factory=dict)
    """Groups of the classic protocol, and groups that only commit offsets."""
    consumer_groups: dict[str, ConsumerGroup] = field(default_factory=dict)
    """Groups of the newer consumer protocol; a group id is in only one of the two."""
    outbox: Outbox = field(default_factory=Outbox)
    alarms: Alarms = field(default_factory=Alarms)

    def find(self, group_id: str) -> AnyGroup | None:
        """The group of either protocol."""
        return self.groups.get(group_id) or self.consumer_groups.get(group_id)

    def group_ids(self) -> list[str]:
        return [*self.groups, *self.consumer_groups]

    def new_consumer_group(self, group_id: str, alarms: MemberAlarms) -> ConsumerGroup:
        """Create a group without storing it here."""
        return ConsumerGroup(group_id, alarms, GroupOffsets())

    def forget_consumer_group(self, group: ConsumerGroup, now: Moment) -> None:
        """Remove a group. Offsets committed meanwhile stay, as those of a group that only
        commits."""
        group.release()
        if self.consumer_groups.get(group.group_id) is group:
            del self.consumer_groups[group.group_id]
        if not group.offsets.is_unused:
            self.group_or_new(group.group_id, now).offsets = group.offsets

    def group_or_new(self, group_id: str, now: Moment) -> ClassicGroup:
        """The classic group, created if it does not exist."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = ClassicGroup(group_id)
            group.start_times(now)
        return group

    def remove_if_disposable(self, group: AnyGroup, now: Moment) -> None:
        """Remove a classic group if nothing is lost with it."""
        if isinstance(group, ClassicGroup) and group.is_disposable:
            self.remove(group, now)

    def remove(self, group: ClassicGroup, now: Moment) -> None:
        """Remove a group, which becomes Dead."""
        group.release()
        group.transition(GroupState.DEAD, now)
        if self.groups.get(group.group_id) is group:
            del self.groups[group.group_id]
