"""Asks a broker about a group: its rebalances (a request of our own), removal of offsets."""

from collections.abc import Iterable, Mapping

from cluster.client.quota_requests import Caller
from cluster.client.socket_client import SocketClient
from cluster.coordinator.groups.history.explanation import ExplainAnswer, pack_question, read_answer
from cluster.model.errors import ErrorCode, PeerError, Refused, UserError
from cluster.protocol.api import ApiKey, OwnApiKey
from cluster.protocol.messages import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)


def explain_group(client: SocketClient, group_id: str) -> ExplainAnswer:
    """What the broker that the client is connected to knows of a group.

    Raises UserError where it does not answer, as a broker of Kafka.
    """
    body = client.call_own(
        OwnApiKey.EXPLAIN_GROUP, pack_question(group_id), "say why groups rebalance"
    )
    try:
        return read_answer(body)
    except PeerError as error:
        raise UserError(f"the broker at {client.address} answers wrongly: {error}") from error


def delete_offsets(
    client: Caller, group_id: str, partitions: Mapping[str, Iterable[int]]
) -> dict[tuple[str, int], ErrorCode]:
    """Have the group's coordinator, which the client is connected to, remove committed offsets.

    `partitions` are numbers by topic. What became of each. Raises Refused where the group as a
    whole is refused.
    """
    request = OffsetDeleteRequest(
        group_id=group_id,
        topics=tuple(
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=tuple(
                    OffsetDeleteRequestPartition(partition_index=number) for number in numbers
                ),
            )
            for topic, numbers in partitions.items()
        ),
    )
    response = client.call(ApiKey.OFFSET_DELETE, request)
    if response.error_code is not ErrorCode.none:
        raise Refused(response.error_code)
    return {
        (topic.name, each.partition_index): each.error_code
        for topic in response.topics
        for each in topic.partitions
    }
