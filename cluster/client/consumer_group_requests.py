"""Asks a cluster for its groups, and for one of the newer consumer protocol (KIP-848)."""

from typing import Final, NamedTuple

from cluster.client.cluster_requests import broker_addresses
from cluster.client.security import Servers
from cluster.client.socket_client import SocketClient
from cluster.model.errors import ErrorCode, Refused
from cluster.protocol.api import ApiKey
from cluster.protocol.messages import (
    ConsumerGroupDescribeRequest,
    Coordinator,
    DescribedConsumerGroup,
    FindCoordinatorRequest,
    ListedGroup,
    ListGroupsRequest,
)

_GROUP: Final = 0
_NOT_OF_THIS_TYPE: Final = frozenset(
    {ErrorCode.group_id_not_found, ErrorCode.unsupported_version, ErrorCode.invalid_group_id}
)


class FoundGroup(NamedTuple):
    """A group, and who coordinates it."""

    group: DescribedConsumerGroup
    coordinator: int
    host: str
    port: int


def list_groups(servers: Servers, client_id: str) -> list[ListedGroup]:
    """Every group of the cluster. Raises Refused, and UserError where a broker is not reached."""
    with SocketClient.connect(servers, client_id) as client:
        addresses = broker_addresses(client)
    found: list[ListedGroup] = []
    for address in addresses.values():
        with SocketClient.connect(servers.only(address), client_id) as client:
            told = client.call(
                ApiKey.LIST_GROUPS, ListGroupsRequest(states_filter=(), types_filter=())
            )
        if told.error_code is not ErrorCode.none:
            raise Refused(told.error_code)
        found += told.groups
    return found


def describe_consumer_group(servers: Servers, client_id: str, group_id: str) -> FoundGroup | None:
    """A group of the newer consumer protocol; None if there is none, or it is a classic one.

    Raises Refused, and UserError where a broker is not reached.
    """
    with SocketClient.connect(servers, client_id) as client:
        if not client.serves(ApiKey.CONSUMER_GROUP_DESCRIBE):
            return None
        at = _coordinator(client, group_id)
    with SocketClient.connect(servers.only((at.host, at.port)), client_id) as client:
        wanted = ConsumerGroupDescribeRequest(
            group_ids=(group_id,), include_authorized_operations=False
        )
        (group,) = client.call(ApiKey.CONSUMER_GROUP_DESCRIBE, wanted).groups
    if group.error_code in _NOT_OF_THIS_TYPE:
        return None
    if group.error_code is not ErrorCode.none:
        raise Refused(group.error_code, group.error_message or "")
    return FoundGroup(group, at.node_id, at.host, at.port)


def _coordinator(client: SocketClient, group_id: str) -> Coordinator:
    asked = FindCoordinatorRequest(key="", key_type=_GROUP, coordinator_keys=(group_id,))
    (found,) = client.call(ApiKey.FIND_COORDINATOR, asked).coordinators
    if found.error_code is not ErrorCode.none:
        raise Refused(found.error_code, found.error_message or "")
    coordinator: Coordinator = found
    return coordinator
