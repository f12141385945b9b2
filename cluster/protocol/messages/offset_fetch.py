"""OffsetFetch messages, versions 1 to 10.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import timedelta
from struct import Struct, pack, unpack_from
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
    EMPTY_ARRAY,
    MILLISECOND,
    NO_TAGS,
    NULL_ARRAY,
    NULL_COMPACT,
    NULL_STRING,
    uuid_bytes,
    varint,
)

_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_iq = Struct(">iq").pack
_pack_iqi = Struct(">iqi").pack
_pack_o = Struct(">?").pack
_pack_s = Struct(">16s").pack
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_iq = Struct(">iq").unpack_from
_unpack_iqi = Struct(">iqi").unpack_from
_unpack_o = Struct(">?").unpack_from
_unpack_s = Struct(">16s").unpack_from


@dataclass(slots=True, kw_only=True)
class OffsetFetchRequestTopic:
    """Part of OffsetFetch."""

    name: str = ""
    partition_indexes: tuple[int, ...] = ()


@dataclass(slots=True, kw_only=True)
class OffsetFetchRequestTopics:
    """Part of OffsetFetch."""

    name: str = ""
    topic_id: UUID | None
    partition_indexes: tuple[int, ...] = ()


@dataclass(slots=True, kw_only=True)
class OffsetFetchRequestGroup:
    """Part of OffsetFetch."""

    group_id: str
    member_id: str | None = None
    member_epoch: int = -1
    topics: tuple[OffsetFetchRequestTopics, ...] | None


@dataclass(slots=True, kw_only=True)
class OffsetFetchRequest:
    """OffsetFetch request, versions 1-10."""

    group_id: str = ""
    topics: tuple[OffsetFetchRequestTopic, ...] | None = ()
    groups: tuple[OffsetFetchRequestGroup, ...]
    require_stable: bool = False


@dataclass(slots=True, kw_only=True)
class OffsetFetchResponsePartition:
    """Part of OffsetFetch."""

    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    metadata: str | None = ""
    error_code: ErrorCode = ErrorCode.none


@dataclass(slots=True, kw_only=True)
class OffsetFetchResponseTopic:
    """Part of OffsetFetch."""

    name: str = ""
    partitions: tuple[OffsetFetchResponsePartition, ...] = ()


@dataclass(slots=True, kw_only=True)
class OffsetFetchResponsePartitions:
    """Part of OffsetFetch."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int = -1
    metadata: str | None
    error_code: ErrorCode


@dataclass(slots=True, kw_only=True)
class OffsetFetchResponseTopics:
    """Part of OffsetFetch."""

    name: str = ""
    topic_id: UUID | None
    partitions: tuple[OffsetFetchResponsePartitions, ...]


@dataclass(slots=True, kw_only=True)
class OffsetFetchResponseGroup:
    """Part of OffsetFetch."""

    group_id: str
    topics: tuple[OffsetFetchResponseTopics, ...]
    error_code: ErrorCode = ErrorCode.none


@dataclass(slots=True, kw_only=True)
class OffsetFetchResponse:
    """OffsetFetch response, versions 1-10."""

    throttle_time: timedelta
    topics: tuple[OffsetFetchResponseTopic, ...] = ()
    error_code: ErrorCode = ErrorCode.none
    groups: tuple[OffsetFetchResponseGroup, ...]


def _read_offset_fetch_request_topic(
    buffer: bytes, position: int, end: int
) -> tuple[OffsetFetchRequestTopic, int]:
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
        raise PeerError("partition_indexes is null or has a negative length")
    if 4 * size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    partition_indexes = unpack_from(f">{size}i", buffer, position)
    position += 4 * size
    return OffsetFetchRequestTopic(name=name, partition_indexes=partition_indexes), position


def _read_request_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[OffsetFetchRequest, int]:
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("group_id is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    group_id = buffer[start:position].decode()
    topics: tuple[OffsetFetchRequestTopic, ...] | None
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size >= 0:
        if size > end - position:
            raise truncated()
        if size > ELEMENTS_MAX:
            raise too_many(size)
        topics_list: list[OffsetFetchRequestTopic] = []
        for _ in range(size):
            topics_item, position = _read_offset_fetch_request_topic(buffer, position, end)
            topics_list.append(topics_item)
        topics = tuple(topics_list)
    elif size == -1 and version >= 2:
        topics = None
    else:
        raise PeerError("topics is null or has a negative length")
    return OffsetFetchRequest(group_id=group_id, topics=topics, groups=()), position


def _read_offset_fetch_request_topic_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[OffsetFetchRequestTopic, int]:
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
    return OffsetFetchRequestTopic(name=name, partition_indexes=partition_indexes), position


def _read_offset_fetch_request_topics_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[OffsetFetchRequestTopics, int]:
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
    return OffsetFetchRequestTopics(
        name=name, topic_id=topic_id, partition_indexes=partition_indexes
    ), position


def _read_offset_fetch_request_group_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[OffsetFetchRequestGroup, int]:
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
    member_id: str | None = None
    if version >= 9:
        size = buffer[position] - 1
        position += 1
        if size > 126:
            size, position = read_length(buffer, position - 1)
        if size >= 0:
            start = position
            position += size
            if position > end:
                raise truncated()
            member_id = buffer[start:position].decode()
        else:
            member_id = None
    member_epoch: int = -1
    if version >= 9:
        (member_epoch,) = _unpack_i(buffer, position)
        position += 4
    topics: tuple[OffsetFetchRequestTopics, ...] | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        if size > end - position:
            raise truncated()
        if size > ELEMENTS_MAX:
            raise too_many(size)
        topics_list: list[OffsetFetchRequestTopics] = []
        for _ in range(size):
            topics_item, position = _read_offset_fetch_request_topics_flexible(
                buffer, position, end, version
            )
            topics_list.append(topics_item)
        topics = tuple(topics_list)
    else:
        topics = None
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return OffsetFetchRequestGroup(
        group_id=group_id, member_id=member_id, member_epoch=member_epoch, topics=topics
    ), position


def _read_request_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[OffsetFetchRequest, int]:
    group_id: str = ""
    if version <= 7:
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
    topics: tuple[OffsetFetchRequestTopic, ...] | None = ()
    if version <= 7:
        size = buffer[position] - 1
        position += 1
        if size > 126:
            size, position = read_length(buffer, position - 1)
        if size >= 0:
            if size > end - position:
                raise truncated()
            if size > ELEMENTS_MAX:
                raise too_many(size)
            topics_list: list[OffsetFetchRequestTopic] = []
            for _ in range(size):
                topics_item, position = _read_offset_fetch_request_topic_flexible(
                    buffer, position, end
                )
                topics_list.append(topics_item)
            topics = tuple(topics_list)
        else:
            topics = None
    groups: tuple[OffsetFetchRequestGroup, ...] = ()
    if version >= 8:
        size = buffer[position] - 1
        position += 1
        if size > 126:
            size, position = read_length(buffer, position - 1)
        if size < 0:
            raise PeerError("groups is null or has a negative length")
        if size > end - position:
            raise truncated()
        if size > ELEMENTS_MAX:
            raise too_many(size)
        groups_list: list[OffsetFetchRequestGroup] = []
        for _ in range(size):
            groups_item, position = _read_offset_fetch_request_group_flexible(
                buffer, position, end, version
            )
            groups_list.append(groups_item)
        groups = tuple(groups_list)
    require_stable: bool = False
    if version >= 7:
        (require_stable,) = _unpack_o(buffer, position)
        position += 1
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return OffsetFetchRequest(
        group_id=group_id, topics=topics, groups=groups, require_stable=require_stable
    ), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[OffsetFetchRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 6:
        return _read_request_flexible(buffer, position, end, version)
    return _read_request_legacy(buffer, position, end, version)


def _write_offset_fetch_response_partition(
    out: bytearray, message: OffsetFetchResponsePartition, version: int
) -> None:
    if version >= 5:
        out += _pack_iqi(
            message.partition_index, message.committed_offset, message.committed_leader_epoch
        )
    else:
        out += _pack_iq(message.partition_index, message.committed_offset)
    if message.metadata is None:
        out += NULL_STRING
    else:
        encoded = message.metadata.encode()
        out += _pack_h(len(encoded))
        out += encoded
    out += _pack_h(message.error_code)


def _write_offset_fetch_response_topic(
    out: bytearray, message: OffsetFetchResponseTopic, version: int
) -> None:
    encoded = message.name.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_i(len(message.partitions))
    for partitions_item in message.partitions:
        _write_offset_fetch_response_partition(out, partitions_item, version)


def _write_response_legacy(out: bytearray, message: OffsetFetchResponse, version: int) -> None:
    if version >= 3:
        out += _pack_i(message.throttle_time // MILLISECOND)
    out += _pack_i(len(message.topics))
    for topics_item in message.topics:
        _write_offset_fetch_response_topic(out, topics_item, version)
    if version >= 2:
        out += _pack_h(message.error_code)


def _write_offset_fetch_response_partition_flexible(
    out: bytearray, message: OffsetFetchResponsePartition
) -> None:
    out += _pack_iqi(
        message.partition_index, message.committed_offset, message.committed_leader_epoch
    )
    if message.metadata is None:
        out += NULL_COMPACT
    else:
        encoded = message.metadata.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += _pack_h(message.error_code)
    out += NO_TAGS


def _write_offset_fetch_response_topic_flexible(
    out: bytearray, message: OffsetFetchResponseTopic
) -> None:
    encoded = message.name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += varint(len(message.partitions) + 1)
    for partitions_item in message.partitions:
        _write_offset_fetch_response_partition_flexible(out, partitions_item)
    out += NO_TAGS


def _write_offset_fetch_response_partitions_flexible(
    out: bytearray, message: OffsetFetchResponsePartitions
) -> None:
    out += _pack_iqi(
        message.partition_index, message.committed_offset, message.committed_leader_epoch
    )
    if message.metadata is None:
        out += NULL_COMPACT
    else:
        encoded = message.metadata.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += _pack_h(message.error_code)
    out += NO_TAGS


def _write_offset_fetch_response_topics_flexible(
    out: bytearray, message: OffsetFetchResponseTopics, version: int
) -> None:
    if version <= 9:
        encoded = message.name.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    if version >= 10:
        out += _pack_s(uuid_bytes(message.topic_id))
    out += varint(len(message.partitions) + 1)
    for partitions_item in message.partitions:
        _write_offset_fetch_response_partitions_flexible(out, partitions_item)
    out += NO_TAGS


def _write_offset_fetch_response_group_flexible(
    out: bytearray, message: OffsetFetchResponseGroup, version: int
) -> None:
    encoded = message.group_id.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += varint(len(message.topics) + 1)
    for topics_item in message.topics:
        _write_offset_fetch_response_topics_flexible(out, topics_item, version)
    out += _pack_h(message.error_code)
    out += NO_TAGS


def _write_response_flexible(out: bytearray, message: OffsetFetchResponse, version: int) -> None:
    out += _pack_i(message.throttle_time // MILLISECOND)
    if version <= 7:
        out += varint(len(message.topics) + 1)
        for topics_item in message.topics:
            _write_offset_fetch_response_topic_flexible(out, topics_item)
    if version <= 7:
        out += _pack_h(message.error_code)
    if version >= 8:
        out += varint(len(message.groups) + 1)
        for groups_item in message.groups:
            _write_offset_fetch_response_group_flexible(out, groups_item, version)
    out += NO_TAGS


def write_response(out: bytearray, message: OffsetFetchResponse, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 6:
        _write_response_flexible(out, message, version)
    else:
        _write_response_legacy(out, message, version)


def _write_offset_fetch_request_topic(out: bytearray, message: OffsetFetchRequestTopic) -> None:
    encoded = message.name.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_i(len(message.partition_indexes))
    out += pack(f">{len(message.partition_indexes)}i", *message.partition_indexes)


def _write_request_legacy(out: bytearray, message: OffsetFetchRequest, version: int) -> None:
    encoded = message.group_id.encode()
    out += _pack_h(len(encoded))
    out += encoded
    if message.topics is None:
        out += NULL_ARRAY if version >= 2 else EMPTY_ARRAY
    else:
        out += _pack_i(len(message.topics))
        for topics_item in message.topics:
            _write_offset_fetch_request_topic(out, topics_item)


def _write_offset_fetch_request_topic_flexible(
    out: bytearray, message: OffsetFetchRequestTopic
) -> None:
    encoded = message.name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += varint(len(message.partition_indexes) + 1)
    out += pack(f">{len(message.partition_indexes)}i", *message.partition_indexes)
    out += NO_TAGS


def _write_offset_fetch_request_topics_flexible(
    out: bytearray, message: OffsetFetchRequestTopics, version: int
) -> None:
    if version <= 9:
        encoded = message.name.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    if version >= 10:
        out += _pack_s(uuid_bytes(message.topic_id))
    out += varint(len(message.partition_indexes) + 1)
    out += pack(f">{len(message.partition_indexes)}i", *message.partition_indexes)
    out += NO_TAGS


def _write_offset_fetch_request_group_flexible(
    out: bytearray, message: OffsetFetchRequestGroup, version: int
) -> None:
    encoded = message.group_id.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    if version >= 9:
        if message.member_id is None:
            out += NULL_COMPACT
        else:
            encoded = message.member_id.encode()
            out += varint(len(encoded) + 1)
            out += encoded
    if version >= 9:
        out += _pack_i(message.member_epoch)
    if message.topics is None:
        out += NULL_COMPACT
    else:
        out += varint(len(message.topics) + 1)
        for topics_item in message.topics:
            _write_offset_fetch_request_topics_flexible(out, topics_item, version)
    out += NO_TAGS


def _write_request_flexible(out: bytearray, message: OffsetFetchRequest, version: int) -> None:
    if version <= 7:
        encoded = message.group_id.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    if version <= 7:
        if message.topics is None:
            out += NULL_COMPACT
        else:
            out += varint(len(message.topics) + 1)
            for topics_item in message.topics:
                _write_offset_fetch_request_topic_flexible(out, topics_item)
    if version >= 8:
        out += varint(len(message.groups) + 1)
        for groups_item in message.groups:
            _write_offset_fetch_request_group_flexible(out, groups_item, version)
    if version >= 7:
        out += _pack_o(message.require_stable)
    out += NO_TAGS


def write_request(out: bytearray, message: OffsetFetchRequest, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 6:
        _write_request_flexible(out, message, version)
    else:
        _write_request_legacy(out, message, version)


def _read_offset_fetch_response_partition(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[OffsetFetchResponsePartition, int]:
    committed_leader_epoch: int = -1
    if version >= 5:
        partition_index, committed_offset, committed_leader_epoch = _unpack_iqi(buffer, position)
        position += 16
    else:
        partition_index, committed_offset = _unpack_iq(buffer, position)
        position += 12
    metadata: str | None
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        metadata = buffer[start:position].decode()
    elif size == -1:
        metadata = None
    else:
        raise PeerError("metadata is null or has a negative length")
    (error_code,) = _unpack_h(buffer, position)
    position += 2
    return OffsetFetchResponsePartition(
        partition_index=partition_index,
        committed_offset=committed_offset,
        committed_leader_epoch=committed_leader_epoch,
        metadata=metadata,
        error_code=ErrorCode(error_code),
    ), position


def _read_offset_fetch_response_topic(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[OffsetFetchResponseTopic, int]:
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
    partitions_list: list[OffsetFetchResponsePartition] = []
    for _ in range(size):
        partitions_item, position = _read_offset_fetch_response_partition(
            buffer, position, end, version
        )
        partitions_list.append(partitions_item)
    partitions = tuple(partitions_list)
    return OffsetFetchResponseTopic(name=name, partitions=partitions), position


def _read_response_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[OffsetFetchResponse, int]:
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
    topics_list: list[OffsetFetchResponseTopic] = []
    for _ in range(size):
        topics_item, position = _read_offset_fetch_response_topic(buffer, position, end, version)
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    error_code: ErrorCode = ErrorCode.none
    if version >= 2:
        (error_code_raw,) = _unpack_h(buffer, position)
        position += 2
        error_code = ErrorCode(error_code_raw)
    return OffsetFetchResponse(
        throttle_time=throttle_time, topics=topics, error_code=error_code, groups=()
    ), position


def _read_offset_fetch_response_partition_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[OffsetFetchResponsePartition, int]:
    partition_index, committed_offset, committed_leader_epoch = _unpack_iqi(buffer, position)
    position += 16
    metadata: str | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        metadata = buffer[start:position].decode()
    else:
        metadata = None
    (error_code,) = _unpack_h(buffer, position)
    position += 2
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return OffsetFetchResponsePartition(
        partition_index=partition_index,
        committed_offset=committed_offset,
        committed_leader_epoch=committed_leader_epoch,
        metadata=metadata,
        error_code=ErrorCode(error_code),
    ), position


def _read_offset_fetch_response_topic_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[OffsetFetchResponseTopic, int]:
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
    partitions_list: list[OffsetFetchResponsePartition] = []
    for _ in range(size):
        partitions_item, position = _read_offset_fetch_response_partition_flexible(
            buffer, position, end
        )
        partitions_list.append(partitions_item)
    partitions = tuple(partitions_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return OffsetFetchResponseTopic(name=name, partitions=partitions), position


def _read_offset_fetch_response_partitions_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[OffsetFetchResponsePartitions, int]:
    partition_index, committed_offset, committed_leader_epoch = _unpack_iqi(buffer, position)
    position += 16
    metadata: str | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        metadata = buffer[start:position].decode()
    else:
        metadata = None
    (error_code,) = _unpack_h(buffer, position)
    position += 2
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return OffsetFetchResponsePartitions(
        partition_index=partition_index,
        committed_offset=committed_offset,
        committed_leader_epoch=committed_leader_epoch,
        metadata=metadata,
        error_code=ErrorCode(error_code),
    ), position


def _read_offset_fetch_response_topics_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[OffsetFetchResponseTopics, int]:
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
    partitions_list: list[OffsetFetchResponsePartitions] = []
    for _ in range(size):
        partitions_item, position = _read_offset_fetch_response_partitions_flexible(
            buffer, position, end
        )
        partitions_list.append(partitions_item)
    partitions = tuple(partitions_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=partitions), position


def _read_offset_fetch_response_group_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[OffsetFetchResponseGroup, int]:
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
    topics_list: list[OffsetFetchResponseTopics] = []
    for _ in range(size):
        topics_item, position = _read_offset_fetch_response_topics_flexible(
            buffer, position, end, version
        )
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    (error_code,) = _unpack_h(buffer, position)
    position += 2
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return OffsetFetchResponseGroup(
        group_id=group_id, topics=topics, error_code=ErrorCode(error_code)
    ), position


def _read_response_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[OffsetFetchResponse, int]:
    (throttle_time,) = _unpack_i(buffer, position)
    position += 4
    topics: tuple[OffsetFetchResponseTopic, ...] = ()
    if version <= 7:
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
        topics_list: list[OffsetFetchResponseTopic] = []
        for _ in range(size):
            topics_item, position = _read_offset_fetch_response_topic_flexible(
                buffer, position, end
            )
            topics_list.append(topics_item)
        topics = tuple(topics_list)
    error_code: ErrorCode = ErrorCode.none
    if version <= 7:
        (error_code_raw,) = _unpack_h(buffer, position)
        position += 2
        error_code = ErrorCode(error_code_raw)
    groups: tuple[OffsetFetchResponseGroup, ...] = ()
    if version >= 8:
        size = buffer[position] - 1
        position += 1
        if size > 126:
            size, position = read_length(buffer, position - 1)
        if size < 0:
            raise PeerError("groups is null or has a negative length")
        if size > end - position:
            raise truncated()
        if size > ELEMENTS_MAX:
            raise too_many(size)
        groups_list: list[OffsetFetchResponseGroup] = []
        for _ in range(size):
            groups_item, position = _read_offset_fetch_response_group_flexible(
                buffer, position, end, version
            )
            groups_list.append(groups_item)
        groups = tuple(groups_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return OffsetFetchResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time),
        topics=topics,
        error_code=error_code,
        groups=groups,
    ), position


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[OffsetFetchResponse, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 6:
        return _read_response_flexible(buffer, position, end, version)
    return _read_response_legacy(buffer, position, end, version)
