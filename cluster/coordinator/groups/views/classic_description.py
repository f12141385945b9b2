"""A classic group as DescribeGroups describes it. Pure."""

from cluster.coordinator.groups.requests import DescribedMember, GroupDescription
from cluster.coordinator.groups.state.classic_group import ClassicGroup
from cluster.coordinator.groups.state.classic_states import GroupState


def described_classic(group: ClassicGroup) -> GroupDescription:
    """Protocol, metadata and assignments are shown in the state Stable only."""
    is_stable = group.state is GroupState.STABLE
    name = str(group.protocol_name) if is_stable else ""
    return GroupDescription(
        group.group_id,
        group.state.value,
        group.roster.protocol_type or "",
        name,
        tuple(
            DescribedMember(
                each.member_id,
                each.group_instance_id,
                each.client_id,
                each.client_host,
                each.metadata(name) if is_stable else b"",
                each.assignment if is_stable else b"",
            )
            for each in group.members.values()
        ),
    )
