"""OffsetDelete messages, versions 0 to 0.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import timedelta
from struct import Struct

from cluster.model.error_codes import ErrorCode
from cluster.model.errors import PeerError
from cluster.protocol.reader import ELEMENTS_MAX, too_many, truncated
from cluster.protocol.writer import MILLISECOND

_pack_h = Struct(">h").pack
_pack_hi = Struct(">hi").pack
_pack_i = Struct(">i").pack
_pack_ih = Struct(">ih").pack
_unpack_h = Struct(">h").unpack_from
_unpack_hi = Struct(">hi").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_ih = Struct(">ih").unpack_from


@dataclass(slots=True, kw_only=True)
class OffsetDeleteRequestPartition:
    """Part of OffsetDelete."""

    partition_index: int


@dataclass(slots=True, kw_only=True)
class OffsetDeleteRequestTopic:
    """Part of OffsetDelete."""

    name: str
    partitions: tuple[OffsetDeleteRequestPartition, ...]


@dataclass(slots=True, kw_only=True)
class OffsetDeleteRequest:
    """OffsetDelete request, versions 0-0."""

    group_id: str
    topics: tuple[OffsetDeleteRequestTopic, ...]


@dataclass(slots=True, kw_only=True)
class OffsetDeleteResponsePartition:
    """Part of OffsetDelete."""

    partition_index: int
    error_code: ErrorCode


@dataclass(slots=True, kw_only=True)
class OffsetDeleteResponseTopic:
    """Part of OffsetDelete."""

    name: str
    partitions: tuple[OffsetDeleteResponsePartition, ...]


@dataclass(slots=True, kw_only=True)
class OffsetDeleteResponse:
    """OffsetDelete response, versions 0-0."""

    error_code: ErrorCode
    throttle_time: timedelta
    topics: tuple[OffsetDeleteResponseTopic, ...]


def _read_offset_delete_request_partition(
    buffer: bytes, position: int, end: int
) -> tuple[OffsetDeleteRequestPartition, int]:
    (partition_index,) = _unpack_i(buffer, position)
    position += 4
    return OffsetDeleteRequestPartition(partition_index=partition_index), position


def _read_offset_delete_request_topic(
    buffer: bytes, position: int, end: int
) -> tuple[OffsetDeleteRequestTopic, int]:
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
    partitions_list: list[OffsetDeleteRequestPartition] = []
    for _ in range(size):
        partitions_item, position = _read_offset_delete_request_partition(buffer, position, end)
        partitions_list.append(partitions_item)
    partitions = tuple(partitions_list)
    return OffsetDeleteRequestTopic(name=name, partitions=partitions), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[OffsetDeleteRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("group_id is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    group_id = buffer[start:position].decode()
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("topics is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    topics_list: list[OffsetDeleteRequestTopic] = []
    for _ in range(size):
        topics_item, position = _read_offset_delete_request_topic(buffer, position, end)
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    return OffsetDeleteRequest(group_id=group_id, topics=topics), position


def _write_offset_delete_response_partition(
    out: bytearray, message: OffsetDeleteResponsePartition
) -> None:
    out += _pack_ih(message.partition_index, message.error_code)


def _write_offset_delete_response_topic(out: bytearray, message: OffsetDeleteResponseTopic) -> None:
    encoded = message.name.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_i(len(message.partitions))
    for partitions_item in message.partitions:
        _write_offset_delete_response_partition(out, partitions_item)


def write_response(out: bytearray, message: OffsetDeleteResponse, version: int) -> None:
    """Append the message as this version has it."""
    out += _pack_hi(message.error_code, message.throttle_time // MILLISECOND)
    out += _pack_i(len(message.topics))
    for topics_item in message.topics:
        _write_offset_delete_response_topic(out, topics_item)


def _write_offset_delete_request_partition(
    out: bytearray, message: OffsetDeleteRequestPartition
) -> None:
    out += _pack_i(message.partition_index)


def _write_offset_delete_request_topic(out: bytearray, message: OffsetDeleteRequestTopic) -> None:
    encoded = message.name.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_i(len(message.partitions))
    for partitions_item in message.partitions:
        _write_offset_delete_request_partition(out, partitions_item)


def write_request(out: bytearray, message: OffsetDeleteRequest, version: int) -> None:
    """Append the message as this version has it."""
    encoded = message.group_id.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_i(len(message.topics))
    for topics_item in message.topics:
        _write_offset_delete_request_topic(out, topics_item)


def _read_offset_delete_response_partition(
    buffer: bytes, position: int, end: int
) -> tuple[OffsetDeleteResponsePartition, int]:
    partition_index, error_code = _unpack_ih(buffer, position)
    position += 6
    return OffsetDeleteResponsePartition(
        partition_index=partition_index, error_code=ErrorCode(error_code)
    ), position


def _read_offset_delete_response_topic(
    buffer: bytes, position: int, end: int
) -> tuple[OffsetDeleteResponseTopic, int]:
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
    partitions_list: list[OffsetDeleteResponsePartition] = []
    for _ in range(size):
        partitions_item, position = _read_offset_delete_response_partition(buffer, position, end)
        partitions_list.append(partitions_item)
    partitions = tuple(partitions_list)
    return OffsetDeleteResponseTopic(name=name, partitions=partitions), position


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[OffsetDeleteResponse, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    error_code, throttle_time = _unpack_hi(buffer, position)
    position += 6
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("topics is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    topics_list: list[OffsetDeleteResponseTopic] = []
    for _ in range(size):
        topics_item, position = _read_offset_delete_response_topic(buffer, position, end)
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    return OffsetDeleteResponse(
        error_code=ErrorCode(error_code),
        throttle_time=timedelta(0, 0, 0, throttle_time),
        topics=topics,
    ), position
