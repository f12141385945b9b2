"""A classic group as its stored record, and back. Pure."""

from collections.abc import Iterable, Mapping

from cluster.coordinator.groups.shared.records import StoredGroup, StoredMember
from cluster.coordinator.groups.state.classic_group import ClassicGroup
from cluster.coordinator.groups.state.classic_member import Member
from cluster.coordinator.groups.state.classic_states import GroupState
from cluster.model.clocks import WallMs


def stored_group(group: ClassicGroup, assignments: Mapping[str, bytes]) -> StoredGroup:
    """The current generation with these assignments by member id."""
    name = group.protocol_name or ""
    return StoredGroup(
        protocol_type=group.roster.protocol_type or "",
        generation_id=group.generation_id,
        protocol_name=group.protocol_name,
        leader=group.roster.leader_id,
        state_timestamp_ms=group.state_timestamp_ms,
        members=tuple(
            StoredMember(
                each.member_id,
                each.group_instance_id,
                each.client_id,
                each.client_host,
                each.rebalance_timeout_ms,
                each.session_timeout_ms,
                each.metadata(name),
                assignments.get(each.member_id, b""),
            )
            for each in group.members.values()
        ),
    )


def restore(group: ClassicGroup, stored: StoredGroup, members: Iterable[Member]) -> None:
    """Give a group its stored generation with these members; its offsets stay."""
    group.clear()
    roster = group.roster
    group.generation_id = stored.generation_id
    group.protocol_name = stored.protocol_name
    group.state_timestamp_ms = WallMs(stored.state_timestamp_ms)
    for member in members:
        roster.add(member, stored.protocol_type)
    roster.protocol_type = stored.protocol_type
    if stored.leader in group.members:
        roster.leader_id = stored.leader
    group.generation_size = len(group.members)
    group.state = GroupState.STABLE if group.members else GroupState.EMPTY
