"""ConsumerGroupHeartbeat (API key 68), versions 0-1.

The only group request of a member of the consumer protocol (KIP-848): it joins, reports the
partitions it owns, receives its assignment, and leaves. The answer is sent immediately, or when
every in-sync replica has the changes that the heartbeat makes. UNSUPPORTED_VERSION if
group.coordinator.rebalance.protocols does not contain `consumer`.
v1 regular expressions, and member ids chosen by the members (KIP-1082).
"""

from datetime import timedelta
from typing import Final

from cluster.brokers.handlers.access import DESCRIBE_TOPIC, READ_GROUP, check, may
from cluster.brokers.handlers.group_requests import (
    MILLISECOND,
    NO_TIME,
    answered,
    check_consumer_protocol,
    client_host,
)
from cluster.brokers.handlers.request import NotYet, RequestContext, adapted
from cluster.brokers.handlers.services import GroupServices
from cluster.coordinator.groups.consumer.requests import (
    ConsumerHeartbeat,
    ConsumerHeartbeatReply,
)
from cluster.coordinator.groups.shared.topics import Partitions, TopicId
from cluster.model.errors import Refused
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    ConsumerGroupHeartbeatAssignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopic,
)

API: Final = Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1)

_FIRST_WITH_OWN_MEMBER_IDS: Final = 1
_NO_TOPIC: Final = TopicId(int=0)
"""The id that stands for no topic: 16 zero bytes on the wire."""


def handle(
    request: ConsumerGroupHeartbeatRequest, context: RequestContext, services: GroupServices
) -> ConsumerGroupHeartbeatResponse | NotYet:
    """Process a member's heartbeat and answer with its assignment."""
    try:
        check_consumer_protocol(services)
        check(services, context, READ_GROUP, request.group_id)
        for topic in request.subscribed_topic_names or ():
            check(services, context, DESCRIBE_TOPIC, topic)
        group = services.groups.find(request.group_id)
    except Refused as refused:
        return _response(ConsumerHeartbeatReply(refused.code, refused.detail or None))
    beat = _heartbeat(request, context, services)
    return answered(context, group, beat, _response)


def _heartbeat(
    request: ConsumerGroupHeartbeatRequest, context: RequestContext, services: GroupServices
) -> ConsumerHeartbeat:
    def may_know(topic: str) -> bool:
        return may(services, context, DESCRIBE_TOPIC, topic, is_audited=False)

    return ConsumerHeartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        client_id=context.accounts.client.client_id,
        client_host=client_host(context),
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout // MILLISECOND,
        subscribed_topic_names=request.subscribed_topic_names,
        subscribed_topic_regex=request.subscribed_topic_regex,
        server_assignor=request.server_assignor,
        owned_partitions=_owned(request),
        requires_member_id=context.version >= _FIRST_WITH_OWN_MEMBER_IDS,
        may_know=None if services.authorizer is None else may_know,
    )


def _owned(request: ConsumerGroupHeartbeatRequest) -> Partitions | None:
    if request.topic_partitions is None:
        return None
    owned: dict[TopicId, frozenset[int]] = {}
    for topic in request.topic_partitions:
        topic_id = topic.topic_id or _NO_TOPIC
        owned[topic_id] = owned.get(topic_id, frozenset()) | frozenset(topic.partitions)
    return owned


def _response(reply: ConsumerHeartbeatReply) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        throttle_time=NO_TIME,
        error_code=reply.error,
        error_message=reply.error_message,
        member_id=reply.member_id,
        member_epoch=reply.member_epoch,
        heartbeat_interval=timedelta(milliseconds=reply.heartbeat_interval_ms),
        assignment=None
        if reply.assignment is None
        else ConsumerGroupHeartbeatAssignment(
            topic_partitions=tuple(
                ConsumerGroupHeartbeatTopic(topic_id=topic_id, partitions=tuple(sorted(numbers)))
                for topic_id, numbers in reply.assignment.items()
            )
        ),
    )


HANDLER: Final = adapted(API, handle, GroupServices, authorizes=(READ_GROUP, DESCRIBE_TOPIC))
