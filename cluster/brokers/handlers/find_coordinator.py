"""FindCoordinator (API key 10), versions 0-6.

The coordinator is the leader of the group's partition of `__consumer_offsets`, or of the
transactional id's of `__transaction_state`. The topic is created on demand, whatever
`auto.create.topics.enable` is; COORDINATOR_NOT_AVAILABLE until it exists and while the leader is
not known to be alive. Not supported: coordinators of share groups (INVALID_REQUEST).
v1 key types, error messages; v3 flexible; v4 several keys (KIP-699); v6 share groups (KIP-932).
"""

from typing import Final

from cluster.brokers.handlers.access import DESCRIBE_GROUP, DESCRIBE_TRANSACTIONAL_ID, check
from cluster.brokers.handlers.group_requests import NO_TIME
from cluster.brokers.handlers.request import RequestContext, adapted
from cluster.brokers.handlers.services import GroupServices
from cluster.model.cluster import Endpoint
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import BrokerId, TopicPartition
from cluster.model.topics import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

API: Final = Api(ApiKey.FIND_COORDINATOR, 0, 6)

_GROUP: Final = 0
_TRANSACTION: Final = 1
_FIRST_WITH_SEVERAL: Final = 4
_NO_NODE: Final = -1


def handle(
    request: FindCoordinatorRequest, context: RequestContext, services: GroupServices
) -> FindCoordinatorResponse:
    """The coordinator of each group."""
    several = context.version >= _FIRST_WITH_SEVERAL
    keys = dict.fromkeys(request.coordinator_keys) if several else (request.key,)
    found = tuple(_coordinator(key, request.key_type, context, services) for key in keys)
    if several:
        return FindCoordinatorResponse(throttle_time=NO_TIME, coordinators=found)
    (only,) = found
    return FindCoordinatorResponse(
        throttle_time=NO_TIME,
        error_code=only.error_code,
        error_message=only.error_message,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
        coordinators=(),
    )


def _coordinator(
    key: str, key_type: int, context: RequestContext, services: GroupServices
) -> Coordinator:
    try:
        if key_type == _TRANSACTION:
            check(services, context, DESCRIBE_TRANSACTIONAL_ID, key)
            found, topic = services.transactions.partition_of(key), TRANSACTION_STATE_TOPIC
        elif key_type == _GROUP:
            check(services, context, DESCRIBE_GROUP, key)
            found, topic = services.groups.partition_of(key), CONSUMER_OFFSETS_TOPIC
        else:
            raise Refused(
                ErrorCode.invalid_request,
                "Only consumer groups and transactional ids have coordinators.",
            )
        broker, endpoint = _leader(found, topic, context, services)
    except Refused as refused:
        return Coordinator(
            key=key,
            node_id=_NO_NODE,
            host="",
            port=-1,
            error_code=refused.code,
            error_message=refused.detail,
        )
    return Coordinator(
        key=key,
        node_id=broker,
        host=endpoint.host,
        port=endpoint.port,
        error_code=ErrorCode.none,
        error_message="",
    )


def _leader(
    partition: TopicPartition | None, topic: str, context: RequestContext, services: GroupServices
) -> tuple[BrokerId, Endpoint]:
    if partition is None:
        # The broker needs the topic, not the client, so no client's quota is charged.
        services.controller_client.request_topic_creation([topic], None)
        raise Refused(ErrorCode.coordinator_not_available, f"{topic} is being created.")
    state = services.metadata.partition(partition)
    endpoint = None
    if state is not None and not services.liveness.is_lost(state.leader, services.loop.now_ms):
        endpoint = services.metadata.endpoint(state.leader, context.listener)
    if state is None or endpoint is None:
        raise Refused(ErrorCode.coordinator_not_available, f"{partition} has no leader.")
    return state.leader, endpoint


HANDLER: Final = adapted(
    API, handle, GroupServices, authorizes=(DESCRIBE_GROUP, DESCRIBE_TRANSACTIONAL_ID)
)
