"""OffsetForLeaderEpoch messages, versions 2 to 4.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import timedelta
from struct import Struct

from cluster.model.error_codes import ErrorCode
from cluster.model.errors import PeerError
from cluster.protocol.reader import ELEMENTS_MAX, read_length, skip_tags, too_many, truncated
from cluster.protocol.writer import MILLISECOND, NO_TAGS, varint

_pack_h = Struct(">h").pack
_pack_hiiq = Struct(">hiiq").pack
_pack_i = Struct(">i").pack
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_iii = Struct(">iii").unpack_from


@dataclass(slots=True, kw_only=True)
class OffsetForLeaderPartition:
    """Part of OffsetForLeaderEpoch."""

    partition: int
    current_leader_epoch: int = -1
    leader_epoch: int


@dataclass(slots=True, kw_only=True)
class OffsetForLeaderTopic:
    """Part of OffsetForLeaderEpoch."""

    topic: str
    partitions: tuple[OffsetForLeaderPartition, ...]


@dataclass(slots=True, kw_only=True)
class OffsetForLeaderEpochRequest:
    """OffsetForLeaderEpoch request, versions 2-4."""

    replica_id: int = -2
    topics: tuple[OffsetForLeaderTopic, ...]


@dataclass(slots=True, kw_only=True)
class EpochEndOffset:
    """Part of OffsetForLeaderEpoch."""

    error_code: ErrorCode
    partition: int
    leader_epoch: int = -1
    end_offset: int = -1


@dataclass(slots=True, kw_only=True)
class OffsetForLeaderTopicResult:
    """Part of OffsetForLeaderEpoch."""

    topic: str
    partitions: tuple[EpochEndOffset, ...]


@dataclass(slots=True, kw_only=True)
class OffsetForLeaderEpochResponse:
    """OffsetForLeaderEpoch response, versions 2-4."""

    throttle_time: timedelta
    topics: tuple[OffsetForLeaderTopicResult, ...]


def _read_offset_for_leader_partition(
    buffer: bytes, position: int, end: int
) -> tuple[OffsetForLeaderPartition, int]:
    partition, current_leader_epoch, leader_epoch = _unpack_iii(buffer, position)
    position += 12
    return OffsetForLeaderPartition(
        partition=partition, current_leader_epoch=current_leader_epoch, leader_epoch=leader_epoch
    ), position


def _read_offset_for_leader_topic(
    buffer: bytes, position: int, end: int
) -> tuple[OffsetForLeaderTopic, int]:
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("topic is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    topic = buffer[start:position].decode()
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("partitions is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    partitions_list: list[OffsetForLeaderPartition] = []
    for _ in range(size):
        partitions_item, position = _read_offset_for_leader_partition(buffer, position, end)
        partitions_list.append(partitions_item)
    partitions = tuple(partitions_list)
    return OffsetForLeaderTopic(topic=topic, partitions=partitions), position


def _read_request_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[OffsetForLeaderEpochRequest, int]:
    replica_id: int = -2
    if version >= 3:
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
    topics_list: list[OffsetForLeaderTopic] = []
    for _ in range(size):
        topics_item, position = _read_offset_for_leader_topic(buffer, position, end)
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    return OffsetForLeaderEpochRequest(replica_id=replica_id, topics=topics), position


def _read_offset_for_leader_partition_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[OffsetForLeaderPartition, int]:
    partition, current_leader_epoch, leader_epoch = _unpack_iii(buffer, position)
    position += 12
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return OffsetForLeaderPartition(
        partition=partition, current_leader_epoch=current_leader_epoch, leader_epoch=leader_epoch
    ), position


def _read_offset_for_leader_topic_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[OffsetForLeaderTopic, int]:
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("topic is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    topic = buffer[start:position].decode()
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
    partitions_list: list[OffsetForLeaderPartition] = []
    for _ in range(size):
        partitions_item, position = _read_offset_for_leader_partition_flexible(
            buffer, position, end
        )
        partitions_list.append(partitions_item)
    partitions = tuple(partitions_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return OffsetForLeaderTopic(topic=topic, partitions=partitions), position


def _read_request_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[OffsetForLeaderEpochRequest, int]:
    (replica_id,) = _unpack_i(buffer, position)
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
    topics_list: list[OffsetForLeaderTopic] = []
    for _ in range(size):
        topics_item, position = _read_offset_for_leader_topic_flexible(buffer, position, end)
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return OffsetForLeaderEpochRequest(replica_id=replica_id, topics=topics), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[OffsetForLeaderEpochRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 4:
        return _read_request_flexible(buffer, position, end, version)
    return _read_request_legacy(buffer, position, end, version)


def _write_epoch_end_offset(out: bytearray, message: EpochEndOffset) -> None:
    out += _pack_hiiq(
        message.error_code, message.partition, message.leader_epoch, message.end_offset
    )


def _write_offset_for_leader_topic_result(
    out: bytearray, message: OffsetForLeaderTopicResult
) -> None:
    encoded = message.topic.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_i(len(message.partitions))
    for partitions_item in message.partitions:
        _write_epoch_end_offset(out, partitions_item)


def _write_response_legacy(
    out: bytearray, message: OffsetForLeaderEpochResponse, version: int
) -> None:
    out += _pack_i(message.throttle_time // MILLISECOND)
    out += _pack_i(len(message.topics))
    for topics_item in message.topics:
        _write_offset_for_leader_topic_result(out, topics_item)


def _write_epoch_end_offset_flexible(out: bytearray, message: EpochEndOffset) -> None:
    out += _pack_hiiq(
        message.error_code, message.partition, message.leader_epoch, message.end_offset
    )
    out += NO_TAGS


def _write_offset_for_leader_topic_result_flexible(
    out: bytearray, message: OffsetForLeaderTopicResult
) -> None:
    encoded = message.topic.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += varint(len(message.partitions) + 1)
    for partitions_item in message.partitions:
        _write_epoch_end_offset_flexible(out, partitions_item)
    out += NO_TAGS


def _write_response_flexible(
    out: bytearray, message: OffsetForLeaderEpochResponse, version: int
) -> None:
    out += _pack_i(message.throttle_time // MILLISECOND)
    out += varint(len(message.topics) + 1)
    for topics_item in message.topics:
        _write_offset_for_leader_topic_result_flexible(out, topics_item)
    out += NO_TAGS


def write_response(out: bytearray, message: OffsetForLeaderEpochResponse, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 4:
        _write_response_flexible(out, message, version)
    else:
        _write_response_legacy(out, message, version)
