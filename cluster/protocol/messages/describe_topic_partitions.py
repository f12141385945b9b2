"""DescribeTopicPartitions messages, versions 0 to 0.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import timedelta
from struct import Struct, pack
from uuid import UUID

from cluster.model.error_codes import ErrorCode
from cluster.model.errors import PeerError
from cluster.protocol.reader import ELEMENTS_MAX, read_length, skip_tags, too_many, truncated
from cluster.protocol.writer import (
    MILLISECOND,
    NO_TAGS,
    NULL_COMPACT,
    NULL_STRUCT,
    STRUCT_FOLLOWS,
    EncodedItems,
    uuid_bytes,
    varint,
)

_pack_h = Struct(">h").pack
_pack_hiii = Struct(">hiii").pack
_pack_i = Struct(">i").pack
_pack_so = Struct(">16s?").pack
_unpack_i = Struct(">i").unpack_from


@dataclass(slots=True, kw_only=True)
class DescribeTopicPartitionsTopic:
    """Part of DescribeTopicPartitions."""

    name: str


@dataclass(slots=True, kw_only=True)
class TopicPartitionsCursor:
    """Part of DescribeTopicPartitions."""

    topic_name: str
    partition_index: int


@dataclass(slots=True, kw_only=True)
class DescribeTopicPartitionsRequest:
    """DescribeTopicPartitions request, versions 0-0."""

    topics: tuple[DescribeTopicPartitionsTopic, ...]
    response_partition_limit: int = 2000
    cursor: TopicPartitionsCursor | None = None


@dataclass(slots=True, kw_only=True)
class DescribeTopicPartitionsResponsePartition:
    """Part of DescribeTopicPartitions."""

    error_code: ErrorCode
    partition_index: int
    leader_id: int
    leader_epoch: int = -1
    replica_nodes: tuple[int, ...] = ()
    isr_nodes: tuple[int, ...] = ()
    eligible_leader_replicas: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None
    offline_replicas: tuple[int, ...] = ()


@dataclass(slots=True, kw_only=True)
class DescribeTopicPartitionsResponseTopic:
    """Part of DescribeTopicPartitions."""

    error_code: ErrorCode
    name: str | None
    topic_id: UUID | None
    is_internal: bool = False
    partitions: tuple[DescribeTopicPartitionsResponsePartition, ...] | EncodedItems
    topic_authorized_operations: int = -2147483648


@dataclass(slots=True, kw_only=True)
class DescribeTopicPartitionsResponse:
    """DescribeTopicPartitions response, versions 0-0."""

    throttle_time: timedelta
    topics: tuple[DescribeTopicPartitionsResponseTopic, ...]
    next_cursor: TopicPartitionsCursor | None = None


def _read_describe_topic_partitions_topic(
    buffer: bytes, position: int, end: int
) -> tuple[DescribeTopicPartitionsTopic, int]:
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("name is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    name = buffer[start:position].decode()
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DescribeTopicPartitionsTopic(name=name), position


def _read_topic_partitions_cursor(
    buffer: bytes, position: int, end: int
) -> tuple[TopicPartitionsCursor, int]:
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("topic_name is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    topic_name = buffer[start:position].decode()
    (partition_index,) = _unpack_i(buffer, position)
    position += 4
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return TopicPartitionsCursor(topic_name=topic_name, partition_index=partition_index), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeTopicPartitionsRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("topics is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    topics_list: list[DescribeTopicPartitionsTopic] = []
    for _ in range(size):
        topics_item, position = _read_describe_topic_partitions_topic(buffer, position, end)
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    (response_partition_limit,) = _unpack_i(buffer, position)
    position += 4
    cursor: TopicPartitionsCursor | None
    is_null = buffer[position] > 127
    position += 1
    if is_null:
        cursor = None
    else:
        cursor, position = _read_topic_partitions_cursor(buffer, position, end)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DescribeTopicPartitionsRequest(
        topics=topics, response_partition_limit=response_partition_limit, cursor=cursor
    ), position


def _write_describe_topic_partitions_response_partition(
    out: bytearray, message: DescribeTopicPartitionsResponsePartition
) -> None:
    out += _pack_hiii(
        message.error_code, message.partition_index, message.leader_id, message.leader_epoch
    )
    out += varint(len(message.replica_nodes) + 1)
    out += pack(f">{len(message.replica_nodes)}i", *message.replica_nodes)
    out += varint(len(message.isr_nodes) + 1)
    out += pack(f">{len(message.isr_nodes)}i", *message.isr_nodes)
    if message.eligible_leader_replicas is None:
        out += NULL_COMPACT
    else:
        out += varint(len(message.eligible_leader_replicas) + 1)
        out += pack(f">{len(message.eligible_leader_replicas)}i", *message.eligible_leader_replicas)
    if message.last_known_elr is None:
        out += NULL_COMPACT
    else:
        out += varint(len(message.last_known_elr) + 1)
        out += pack(f">{len(message.last_known_elr)}i", *message.last_known_elr)
    out += varint(len(message.offline_replicas) + 1)
    out += pack(f">{len(message.offline_replicas)}i", *message.offline_replicas)
    out += NO_TAGS


def _write_describe_topic_partitions_response_topic(
    out: bytearray, message: DescribeTopicPartitionsResponseTopic
) -> None:
    out += _pack_h(message.error_code)
    if message.name is None:
        out += NULL_COMPACT
    else:
        encoded = message.name.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += _pack_so(uuid_bytes(message.topic_id), message.is_internal)
    out += varint(len(message.partitions) + 1)
    if isinstance(message.partitions, EncodedItems):
        out += message.partitions.content
    else:
        for partitions_item in message.partitions:
            _write_describe_topic_partitions_response_partition(out, partitions_item)
    out += _pack_i(message.topic_authorized_operations)
    out += NO_TAGS


def _write_topic_partitions_cursor(out: bytearray, message: TopicPartitionsCursor) -> None:
    encoded = message.topic_name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += _pack_i(message.partition_index)
    out += NO_TAGS


def write_response(out: bytearray, message: DescribeTopicPartitionsResponse, version: int) -> None:
    """Append the message as this version has it."""
    out += _pack_i(message.throttle_time // MILLISECOND)
    out += varint(len(message.topics) + 1)
    for topics_item in message.topics:
        _write_describe_topic_partitions_response_topic(out, topics_item)
    if message.next_cursor is None:
        out += NULL_STRUCT
    else:
        out += STRUCT_FOLLOWS
        _write_topic_partitions_cursor(out, message.next_cursor)
    out += NO_TAGS


def write_describe_topic_partitions_response_partition(
    out: bytearray, message: DescribeTopicPartitionsResponsePartition, version: int
) -> None:
    """Append one item of `EncodedItems` as this version has it."""
    _write_describe_topic_partitions_response_partition(out, message)
