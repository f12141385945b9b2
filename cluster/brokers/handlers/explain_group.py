"""ExplainGroup (API key 31000, specific to this cluster, version 0): why a group rebalanced.

Kafka has no such request: ApiVersions does not list it, and a Kafka broker closes the connection.
Request and answer use Kafka's frames and its non-flexible headers;
`coordinator/groups/history/explanation.py` defines their bodies. Every broker answers for any
group: the coordinator with what it knows, a former coordinator with the history it kept. Each
answer has an error code.
"""

from typing import Final

from cluster.brokers.handlers.access import DESCRIBE_GROUP, may
from cluster.brokers.handlers.own_requests import own_request
from cluster.brokers.handlers.request import RequestContext
from cluster.brokers.handlers.services import GroupServices
from cluster.coordinator.groups.history.explanation import (
    ExplainAnswer,
    pack_answer,
    read_question,
)
from cluster.coordinator.groups.views.queries import ExplainGroup
from cluster.model.errors import ErrorCode, Refused
from cluster.protocol.api import Api, OwnApiKey

API: Final = Api(OwnApiKey.EXPLAIN_GROUP, 0, 0)


def handle(group_id: str, context: RequestContext, services: GroupServices) -> ExplainAnswer:
    """What this broker knows of a group."""
    groups = services.groups
    code, since_ms, found = ErrorCode.none, None, None
    is_allowed = may(services, context, DESCRIBE_GROUP, group_id)
    try:
        if not is_allowed:
            raise Refused(ErrorCode.group_authorization_failed)
        led = groups.find(group_id)
    except Refused as refused:
        code = refused.code
        if code is ErrorCode.not_coordinator and groups.partition_of(group_id) is None:
            code = ErrorCode.group_id_not_found  # __consumer_offsets does not exist yet
    else:
        since_ms = led.since_wall_ms
        found = led.ask(ExplainGroup(group_id))
        if found is None:
            code = ErrorCode.group_id_not_found
    return ExplainAnswer(
        code,
        services.broker_id,
        services.clock.monotonic_ms(),
        services.clock.wall_ms(),
        -1 if since_ms is None else since_ms,
        found,
        groups.former.of(group_id) if is_allowed else (),
    )


HANDLER: Final = own_request(
    API, handle, GroupServices, read_question, pack_answer, authorizes=(DESCRIBE_GROUP,)
)
