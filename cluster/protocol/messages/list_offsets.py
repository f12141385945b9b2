"""ListOffsets messages, versions 1 to 10.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import timedelta
from struct import Struct

from cluster.model.error_codes import ErrorCode
from cluster.model.errors import PeerError
from cluster.protocol.reader import (
    ELEMENTS_MAX,
    NO_TIME,
    read_length,
    skip_tags,
    too_many,
    truncated,
)
from cluster.protocol.writer import MILLISECOND, NO_TAGS, varint

_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_ib = Struct(">ib").pack
_pack_ihqq = Struct(">ihqq").pack
_pack_ihqqi = Struct(">ihqqi").pack
_pack_iiq = Struct(">iiq").pack
_pack_iq = Struct(">iq").pack
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_ib = Struct(">ib").unpack_from
_unpack_ihqq = Struct(">ihqq").unpack_from
_unpack_ihqqi = Struct(">ihqqi").unpack_from
_unpack_iiq = Struct(">iiq").unpack_from
_unpack_iq = Struct(">iq").unpack_from


@dataclass(slots=True, kw_only=True)
class ListOffsetsPartition:
    """Part of ListOffsets."""

    partition_index: int
    current_leader_epoch: int = -1
    timestamp: int


@dataclass(slots=True, kw_only=True)
class ListOffsetsTopic:
    """Part of ListOffsets."""

    name: str
    partitions: tuple[ListOffsetsPartition, ...]


@dataclass(slots=True, kw_only=True)
class ListOffsetsRequest:
    """ListOffsets request, versions 1-10."""

    replica_id: int
    isolation_level: int
    topics: tuple[ListOffsetsTopic, ...]
    timeout: timedelta


@dataclass(slots=True, kw_only=True)
class ListOffsetsPartitionResponse:
    """Part of ListOffsets."""

    partition_index: int
    error_code: ErrorCode
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1


@dataclass(slots=True, kw_only=True)
class ListOffsetsTopicResponse:
    """Part of ListOffsets."""

    name: str
    partitions: tuple[ListOffsetsPartitionResponse, ...]


@dataclass(slots=True, kw_only=True)
class ListOffsetsResponse:
    """ListOffsets response, versions 1-10."""

    throttle_time: timedelta
    topics: tuple[ListOffsetsTopicResponse, ...]


def _read_list_offsets_partition(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ListOffsetsPartition, int]:
    current_leader_epoch: int = -1
    if version >= 4:
        partition_index, current_leader_epoch, timestamp = _unpack_iiq(buffer, position)
        position += 16
    else:
        partition_index, timestamp = _unpack_iq(buffer, position)
        position += 12
    return ListOffsetsPartition(
        partition_index=partition_index,
        current_leader_epoch=current_leader_epoch,
        timestamp=timestamp,
    ), position


def _read_list_offsets_topic(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ListOffsetsTopic, int]:
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("name is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    name = buffer[start:position].decode()
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("partitions is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    partitions_list: list[ListOffsetsPartition] = []
    for _ in range(size):
        partitions_item, position = _read_list_offsets_partition(buffer, position, end, version)
        partitions_list.append(partitions_item)
    partitions = tuple(partitions_list)
    return ListOffsetsTopic(name=name, partitions=partitions), position


def _read_request_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ListOffsetsRequest, int]:
    isolation_level: int = 0
    if version >= 2:
        replica_id, isolation_level = _unpack_ib(buffer, position)
        position += 5
    else:
        (replica_id,) = _unpack_i(buffer, position)
        position += 4
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("topics is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    topics_list: list[ListOffsetsTopic] = []
    for _ in range(size):
        topics_item, position = _read_list_offsets_topic(buffer, position, end, version)
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    return ListOffsetsRequest(
        replica_id=replica_id, isolation_level=isolation_level, topics=topics, timeout=NO_TIME
    ), position


def _read_list_offsets_partition_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[ListOffsetsPartition, int]:
    partition_index, current_leader_epoch, timestamp = _unpack_iiq(buffer, position)
    position += 16
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return ListOffsetsPartition(
        partition_index=partition_index,
        current_leader_epoch=current_leader_epoch,
        timestamp=timestamp,
    ), position


def _read_list_offsets_topic_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[ListOffsetsTopic, int]:
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
    partitions_list: list[ListOffsetsPartition] = []
    for _ in range(size):
        partitions_item, position = _read_list_offsets_partition_flexible(buffer, position, end)
        partitions_list.append(partitions_item)
    partitions = tuple(partitions_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return ListOffsetsTopic(name=name, partitions=partitions), position


def _read_request_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ListOffsetsRequest, int]:
    replica_id, isolation_level = _unpack_ib(buffer, position)
    position += 5
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
    topics_list: list[ListOffsetsTopic] = []
    for _ in range(size):
        topics_item, position = _read_list_offsets_topic_flexible(buffer, position, end)
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    timeout: timedelta = NO_TIME
    if version >= 10:
        (timeout_raw,) = _unpack_i(buffer, position)
        position += 4
        timeout = timedelta(0, 0, 0, timeout_raw)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return ListOffsetsRequest(
        replica_id=replica_id, isolation_level=isolation_level, topics=topics, timeout=timeout
    ), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ListOffsetsRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 6:
        return _read_request_flexible(buffer, position, end, version)
    return _read_request_legacy(buffer, position, end, version)


def _write_list_offsets_partition_response(
    out: bytearray, message: ListOffsetsPartitionResponse, version: int
) -> None:
    if version >= 4:
        out += _pack_ihqqi(
            message.partition_index,
            message.error_code,
            message.timestamp,
            message.offset,
            message.leader_epoch,
        )
    else:
        out += _pack_ihqq(
            message.partition_index, message.error_code, message.timestamp, message.offset
        )


def _write_list_offsets_topic_response(
    out: bytearray, message: ListOffsetsTopicResponse, version: int
) -> None:
    encoded = message.name.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_i(len(message.partitions))
    for partitions_item in message.partitions:
        _write_list_offsets_partition_response(out, partitions_item, version)


def _write_response_legacy(out: bytearray, message: ListOffsetsResponse, version: int) -> None:
    if version >= 2:
        out += _pack_i(message.throttle_time // MILLISECOND)
    out += _pack_i(len(message.topics))
    for topics_item in message.topics:
        _write_list_offsets_topic_response(out, topics_item, version)


def _write_list_offsets_partition_response_flexible(
    out: bytearray, message: ListOffsetsPartitionResponse
) -> None:
    out += _pack_ihqqi(
        message.partition_index,
        message.error_code,
        message.timestamp,
        message.offset,
        message.leader_epoch,
    )
    out += NO_TAGS


def _write_list_offsets_topic_response_flexible(
    out: bytearray, message: ListOffsetsTopicResponse
) -> None:
    encoded = message.name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += varint(len(message.partitions) + 1)
    for partitions_item in message.partitions:
        _write_list_offsets_partition_response_flexible(out, partitions_item)
    out += NO_TAGS


def _write_response_flexible(out: bytearray, message: ListOffsetsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time // MILLISECOND)
    out += varint(len(message.topics) + 1)
    for topics_item in message.topics:
        _write_list_offsets_topic_response_flexible(out, topics_item)
    out += NO_TAGS


def write_response(out: bytearray, message: ListOffsetsResponse, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 6:
        _write_response_flexible(out, message, version)
    else:
        _write_response_legacy(out, message, version)


def _write_list_offsets_partition(
    out: bytearray, message: ListOffsetsPartition, version: int
) -> None:
    if version >= 4:
        out += _pack_iiq(message.partition_index, message.current_leader_epoch, message.timestamp)
    else:
        out += _pack_iq(message.partition_index, message.timestamp)


def _write_list_offsets_topic(out: bytearray, message: ListOffsetsTopic, version: int) -> None:
    encoded = message.name.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_i(len(message.partitions))
    for partitions_item in message.partitions:
        _write_list_offsets_partition(out, partitions_item, version)


def _write_request_legacy(out: bytearray, message: ListOffsetsRequest, version: int) -> None:
    if version >= 2:
        out += _pack_ib(message.replica_id, message.isolation_level)
    else:
        out += _pack_i(message.replica_id)
    out += _pack_i(len(message.topics))
    for topics_item in message.topics:
        _write_list_offsets_topic(out, topics_item, version)


def _write_list_offsets_partition_flexible(out: bytearray, message: ListOffsetsPartition) -> None:
    out += _pack_iiq(message.partition_index, message.current_leader_epoch, message.timestamp)
    out += NO_TAGS


def _write_list_offsets_topic_flexible(out: bytearray, message: ListOffsetsTopic) -> None:
    encoded = message.name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += varint(len(message.partitions) + 1)
    for partitions_item in message.partitions:
        _write_list_offsets_partition_flexible(out, partitions_item)
    out += NO_TAGS


def _write_request_flexible(out: bytearray, message: ListOffsetsRequest, version: int) -> None:
    out += _pack_ib(message.replica_id, message.isolation_level)
    out += varint(len(message.topics) + 1)
    for topics_item in message.topics:
        _write_list_offsets_topic_flexible(out, topics_item)
    if version >= 10:
        out += _pack_i(message.timeout // MILLISECOND)
    out += NO_TAGS


def write_request(out: bytearray, message: ListOffsetsRequest, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 6:
        _write_request_flexible(out, message, version)
    else:
        _write_request_legacy(out, message, version)


def _read_list_offsets_partition_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ListOffsetsPartitionResponse, int]:
    leader_epoch: int = -1
    if version >= 4:
        partition_index, error_code, timestamp, offset, leader_epoch = _unpack_ihqqi(
            buffer, position
        )
        position += 26
    else:
        partition_index, error_code, timestamp, offset = _unpack_ihqq(buffer, position)
        position += 22
    return ListOffsetsPartitionResponse(
        partition_index=partition_index,
        error_code=ErrorCode(error_code),
        timestamp=timestamp,
        offset=offset,
        leader_epoch=leader_epoch,
    ), position


def _read_list_offsets_topic_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ListOffsetsTopicResponse, int]:
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("name is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    name = buffer[start:position].decode()
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("partitions is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    partitions_list: list[ListOffsetsPartitionResponse] = []
    for _ in range(size):
        partitions_item, position = _read_list_offsets_partition_response(
            buffer, position, end, version
        )
        partitions_list.append(partitions_item)
    partitions = tuple(partitions_list)
    return ListOffsetsTopicResponse(name=name, partitions=partitions), position


def _read_response_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ListOffsetsResponse, int]:
    throttle_time: timedelta = NO_TIME
    if version >= 2:
        (throttle_time_raw,) = _unpack_i(buffer, position)
        position += 4
        throttle_time = timedelta(0, 0, 0, throttle_time_raw)
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("topics is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    topics_list: list[ListOffsetsTopicResponse] = []
    for _ in range(size):
        topics_item, position = _read_list_offsets_topic_response(buffer, position, end, version)
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    return ListOffsetsResponse(throttle_time=throttle_time, topics=topics), position


def _read_list_offsets_partition_response_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[ListOffsetsPartitionResponse, int]:
    partition_index, error_code, timestamp, offset, leader_epoch = _unpack_ihqqi(buffer, position)
    position += 26
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return ListOffsetsPartitionResponse(
        partition_index=partition_index,
        error_code=ErrorCode(error_code),
        timestamp=timestamp,
        offset=offset,
        leader_epoch=leader_epoch,
    ), position


def _read_list_offsets_topic_response_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[ListOffsetsTopicResponse, int]:
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
    partitions_list: list[ListOffsetsPartitionResponse] = []
    for _ in range(size):
        partitions_item, position = _read_list_offsets_partition_response_flexible(
            buffer, position, end
        )
        partitions_list.append(partitions_item)
    partitions = tuple(partitions_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return ListOffsetsTopicResponse(name=name, partitions=partitions), position


def _read_response_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ListOffsetsResponse, int]:
    (throttle_time,) = _unpack_i(buffer, position)
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
    topics_list: list[ListOffsetsTopicResponse] = []
    for _ in range(size):
        topics_item, position = _read_list_offsets_topic_response_flexible(buffer, position, end)
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return ListOffsetsResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time), topics=topics
    ), position


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ListOffsetsResponse, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 6:
        return _read_response_flexible(buffer, position, end, version)
    return _read_response_legacy(buffer, position, end, version)
