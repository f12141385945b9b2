"""FindCoordinator (API key 10), versions 0-6.

The coordinator is the leader of the group's partition of `__consumer_offsets`. The topic is created
on demand, whatever `auto.create.topics.enable` is; COORDINATOR_NOT_AVAILABLE until it exists and
while the leader is not known to be alive. Not supported: coordinators of transactions
(docs/decisions/051-transactional-ids.md) and of share groups (INVALID_REQUEST).
v1 key types, error messages; v3 flexible; v4 several keys (KIP-699); v6 share groups (KIP-932).
"""

from typing import Final

from cluster.brokers.handlers.access import DESCRIBE_GROUP, DESCRIBE_TRANSACTIONAL_ID, check
from cluster.brokers.handlers.group_requests import NO_TIME
from cluster.brokers.handlers.request import RequestContext, adapted
from cluster.brokers.handlers.services import GroupServices
from cluster.model.cluster import Endpoint
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import BrokerId
from cluster.model.topics import CONSUMER_OFFSETS_TOPIC
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
_LAST_OF_LIBRDKAFKA: Final = 2
NO_TRANSACTIONS: Final = "Transactions are not supported by this cluster (Milena)."


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
            raise _no_transactions(context.version)
        if key_type == _GROUP:
            check(services, context, DESCRIBE_GROUP, key)
        if key_type != _GROUP:
            raise Refused(ErrorCode.invalid_request, "Only consumer groups have coordinators.")
        broker, endpoint = _leader(key, context, services)
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


def _no_transactions(version: int) -> Refused:
    """An error that makes every client give up immediately, with a message where the client shows
    one.

    librdkafka, which uses version 2 at most, retries every other code until its own timeout.
    """
    if version <= _LAST_OF_LIBRDKAFKA:
        return Refused(ErrorCode.transactional_id_authorization_failed, NO_TRANSACTIONS)
    return Refused(ErrorCode.unsupported_version, NO_TRANSACTIONS)


def _leader(
    group_id: str, context: RequestContext, services: GroupServices
) -> tuple[BrokerId, Endpoint]:
    partition = services.groups.partition_of(group_id)
    if partition is None:
        # The broker needs the topic, not the client, so no client's quota is charged.
        services.controller_client.request_topic_creation([CONSUMER_OFFSETS_TOPIC], None)
        raise Refused(
            ErrorCode.coordinator_not_available, f"{CONSUMER_OFFSETS_TOPIC} is being created."
        )
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
