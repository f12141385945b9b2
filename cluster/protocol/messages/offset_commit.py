"""OffsetCommit messages, versions 2 to 10.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import timedelta
from struct import Struct
from uuid import UUID

from cluster.model.error_codes import ErrorCode
from cluster.model.errors import PeerError
from cluster.protocol.reader import (
    ELEMENTS_MAX,
    NO_TIME,
    read_length,
    skip_tags,
    too_many,
    truncated,
    uuid_of,
)
from cluster.protocol.writer import (
    MILLISECOND,
    NO_TAGS,
    NULL_COMPACT,
    NULL_STRING,
    uuid_bytes,
    varint,
)

_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_ih = Struct(">ih").pack
_pack_iq = Struct(">iq").pack
_pack_iqi = Struct(">iqi").pack
_pack_q = Struct(">q").pack
_pack_s = Struct(">16s").pack
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_ih = Struct(">ih").unpack_from
_unpack_iq = Struct(">iq").unpack_from
_unpack_iqi = Struct(">iqi").unpack_from
_unpack_q = Struct(">q").unpack_from
_unpack_s = Struct(">16s").unpack_from


@dataclass(slots=True, kw_only=True)
class OffsetCommitRequestPartition:
    """Part of OffsetCommit."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int = -1
    committed_metadata: str | None


@dataclass(slots=True, kw_only=True)
class OffsetCommitRequestTopic:
    """Part of OffsetCommit."""

    name: str = ""
    topic_id: UUID | None
    partitions: tuple[OffsetCommitRequestPartition, ...]


@dataclass(slots=True, kw_only=True)
class OffsetCommitRequest:
    """OffsetCommit request, versions 2-10."""

    group_id: str
    generation_id_or_member_epoch: int = -1
    member_id: str
    retention_time: timedelta = timedelta(milliseconds=-1)
    group_instance_id: str | None = None
    topics: tuple[OffsetCommitRequestTopic, ...]


@dataclass(slots=True, kw_only=True)
class OffsetCommitResponsePartition:
    """Part of OffsetCommit."""

    partition_index: int
    error_code: ErrorCode


@dataclass(slots=True, kw_only=True)
class OffsetCommitResponseTopic:
    """Part of OffsetCommit."""

    name: str = ""
    topic_id: UUID | None
    partitions: tuple[OffsetCommitResponsePartition, ...]


@dataclass(slots=True, kw_only=True)
class OffsetCommitResponse:
    """OffsetCommit response, versions 2-10."""

    throttle_time: timedelta
    topics: tuple[OffsetCommitResponseTopic, ...]


def _read_offset_commit_request_partition(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[OffsetCommitRequestPartition, int]:
    committed_leader_epoch: int = -1
    if version >= 6:
        partition_index, committed_offset, committed_leader_epoch = _unpack_iqi(buffer, position)
        position += 16
    else:
        partition_index, committed_offset = _unpack_iq(buffer, position)
        position += 12
    committed_metadata: str | None
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        committed_metadata = buffer[start:position].decode()
    elif size == -1:
        committed_metadata = None
    else:
        raise PeerError("committed_metadata is null or has a negative length")
    return OffsetCommitRequestPartition(
        partition_index=partition_index,
        committed_offset=committed_offset,
        committed_leader_epoch=committed_leader_epoch,
        committed_metadata=committed_metadata,
    ), position


def _read_offset_commit_request_topic(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[OffsetCommitRequestTopic, int]:
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
    partitions_list: list[OffsetCommitRequestPartition] = []
    for _ in range(size):
        partitions_item, position = _read_offset_commit_request_partition(
            buffer, position, end, version
        )
        partitions_list.append(partitions_item)
    partitions = tuple(partitions_list)
    return OffsetCommitRequestTopic(name=name, topic_id=None, partitions=partitions), position


def _read_request_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[OffsetCommitRequest, int]:
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("group_id is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    group_id = buffer[start:position].decode()
    (generation_id_or_member_epoch,) = _unpack_i(buffer, position)
    position += 4
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("member_id is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    member_id = buffer[start:position].decode()
    retention_time: timedelta = timedelta(milliseconds=-1)
    if version <= 4:
        (retention_time_raw,) = _unpack_q(buffer, position)
        position += 8
        retention_time = timedelta(0, 0, 0, retention_time_raw)
    group_instance_id: str | None = None
    if version >= 7:
        (size,) = _unpack_h(buffer, position)
        position += 2
        if size >= 0:
            start = position
            position += size
            if position > end:
                raise truncated()
            group_instance_id = buffer[start:position].decode()
        elif size == -1:
            group_instance_id = None
        else:
            raise PeerError("group_instance_id is null or has a negative length")
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("topics is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    topics_list: list[OffsetCommitRequestTopic] = []
    for _ in range(size):
        topics_item, position = _read_offset_commit_request_topic(buffer, position, end, version)
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation_id_or_member_epoch,
        member_id=member_id,
        retention_time=retention_time,
        group_instance_id=group_instance_id,
        topics=topics,
    ), position


def _read_offset_commit_request_partition_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[OffsetCommitRequestPartition, int]:
    partition_index, committed_offset, committed_leader_epoch = _unpack_iqi(buffer, position)
    position += 16
    committed_metadata: str | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        committed_metadata = buffer[start:position].decode()
    else:
        committed_metadata = None
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return OffsetCommitRequestPartition(
        partition_index=partition_index,
        committed_offset=committed_offset,
        committed_leader_epoch=committed_leader_epoch,
        committed_metadata=committed_metadata,
    ), position


def _read_offset_commit_request_topic_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[OffsetCommitRequestTopic, int]:
    name: str = ""
    if version <= 9:
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
    topic_id: UUID | None = None
    if version >= 10:
        (topic_id_raw,) = _unpack_s(buffer, position)
        position += 16
        topic_id = uuid_of(topic_id_raw)
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
    partitions_list: list[OffsetCommitRequestPartition] = []
    for _ in range(size):
        partitions_item, position = _read_offset_commit_request_partition_flexible(
            buffer, position, end
        )
        partitions_list.append(partitions_item)
    partitions = tuple(partitions_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=partitions), position


def _read_request_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[OffsetCommitRequest, int]:
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("group_id is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    group_id = buffer[start:position].decode()
    (generation_id_or_member_epoch,) = _unpack_i(buffer, position)
    position += 4
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("member_id is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    member_id = buffer[start:position].decode()
    group_instance_id: str | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        group_instance_id = buffer[start:position].decode()
    else:
        group_instance_id = None
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
    topics_list: list[OffsetCommitRequestTopic] = []
    for _ in range(size):
        topics_item, position = _read_offset_commit_request_topic_flexible(
            buffer, position, end, version
        )
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation_id_or_member_epoch,
        member_id=member_id,
        group_instance_id=group_instance_id,
        topics=topics,
    ), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[OffsetCommitRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 8:
        return _read_request_flexible(buffer, position, end, version)
    return _read_request_legacy(buffer, position, end, version)


def _write_offset_commit_response_partition(
    out: bytearray, message: OffsetCommitResponsePartition
) -> None:
    out += _pack_ih(message.partition_index, message.error_code)


def _write_offset_commit_response_topic(out: bytearray, message: OffsetCommitResponseTopic) -> None:
    encoded = message.name.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_i(len(message.partitions))
    for partitions_item in message.partitions:
        _write_offset_commit_response_partition(out, partitions_item)


def _write_response_legacy(out: bytearray, message: OffsetCommitResponse, version: int) -> None:
    if version >= 3:
        out += _pack_i(message.throttle_time // MILLISECOND)
    out += _pack_i(len(message.topics))
    for topics_item in message.topics:
        _write_offset_commit_response_topic(out, topics_item)


def _write_offset_commit_response_partition_flexible(
    out: bytearray, message: OffsetCommitResponsePartition
) -> None:
    out += _pack_ih(message.partition_index, message.error_code)
    out += NO_TAGS


def _write_offset_commit_response_topic_flexible(
    out: bytearray, message: OffsetCommitResponseTopic, version: int
) -> None:
    if version <= 9:
        encoded = message.name.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    if version >= 10:
        out += _pack_s(uuid_bytes(message.topic_id))
    out += varint(len(message.partitions) + 1)
    for partitions_item in message.partitions:
        _write_offset_commit_response_partition_flexible(out, partitions_item)
    out += NO_TAGS


def _write_response_flexible(out: bytearray, message: OffsetCommitResponse, version: int) -> None:
    out += _pack_i(message.throttle_time // MILLISECOND)
    out += varint(len(message.topics) + 1)
    for topics_item in message.topics:
        _write_offset_commit_response_topic_flexible(out, topics_item, version)
    out += NO_TAGS


def write_response(out: bytearray, message: OffsetCommitResponse, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 8:
        _write_response_flexible(out, message, version)
    else:
        _write_response_legacy(out, message, version)


def _write_offset_commit_request_partition(
    out: bytearray, message: OffsetCommitRequestPartition, version: int
) -> None:
    if version >= 6:
        out += _pack_iqi(
            message.partition_index, message.committed_offset, message.committed_leader_epoch
        )
    else:
        out += _pack_iq(message.partition_index, message.committed_offset)
    if message.committed_metadata is None:
        out += NULL_STRING
    else:
        encoded = message.committed_metadata.encode()
        out += _pack_h(len(encoded))
        out += encoded


def _write_offset_commit_request_topic(
    out: bytearray, message: OffsetCommitRequestTopic, version: int
) -> None:
    encoded = message.name.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_i(len(message.partitions))
    for partitions_item in message.partitions:
        _write_offset_commit_request_partition(out, partitions_item, version)


def _write_request_legacy(out: bytearray, message: OffsetCommitRequest, version: int) -> None:
    encoded = message.group_id.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_i(message.generation_id_or_member_epoch)
    encoded = message.member_id.encode()
    out += _pack_h(len(encoded))
    out += encoded
    if version <= 4:
        out += _pack_q(message.retention_time // MILLISECOND)
    if version >= 7:
        if message.group_instance_id is None:
            out += NULL_STRING
        else:
            encoded = message.group_instance_id.encode()
            out += _pack_h(len(encoded))
            out += encoded
    out += _pack_i(len(message.topics))
    for topics_item in message.topics:
        _write_offset_commit_request_topic(out, topics_item, version)


def _write_offset_commit_request_partition_flexible(
    out: bytearray, message: OffsetCommitRequestPartition
) -> None:
    out += _pack_iqi(
        message.partition_index, message.committed_offset, message.committed_leader_epoch
    )
    if message.committed_metadata is None:
        out += NULL_COMPACT
    else:
        encoded = message.committed_metadata.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += NO_TAGS


def _write_offset_commit_request_topic_flexible(
    out: bytearray, message: OffsetCommitRequestTopic, version: int
) -> None:
    if version <= 9:
        encoded = message.name.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    if version >= 10:
        out += _pack_s(uuid_bytes(message.topic_id))
    out += varint(len(message.partitions) + 1)
    for partitions_item in message.partitions:
        _write_offset_commit_request_partition_flexible(out, partitions_item)
    out += NO_TAGS


def _write_request_flexible(out: bytearray, message: OffsetCommitRequest, version: int) -> None:
    encoded = message.group_id.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += _pack_i(message.generation_id_or_member_epoch)
    encoded = message.member_id.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    if message.group_instance_id is None:
        out += NULL_COMPACT
    else:
        encoded = message.group_instance_id.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += varint(len(message.topics) + 1)
    for topics_item in message.topics:
        _write_offset_commit_request_topic_flexible(out, topics_item, version)
    out += NO_TAGS


def write_request(out: bytearray, message: OffsetCommitRequest, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 8:
        _write_request_flexible(out, message, version)
    else:
        _write_request_legacy(out, message, version)


def _read_offset_commit_response_partition(
    buffer: bytes, position: int, end: int
) -> tuple[OffsetCommitResponsePartition, int]:
    partition_index, error_code = _unpack_ih(buffer, position)
    position += 6
    return OffsetCommitResponsePartition(
        partition_index=partition_index, error_code=ErrorCode(error_code)
    ), position


def _read_offset_commit_response_topic(
    buffer: bytes, position: int, end: int
) -> tuple[OffsetCommitResponseTopic, int]:
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
    partitions_list: list[OffsetCommitResponsePartition] = []
    for _ in range(size):
        partitions_item, position = _read_offset_commit_response_partition(buffer, position, end)
        partitions_list.append(partitions_item)
    partitions = tuple(partitions_list)
    return OffsetCommitResponseTopic(name=name, topic_id=None, partitions=partitions), position


def _read_response_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[OffsetCommitResponse, int]:
    throttle_time: timedelta = NO_TIME
    if version >= 3:
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
    topics_list: list[OffsetCommitResponseTopic] = []
    for _ in range(size):
        topics_item, position = _read_offset_commit_response_topic(buffer, position, end)
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    return OffsetCommitResponse(throttle_time=throttle_time, topics=topics), position


def _read_offset_commit_response_partition_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[OffsetCommitResponsePartition, int]:
    partition_index, error_code = _unpack_ih(buffer, position)
    position += 6
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return OffsetCommitResponsePartition(
        partition_index=partition_index, error_code=ErrorCode(error_code)
    ), position


def _read_offset_commit_response_topic_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[OffsetCommitResponseTopic, int]:
    name: str = ""
    if version <= 9:
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
    topic_id: UUID | None = None
    if version >= 10:
        (topic_id_raw,) = _unpack_s(buffer, position)
        position += 16
        topic_id = uuid_of(topic_id_raw)
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
    partitions_list: list[OffsetCommitResponsePartition] = []
    for _ in range(size):
        partitions_item, position = _read_offset_commit_response_partition_flexible(
            buffer, position, end
        )
        partitions_list.append(partitions_item)
    partitions = tuple(partitions_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return OffsetCommitResponseTopic(name=name, topic_id=topic_id, partitions=partitions), position


def _read_response_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[OffsetCommitResponse, int]:
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
    topics_list: list[OffsetCommitResponseTopic] = []
    for _ in range(size):
        topics_item, position = _read_offset_commit_response_topic_flexible(
            buffer, position, end, version
        )
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return OffsetCommitResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time), topics=topics
    ), position


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[OffsetCommitResponse, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 8:
        return _read_response_flexible(buffer, position, end, version)
    return _read_response_legacy(buffer, position, end, version)
