"""ListPartitionReassignments messages, versions 0 to 0.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import timedelta
from struct import Struct, pack, unpack_from

from cluster.model.error_codes import ErrorCode
from cluster.model.errors import PeerError
from cluster.protocol.reader import ELEMENTS_MAX, read_length, skip_tags, too_many, truncated
from cluster.protocol.writer import MILLISECOND, NO_TAGS, NULL_COMPACT, EncodedItems, varint

_pack_i = Struct(">i").pack
_pack_ih = Struct(">ih").pack
_unpack_i = Struct(">i").unpack_from
_unpack_ih = Struct(">ih").unpack_from


@dataclass(slots=True, kw_only=True)
class ListPartitionReassignmentsTopics:
    """Part of ListPartitionReassignments."""

    name: str
    partition_indexes: tuple[int, ...] = ()


@dataclass(slots=True, kw_only=True)
class ListPartitionReassignmentsRequest:
    """ListPartitionReassignments request, versions 0-0."""

    timeout: timedelta = timedelta(milliseconds=60000)
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None


@dataclass(slots=True, kw_only=True)
class OngoingPartitionReassignment:
    """Part of ListPartitionReassignments."""

    partition_index: int
    replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()


@dataclass(slots=True, kw_only=True)
class OngoingTopicReassignment:
    """Part of ListPartitionReassignments."""

    name: str
    partitions: tuple[OngoingPartitionReassignment, ...] | EncodedItems


@dataclass(slots=True, kw_only=True)
class ListPartitionReassignmentsResponse:
    """ListPartitionReassignments response, versions 0-0."""

    throttle_time: timedelta
    error_code: ErrorCode
    error_message: str | None
    topics: tuple[OngoingTopicReassignment, ...]


def _read_list_partition_reassignments_topics(
    buffer: bytes, position: int, end: int
) -> tuple[ListPartitionReassignmentsTopics, int]:
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
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("partition_indexes is null or has a negative length")
    if 4 * size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    partition_indexes = unpack_from(f">{size}i", buffer, position)
    position += 4 * size
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return ListPartitionReassignmentsTopics(
        name=name, partition_indexes=partition_indexes
    ), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ListPartitionReassignmentsRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    (timeout,) = _unpack_i(buffer, position)
    position += 4
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        if size > end - position:
            raise truncated()
        if size > ELEMENTS_MAX:
            raise too_many(size)
        topics_list: list[ListPartitionReassignmentsTopics] = []
        for _ in range(size):
            topics_item, position = _read_list_partition_reassignments_topics(buffer, position, end)
            topics_list.append(topics_item)
        topics = tuple(topics_list)
    else:
        topics = None
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return ListPartitionReassignmentsRequest(
        timeout=timedelta(0, 0, 0, timeout), topics=topics
    ), position


def _write_ongoing_partition_reassignment(
    out: bytearray, message: OngoingPartitionReassignment
) -> None:
    out += _pack_i(message.partition_index)
    out += varint(len(message.replicas) + 1)
    out += pack(f">{len(message.replicas)}i", *message.replicas)
    out += varint(len(message.adding_replicas) + 1)
    out += pack(f">{len(message.adding_replicas)}i", *message.adding_replicas)
    out += varint(len(message.removing_replicas) + 1)
    out += pack(f">{len(message.removing_replicas)}i", *message.removing_replicas)
    out += NO_TAGS


def _write_ongoing_topic_reassignment(out: bytearray, message: OngoingTopicReassignment) -> None:
    encoded = message.name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += varint(len(message.partitions) + 1)
    if isinstance(message.partitions, EncodedItems):
        out += message.partitions.content
    else:
        for partitions_item in message.partitions:
            _write_ongoing_partition_reassignment(out, partitions_item)
    out += NO_TAGS


def write_response(
    out: bytearray, message: ListPartitionReassignmentsResponse, version: int
) -> None:
    """Append the message as this version has it."""
    out += _pack_ih(message.throttle_time // MILLISECOND, message.error_code)
    if message.error_message is None:
        out += NULL_COMPACT
    else:
        encoded = message.error_message.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += varint(len(message.topics) + 1)
    for topics_item in message.topics:
        _write_ongoing_topic_reassignment(out, topics_item)
    out += NO_TAGS


def _write_list_partition_reassignments_topics(
    out: bytearray, message: ListPartitionReassignmentsTopics
) -> None:
    encoded = message.name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += varint(len(message.partition_indexes) + 1)
    out += pack(f">{len(message.partition_indexes)}i", *message.partition_indexes)
    out += NO_TAGS


def write_request(out: bytearray, message: ListPartitionReassignmentsRequest, version: int) -> None:
    """Append the message as this version has it."""
    out += _pack_i(message.timeout // MILLISECOND)
    if message.topics is None:
        out += NULL_COMPACT
    else:
        out += varint(len(message.topics) + 1)
        for topics_item in message.topics:
            _write_list_partition_reassignments_topics(out, topics_item)
    out += NO_TAGS


def _read_ongoing_partition_reassignment(
    buffer: bytes, position: int, end: int
) -> tuple[OngoingPartitionReassignment, int]:
    (partition_index,) = _unpack_i(buffer, position)
    position += 4
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("replicas is null or has a negative length")
    if 4 * size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    replicas = unpack_from(f">{size}i", buffer, position)
    position += 4 * size
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("adding_replicas is null or has a negative length")
    if 4 * size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    adding_replicas = unpack_from(f">{size}i", buffer, position)
    position += 4 * size
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("removing_replicas is null or has a negative length")
    if 4 * size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    removing_replicas = unpack_from(f">{size}i", buffer, position)
    position += 4 * size
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return OngoingPartitionReassignment(
        partition_index=partition_index,
        replicas=replicas,
        adding_replicas=adding_replicas,
        removing_replicas=removing_replicas,
    ), position


def _read_ongoing_topic_reassignment(
    buffer: bytes, position: int, end: int
) -> tuple[OngoingTopicReassignment, int]:
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
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("partitions is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    partitions_list: list[OngoingPartitionReassignment] = []
    for _ in range(size):
        partitions_item, position = _read_ongoing_partition_reassignment(buffer, position, end)
        partitions_list.append(partitions_item)
    partitions = tuple(partitions_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return OngoingTopicReassignment(name=name, partitions=partitions), position


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ListPartitionReassignmentsResponse, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    throttle_time, error_code = _unpack_ih(buffer, position)
    position += 6
    error_message: str | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        error_message = buffer[start:position].decode()
    else:
        error_message = None
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
    topics_list: list[OngoingTopicReassignment] = []
    for _ in range(size):
        topics_item, position = _read_ongoing_topic_reassignment(buffer, position, end)
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return ListPartitionReassignmentsResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time),
        error_code=ErrorCode(error_code),
        error_message=error_message,
        topics=topics,
    ), position


def write_ongoing_partition_reassignment(
    out: bytearray, message: OngoingPartitionReassignment, version: int
) -> None:
    """Append one item of `EncodedItems` as this version has it."""
    _write_ongoing_partition_reassignment(out, message)
