"""Groups as `groups` and the page show them, from the answers of their coordinators."""

from contextlib import suppress
from typing import Final, NamedTuple

from cluster.client.admin import Admin
from cluster.client.consumer_group_requests import (
    FoundClassicGroup,
    FoundGroup,
    assigned_places,
    describe_classic_group,
    describe_consumer_group,
)
from cluster.client.topic_requests import Place
from cluster.model.errors import Refused
from cluster.protocol.messages import ConsumerGroupDescribeAssignment, Coordinator

DEAD: Final = "Dead"
EMPTY: Final = "Empty"
_CLASSIC_MEMBER: Final = 0


class Member(NamedTuple):
    """A member of a group and what it has."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[Place, ...]
    epoch: int | None = None
    """Of the newer consumer protocol, as the following."""
    target: tuple[Place, ...] = ()
    """What it is to have, once others have given it up."""
    is_classic: bool = True
    """It uses the classic protocol."""


class Group(NamedTuple):
    """A group as its coordinator describes it."""

    name: str
    state: str
    assignor: str
    coordinator: str
    """`host:port  (id)`, as Kafka's tool shows it."""
    members: tuple[Member, ...]
    epoch: int | None = None
    """Of the newer consumer protocol, as the following."""
    target_epoch: int | None = None
    """Of the assignment that the members are on the way to."""
    coordinator_id: int | None = None
    """None if it did not answer."""

    @property
    def is_newer(self) -> bool:
        """Whether it is of the newer consumer protocol."""
        return self.epoch is not None


def describe_group(admin: Admin, name: str) -> Group:
    """One group; of state Dead if there is no such group. Raises Refused and UserError."""
    with suppress(Refused):  # then the older request says why
        found = describe_consumer_group(admin, name)
        if found is not None:
            return _newer_group(found)
    return _classic_group(describe_classic_group(admin, name))


def _newer_group(found: FoundGroup) -> Group:
    group = found.group
    return Group(
        group.group_id,
        group.group_state,
        group.assignor_name,
        _shown(found.coordinator),
        tuple(
            Member(
                each.member_id,
                each.instance_id,
                each.client_id,
                each.client_host,
                _places(each.assignment),
                each.member_epoch,
                _places(each.target_assignment),
                is_classic=each.member_type == _CLASSIC_MEMBER,
            )
            for each in group.members
        ),
        group.group_epoch,
        group.assignment_epoch,
        coordinator_id=found.coordinator.node_id,
    )


def _places(assignment: ConsumerGroupDescribeAssignment) -> tuple[Place, ...]:
    return tuple(
        Place(topic.topic_name, number)
        for topic in assignment.topic_partitions
        for number in topic.partitions
    )


def _classic_group(found: FoundClassicGroup) -> Group:
    group = found.group
    return Group(
        group.group_id,
        group.group_state or DEAD,
        group.protocol_data,
        _shown(found.coordinator),
        tuple(
            Member(
                each.member_id,
                each.group_instance_id,
                each.client_id,
                each.client_host,
                assigned_places(each.member_assignment),
            )
            for each in group.members
        ),
        coordinator_id=found.coordinator.node_id,
    )


def _shown(coordinator: Coordinator) -> str:
    """The coordinator as Kafka's tool shows it."""
    return f"{coordinator.host}:{coordinator.port}  ({coordinator.node_id})"
