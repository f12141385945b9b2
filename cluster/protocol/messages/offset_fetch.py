"""OffsetFetch messages, versions 1 to 10.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import timedelta
from struct import Struct, unpack_from
from uuid import UUID

from cluster.model.error_codes import ErrorCode
from cluster.model.errors import PeerError
from cluster.protocol.reader import (
    ELEMENTS_MAX,
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
_pack_iq = Struct(">iq").pack
_pack_iqi = Struct(">iqi").pack
_pack_s = Struct(">16s").pack
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
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
