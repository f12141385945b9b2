"""Shared by the handlers of group requests: finding the group, answering immediately or later."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, TypeVar

from cluster.brokers.coordinators.led_shard import LedShard
from cluster.brokers.handlers.access import check
from cluster.brokers.handlers.request import NotYet, RequestContext, now_or_later
from cluster.brokers.handlers.services import GroupServices
from cluster.config.broker import GROUP_COORDINATOR_REBALANCE_PROTOCOLS
from cluster.coordinator.groups.shard import GroupShard
from cluster.coordinator.shards.requests import ReplyT, Request
from cluster.model.acls import Right
from cluster.model.errors import ErrorCode, Refused

MILLISECOND: Final = timedelta(milliseconds=1)
NO_TIME: Final = timedelta(0)

ResponseT = TypeVar("ResponseT")


def find_group(
    services: GroupServices, context: RequestContext, right: Right, group_id: str
) -> LedShard[GroupShard]:
    """The shard of a group, for a request that needs a group id and this right.

    Raises Refused: GROUP_AUTHORIZATION_FAILED, INVALID_GROUP_ID, NOT_COORDINATOR,
    COORDINATOR_LOAD_IN_PROGRESS.
    """
    check(services, context, right, group_id)
    if not group_id:
        raise Refused(ErrorCode.invalid_group_id)
    return services.groups.find(group_id)


def check_consumer_protocol(services: GroupServices) -> None:
    """Raise Refused(UNSUPPORTED_VERSION) if the consumer protocol is disabled."""
    if "consumer" not in services.settings[GROUP_COORDINATOR_REBALANCE_PROTOCOLS]:
        raise Refused(ErrorCode.unsupported_version)


def answered(
    context: RequestContext,
    shard: LedShard[Any],
    request: Request[ReplyT],
    response_of: Callable[[ReplyT], ResponseT],
) -> "ResponseT | NotYet":
    """Submit a request to the coordinator.

    Returns the response, or PARKED if the reply comes later. A client that disconnects meanwhile
    remains a member until its session expires, as in Kafka.
    """
    return now_or_later(
        lambda respond: shard.submit(request, lambda reply: respond(response_of(reply))), context
    )


def client_host(context: RequestContext) -> str:
    """The address of a member in Kafka's form: `/127.0.0.1`."""
    return f"/{context.channel.peer.rpartition(':')[0]}"
