"""Asks a cluster for its groups, of the classic and of the newer consumer protocol (KIP-848)."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from cluster.client.admin import Admin
from cluster.client.socket_client import SocketClient
from cluster.client.topic_requests import Place
from cluster.coordinator.groups.bridge.embedded_protocol import MalformedProtocol, read_assignment
from cluster.model.errors import ErrorCode, Refused
from cluster.protocol.api import ApiKey
from cluster.protocol.messages import (
    ConsumerGroupDescribeRequest,
    Coordinator,
    DeleteGroupsRequest,
    DescribedConsumerGroup,
    DescribedGroup,
    DescribeGroupsRequest,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)

_NOT_OF_THIS_TYPE: Final = frozenset(
    {ErrorCode.group_id_not_found, ErrorCode.unsupported_version, ErrorCode.invalid_group_id}
)


class FoundGroup(NamedTuple):
    """A group of the newer protocol, and who coordinates it."""

    group: DescribedConsumerGroup
    coordinator: Coordinator


class FoundClassicGroup(NamedTuple):
    """A group of the classic protocol, and who coordinates it."""

    group: DescribedGroup
    coordinator: Coordinator


class Committed(NamedTuple):
    """What a group has committed for a partition."""

    offset: int
    leader_epoch: int | None


def list_groups(admin: Admin) -> list[ListedGroup]:
    """Every group of the cluster. Raises Refused, and UserError where a broker is not reached."""
    found: list[ListedGroup] = []
    request = ListGroupsRequest(states_filter=(), types_filter=())

    def ask(client: SocketClient) -> ListGroupsResponse:
        response: ListGroupsResponse = client.call(ApiKey.LIST_GROUPS, request)
        return response

    for broker in admin.facts().brokers:
        told = admin.broker(broker, ask)
        if told.error_code is not ErrorCode.none:
            raise Refused(told.error_code)
        found += told.groups
    return found


def describe_consumer_group(admin: Admin, group_id: str) -> FoundGroup | None:
    """A group of the newer consumer protocol; None if there is none, or it is a classic one.

    Raises Refused, and UserError where a broker is not reached.
    """

    def ask(client: SocketClient, at: Coordinator) -> FoundGroup | None:
        if not client.serves(ApiKey.CONSUMER_GROUP_DESCRIBE):
            return None
        wanted = ConsumerGroupDescribeRequest(
            group_ids=(group_id,), include_authorized_operations=False
        )
        (group,) = client.call(ApiKey.CONSUMER_GROUP_DESCRIBE, wanted).groups
        if group.error_code in _NOT_OF_THIS_TYPE:
            return None
        _check(group.error_code, group.error_message)
        return FoundGroup(group, at)

    return admin.coordinator(group_id, ask)


def describe_classic_group(admin: Admin, group_id: str) -> FoundClassicGroup:
    """A group of the classic protocol; of state Dead if there is none. Raises as the above."""

    def ask(client: SocketClient, at: Coordinator) -> FoundClassicGroup:
        wanted = DescribeGroupsRequest(groups=(group_id,), include_authorized_operations=False)
        (group,) = client.call(ApiKey.DESCRIBE_GROUPS, wanted).groups
        if group.error_code is not ErrorCode.group_id_not_found:  # since version 6
            _check(group.error_code, group.error_message)
        return FoundClassicGroup(group, at)

    return admin.coordinator(group_id, ask)


def assigned_places(assignment: bytes) -> tuple[Place, ...]:
    """The partitions in the assignment of a member of Kafka's classic consumer protocol."""
    try:
        found = read_assignment(assignment)
    except MalformedProtocol:  # none yet, or not a consumer's
        return ()
    return tuple(
        Place(topic, number)
        for topic, numbers in sorted(found.partitions.items())
        for number in sorted(numbers)
    )


def delete_group(admin: Admin, group_id: str) -> None:
    """Delete a group without members, with its offsets. Raises Refused."""

    def ask(client: SocketClient, _at: Coordinator) -> None:
        told = client.call(ApiKey.DELETE_GROUPS, DeleteGroupsRequest(groups_names=(group_id,)))
        for result in told.results:
            _check(result.error_code, None)

    admin.coordinator(group_id, ask)


def committed(admin: Admin, group_id: str) -> dict[Place, Committed]:
    """All that a group has committed, with the epochs of the leaders that it had read from.

    Raises Refused.
    """

    def ask(client: SocketClient, _at: Coordinator) -> dict[Place, Committed]:
        wanted = OffsetFetchRequestGroup(group_id=group_id, topics=None)
        (group,) = client.call(ApiKey.OFFSET_FETCH, OffsetFetchRequest(groups=(wanted,))).groups
        _check(group.error_code, None)
        found = {}
        for topic in group.topics:
            for each in topic.partitions:
                _check(each.error_code, None)
                if each.committed_offset >= 0:
                    epoch = each.committed_leader_epoch
                    place = Place(topic.name, each.partition_index)
                    found[place] = Committed(each.committed_offset, epoch if epoch >= 0 else None)
        return found

    return admin.coordinator(group_id, ask)


def commit_offsets(admin: Admin, group_id: str, offsets: Mapping[Place, int]) -> None:
    """Set what a group without members has committed. Raises Refused."""

    def ask(client: SocketClient, _at: Coordinator) -> None:
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for place, offset in offsets.items():
            topics.setdefault(place.topic, []).append(
                OffsetCommitRequestPartition(
                    partition_index=place.partition, committed_offset=offset, committed_metadata=""
                )
            )
        request = OffsetCommitRequest(
            group_id=group_id,
            member_id="",
            topics=tuple(
                OffsetCommitRequestTopic(name=name, topic_id=None, partitions=tuple(partitions))
                for name, partitions in topics.items()
            ),
        )
        for topic in client.call(ApiKey.OFFSET_COMMIT, request).topics:
            for each in topic.partitions:
                _check(each.error_code, None)

    admin.coordinator(group_id, ask)


def _check(code: ErrorCode, message: str | None) -> None:
    if code is not ErrorCode.none:
        raise Refused(code, message or "")
