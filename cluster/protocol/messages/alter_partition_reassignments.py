"""AlterPartitionReassignments messages, versions 0 to 1.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import timedelta
from struct import Struct, pack, unpack_from

from cluster.model.error_codes import ErrorCode
from cluster.model.errors import PeerError
from cluster.protocol.reader import ELEMENTS_MAX, read_length, skip_tags, too_many, truncated
from cluster.protocol.writer import MILLISECOND, NO_TAGS, NULL_COMPACT, varint

_pack_i = Struct(">i").pack
_pack_ih = Struct(">ih").pack
_pack_io = Struct(">i?").pack
_pack_ioh = Struct(">i?h").pack
_unpack_i = Struct(">i").unpack_from
_unpack_ih = Struct(">ih").unpack_from
_unpack_io = Struct(">i?").unpack_from
_unpack_ioh = Struct(">i?h").unpack_from


@dataclass(slots=True, kw_only=True)
class ReassignablePartition:
    """Part of AlterPartitionReassignments."""

    partition_index: int
    replicas: tuple[int, ...] | None = None


@dataclass(slots=True, kw_only=True)
class ReassignableTopic:
    """Part of AlterPartitionReassignments."""

    name: str
    partitions: tuple[ReassignablePartition, ...]


@dataclass(slots=True, kw_only=True)
class AlterPartitionReassignmentsRequest:
    """AlterPartitionReassignments request, versions 0-1."""

    timeout: timedelta = timedelta(milliseconds=60000)
    allow_replication_factor_change: bool = True
    topics: tuple[ReassignableTopic, ...]


@dataclass(slots=True, kw_only=True)
class ReassignablePartitionResponse:
    """Part of AlterPartitionReassignments."""

    partition_index: int
    error_code: ErrorCode
    error_message: str | None


@dataclass(slots=True, kw_only=True)
class ReassignableTopicResponse:
    """Part of AlterPartitionReassignments."""

    name: str
    partitions: tuple[ReassignablePartitionResponse, ...]


@dataclass(slots=True, kw_only=True)
class AlterPartitionReassignmentsResponse:
    """AlterPartitionReassignments response, versions 0-1."""

    throttle_time: timedelta
    allow_replication_factor_change: bool = True
    error_code: ErrorCode
    error_message: str | None
    responses: tuple[ReassignableTopicResponse, ...]


def _read_reassignable_partition(
    buffer: bytes, position: int, end: int
) -> tuple[ReassignablePartition, int]:
    (partition_index,) = _unpack_i(buffer, position)
    position += 4
    replicas: tuple[int, ...] | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        if 4 * size > end - position:
            raise truncated()
        if size > ELEMENTS_MAX:
            raise too_many(size)
        replicas = unpack_from(f">{size}i", buffer, position)
        position += 4 * size
    else:
        replicas = None
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return ReassignablePartition(partition_index=partition_index, replicas=replicas), position


def _read_reassignable_topic(
    buffer: bytes, position: int, end: int
) -> tuple[ReassignableTopic, int]:
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
    partitions_list: list[ReassignablePartition] = []
    for _ in range(size):
        partitions_item, position = _read_reassignable_partition(buffer, position, end)
        partitions_list.append(partitions_item)
    partitions = tuple(partitions_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return ReassignableTopic(name=name, partitions=partitions), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[AlterPartitionReassignmentsRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    allow_replication_factor_change: bool = True
    if version >= 1:
        timeout, allow_replication_factor_change = _unpack_io(buffer, position)
        position += 5
    else:
        (timeout,) = _unpack_i(buffer, position)
        position += 4
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
    topics_list: list[ReassignableTopic] = []
    for _ in range(size):
        topics_item, position = _read_reassignable_topic(buffer, position, end)
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return AlterPartitionReassignmentsRequest(
        timeout=timedelta(0, 0, 0, timeout),
        allow_replication_factor_change=allow_replication_factor_change,
        topics=topics,
    ), position


def _write_reassignable_partition_response(
    out: bytearray, message: ReassignablePartitionResponse
) -> None:
    out += _pack_ih(message.partition_index, message.error_code)
    if message.error_message is None:
        out += NULL_COMPACT
    else:
        encoded = message.error_message.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += NO_TAGS


def _write_reassignable_topic_response(out: bytearray, message: ReassignableTopicResponse) -> None:
    encoded = message.name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += varint(len(message.partitions) + 1)
    for partitions_item in message.partitions:
        _write_reassignable_partition_response(out, partitions_item)
    out += NO_TAGS


def write_response(
    out: bytearray, message: AlterPartitionReassignmentsResponse, version: int
) -> None:
    """Append the message as this version has it."""
    if version >= 1:
        out += _pack_ioh(
            message.throttle_time // MILLISECOND,
            message.allow_replication_factor_change,
            message.error_code,
        )
    else:
        out += _pack_ih(message.throttle_time // MILLISECOND, message.error_code)
    if message.error_message is None:
        out += NULL_COMPACT
    else:
        encoded = message.error_message.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += varint(len(message.responses) + 1)
    for responses_item in message.responses:
        _write_reassignable_topic_response(out, responses_item)
    out += NO_TAGS


def _write_reassignable_partition(out: bytearray, message: ReassignablePartition) -> None:
    out += _pack_i(message.partition_index)
    if message.replicas is None:
        out += NULL_COMPACT
    else:
        out += varint(len(message.replicas) + 1)
        out += pack(f">{len(message.replicas)}i", *message.replicas)
    out += NO_TAGS


def _write_reassignable_topic(out: bytearray, message: ReassignableTopic) -> None:
    encoded = message.name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += varint(len(message.partitions) + 1)
    for partitions_item in message.partitions:
        _write_reassignable_partition(out, partitions_item)
    out += NO_TAGS


def write_request(
    out: bytearray, message: AlterPartitionReassignmentsRequest, version: int
) -> None:
    """Append the message as this version has it."""
    if version >= 1:
        out += _pack_io(message.timeout // MILLISECOND, message.allow_replication_factor_change)
    else:
        out += _pack_i(message.timeout // MILLISECOND)
    out += varint(len(message.topics) + 1)
    for topics_item in message.topics:
        _write_reassignable_topic(out, topics_item)
    out += NO_TAGS


def _read_reassignable_partition_response(
    buffer: bytes, position: int, end: int
) -> tuple[ReassignablePartitionResponse, int]:
    partition_index, error_code = _unpack_ih(buffer, position)
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
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return ReassignablePartitionResponse(
        partition_index=partition_index,
        error_code=ErrorCode(error_code),
        error_message=error_message,
    ), position


def _read_reassignable_topic_response(
    buffer: bytes, position: int, end: int
) -> tuple[ReassignableTopicResponse, int]:
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
    partitions_list: list[ReassignablePartitionResponse] = []
    for _ in range(size):
        partitions_item, position = _read_reassignable_partition_response(buffer, position, end)
        partitions_list.append(partitions_item)
    partitions = tuple(partitions_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return ReassignableTopicResponse(name=name, partitions=partitions), position


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[AlterPartitionReassignmentsResponse, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    allow_replication_factor_change: bool = True
    if version >= 1:
        throttle_time, allow_replication_factor_change, error_code = _unpack_ioh(buffer, position)
        position += 7
    else:
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
        raise PeerError("responses is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    responses_list: list[ReassignableTopicResponse] = []
    for _ in range(size):
        responses_item, position = _read_reassignable_topic_response(buffer, position, end)
        responses_list.append(responses_item)
    responses = tuple(responses_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return AlterPartitionReassignmentsResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time),
        allow_replication_factor_change=allow_replication_factor_change,
        error_code=ErrorCode(error_code),
        error_message=error_message,
        responses=responses,
    ), position
