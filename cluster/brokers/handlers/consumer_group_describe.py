"""ConsumerGroupDescribe (API key 69), versions 0-1.

Describes groups of the consumer protocol (KIP-848). A classic group gets GROUP_ID_NOT_FOUND;
DescribeGroups describes it. UNSUPPORTED_VERSION if group.coordinator.rebalance.protocols does not
contain `consumer`.
v1 the protocol of each member (KIP-1099).
"""

from collections.abc import Iterable
from typing import Final

from cluster.brokers.handlers.access import DESCRIBE_GROUP, DESCRIBE_TOPIC, allowed_among
from cluster.brokers.handlers.authorized_operations import NOT_REQUESTED, authorized_operations
from cluster.brokers.handlers.group_requests import NO_TIME, check_consumer_protocol, find_group
from cluster.brokers.handlers.request import RequestContext, adapted
from cluster.brokers.handlers.services import GroupServices
from cluster.coordinator.groups.consumer.requests import (
    AssignedTopic,
    ConsumerGroupDescription,
    DescribedConsumer,
)
from cluster.coordinator.groups.views.queries import DescribeConsumerGroup, DescribeGroup
from cluster.model.acls import ResourceType
from cluster.model.errors import ErrorCode, Refused
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    ConsumerGroupDescribeAssignment,
    ConsumerGroupDescribeMember,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeTopic,
    DescribedConsumerGroup,
)

API: Final = Api(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1)

_CLASSIC_MEMBER: Final = 0
_CONSUMER_MEMBER: Final = 1


def handle(
    request: ConsumerGroupDescribeRequest, context: RequestContext, services: GroupServices
) -> ConsumerGroupDescribeResponse:
    """State, epochs and members of each group."""
    return ConsumerGroupDescribeResponse(
        throttle_time=NO_TIME,
        groups=tuple(
            _describe(group_id, request, context, services)
            for group_id in dict.fromkeys(request.group_ids)
        ),
    )


def _describe(
    group_id: str,
    request: ConsumerGroupDescribeRequest,
    context: RequestContext,
    services: GroupServices,
) -> DescribedConsumerGroup:
    try:
        check_consumer_protocol(services)
        shard = find_group(services, context, DESCRIBE_GROUP, group_id)
        found = shard.ask(DescribeConsumerGroup(group_id))
        if found is None:
            is_classic = shard.ask(DescribeGroup(group_id)) is not None
            why = "is not a consumer group" if is_classic else "not found"
            raise Refused(ErrorCode.group_id_not_found, f"Group {group_id} {why}.")
        _check_topics(found, context, services)
    except Refused as refused:
        return DescribedConsumerGroup(
            error_code=refused.code,
            error_message=refused.detail or None,
            group_id=group_id,
            group_state="",
            group_epoch=0,
            assignment_epoch=0,
            assignor_name="",
            members=(),
        )
    operations = NOT_REQUESTED
    if request.include_authorized_operations:
        operations = authorized_operations(services, context, ResourceType.GROUP, group_id)
    return _described(found, operations)


def _check_topics(
    found: ConsumerGroupDescription, context: RequestContext, services: GroupServices
) -> None:
    """Raise Refused if the answer would contain a topic that the client may not describe."""
    topics = {
        each.topic
        for member in found.members
        for each in (*member.assignment, *member.target_assignment)
    }
    if allowed_among(services, context, DESCRIBE_TOPIC, topics) != topics:
        raise Refused(
            ErrorCode.topic_authorization_failed,
            "The group has described topic(s) that the client is not authorized to describe.",
        )


def _described(found: ConsumerGroupDescription, operations: int) -> DescribedConsumerGroup:
    return DescribedConsumerGroup(
        error_code=ErrorCode.none,
        group_id=found.group_id,
        group_state=found.state,
        group_epoch=found.group_epoch,
        assignment_epoch=found.assignment_epoch,
        assignor_name=found.assignor,
        members=tuple(map(_member, found.members)),
        authorized_operations=operations,
    )


def _member(member: DescribedConsumer) -> ConsumerGroupDescribeMember:
    return ConsumerGroupDescribeMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.subscribed_topic_names,
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=_assignment(member.assignment),
        target_assignment=_assignment(member.target_assignment),
        member_type=_CLASSIC_MEMBER if member.is_classic else _CONSUMER_MEMBER,
    )


def _assignment(topics: Iterable[AssignedTopic]) -> ConsumerGroupDescribeAssignment:
    return ConsumerGroupDescribeAssignment(
        topic_partitions=tuple(
            ConsumerGroupDescribeTopic(
                topic_id=each.topic_id, topic_name=each.topic, partitions=each.partitions
            )
            for each in topics
        )
    )


HANDLER: Final = adapted(API, handle, GroupServices, authorizes=(DESCRIBE_GROUP, DESCRIBE_TOPIC))
