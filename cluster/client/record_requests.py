"""Asks leaders where partitions begin and end, and deletes records. Through `Admin.leaders`."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Final

from cluster.client.admin import Admin, Outcome
from cluster.client.socket_client import SocketClient
from cluster.client.topic_requests import Place, by_topic
from cluster.model.errors import ErrorCode, Refused
from cluster.protocol.api import ApiKey
from cluster.protocol.messages import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

LATEST: Final = -1
EARLIEST: Final = -2
_TIMEOUT: Final = timedelta(seconds=25)
_NO_REPLICA: Final = -1
_READ_UNCOMMITTED: Final = 0


def offsets_at(admin: Admin, wanted: Iterable[Place], timestamp_ms: int) -> dict[Place, int]:
    """The first offset at or after a time, EARLIEST or LATEST; -1 where there is none.

    Raises Refused for any partition.
    """
    found = _outcomes_at(admin, wanted, timestamp_ms)
    for outcome in found.values():
        if outcome.code is not ErrorCode.none:
            raise Refused(outcome.code)
    return {place: outcome.value for place, outcome in found.items()}


def known_offsets_at(admin: Admin, wanted: Iterable[Place], timestamp_ms: int) -> dict[Place, int]:
    """The same of those partitions whose leaders tell."""
    return {
        place: outcome.value
        for place, outcome in _outcomes_at(admin, wanted, timestamp_ms).items()
        if outcome.code is ErrorCode.none
    }


def _outcomes_at(admin: Admin, wanted: Iterable[Place], timestamp_ms: int) -> dict[Place, Outcome]:
    def ask(client: SocketClient, places: Sequence[Place]) -> dict[Place, Outcome]:
        return leader_offsets(client, places, timestamp_ms)

    return admin.leaders(wanted, ask)


def leader_offsets(
    client: SocketClient, places: Iterable[Place], timestamp_ms: int
) -> dict[Place, Outcome]:
    """What the broker that leads these partitions answers for each. Raises UserError."""
    topics = tuple(
        ListOffsetsTopic(
            name=name,
            partitions=tuple(
                ListOffsetsPartition(partition_index=number, timestamp=timestamp_ms)
                for number in numbers
            ),
        )
        for name, numbers in by_topic(places).items()
    )
    request = ListOffsetsRequest(
        replica_id=_NO_REPLICA,
        isolation_level=_READ_UNCOMMITTED,
        topics=topics,
        timeout=_TIMEOUT,
    )
    return {
        Place(topic.name, each.partition_index): Outcome(each.error_code, each.offset)
        for topic in client.call(ApiKey.LIST_OFFSETS, request).topics
        for each in topic.partitions
    }


def delete_records(admin: Admin, offsets: Mapping[Place, int]) -> dict[Place, Outcome]:
    """Delete the records before each offset, -1: all. The values are the new first offsets."""

    def ask(client: SocketClient, places: Sequence[Place]) -> dict[Place, Outcome]:
        topics = tuple(
            DeleteRecordsTopic(
                name=name,
                partitions=tuple(
                    DeleteRecordsPartition(
                        partition_index=number, offset=offsets[Place(name, number)]
                    )
                    for number in numbers
                ),
            )
            for name, numbers in by_topic(places).items()
        )
        request = DeleteRecordsRequest(topics=topics, timeout=_TIMEOUT)
        return {
            Place(topic.name, each.partition_index): Outcome(each.error_code, each.low_watermark)
            for topic in client.call(ApiKey.DELETE_RECORDS, request).topics
            for each in topic.partitions
        }

    return admin.leaders(offsets, ask)
