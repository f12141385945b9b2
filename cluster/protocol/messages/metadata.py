"""Metadata messages, versions 0 to 13.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import timedelta
from struct import Struct, pack
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
    EMPTY_COMPACT,
    EMPTY_STRING,
    MILLISECOND,
    NO_TAGS,
    NULL_COMPACT,
    NULL_STRING,
    EncodedItems,
    uuid_bytes,
    varint,
)

_pack_h = Struct(">h").pack
_pack_hii = Struct(">hii").pack
_pack_hiii = Struct(">hiii").pack
_pack_i = Struct(">i").pack
_pack_o = Struct(">?").pack
_pack_so = Struct(">16s?").pack
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_o = Struct(">?").unpack_from
_unpack_oo = Struct(">??").unpack_from
_unpack_ooo = Struct(">???").unpack_from
_unpack_s = Struct(">16s").unpack_from


@dataclass(slots=True, kw_only=True)
class MetadataRequestTopic:
    """Part of Metadata."""

    topic_id: UUID | None
    name: str | None


@dataclass(slots=True, kw_only=True)
class MetadataRequest:
    """Metadata request, versions 0-13."""

    topics: tuple[MetadataRequestTopic, ...] | None
    allow_auto_topic_creation: bool = True
    include_cluster_authorized_operations: bool = False
    include_topic_authorized_operations: bool


@dataclass(slots=True, kw_only=True)
class MetadataResponseBroker:
    """Part of Metadata."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(slots=True, kw_only=True)
class MetadataResponsePartition:
    """Part of Metadata."""

    error_code: ErrorCode
    partition_index: int
    leader_id: int
    leader_epoch: int = -1
    replica_nodes: tuple[int, ...] = ()
    isr_nodes: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()


@dataclass(slots=True, kw_only=True)
class MetadataResponseTopic:
    """Part of Metadata."""

    error_code: ErrorCode
    name: str | None
    topic_id: UUID | None
    is_internal: bool = False
    partitions: tuple[MetadataResponsePartition, ...] | EncodedItems
    topic_authorized_operations: int = -2147483648


@dataclass(slots=True, kw_only=True)
class MetadataResponse:
    """Metadata response, versions 0-13."""

    throttle_time: timedelta
    brokers: tuple[MetadataResponseBroker, ...]
    cluster_id: str | None = None
    controller_id: int = -1
    topics: tuple[MetadataResponseTopic, ...]
    cluster_authorized_operations: int = -2147483648
    error_code: ErrorCode


def _read_metadata_request_topic(
    buffer: bytes, position: int, end: int
) -> tuple[MetadataRequestTopic, int]:
    name: str | None
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("name is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    name = buffer[start:position].decode()
    return MetadataRequestTopic(topic_id=None, name=name), position


def _read_request_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[MetadataRequest, int]:
    topics: tuple[MetadataRequestTopic, ...] | None
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size >= 0:
        if size > end - position:
            raise truncated()
        if size > ELEMENTS_MAX:
            raise too_many(size)
        topics_list: list[MetadataRequestTopic] = []
        for _ in range(size):
            topics_item, position = _read_metadata_request_topic(buffer, position, end)
            topics_list.append(topics_item)
        topics = tuple(topics_list)
    elif size == -1 and version >= 1:
        topics = None
    else:
        raise PeerError("topics is null or has a negative length")
    allow_auto_topic_creation: bool = True
    include_cluster_authorized_operations: bool = False
    include_topic_authorized_operations: bool = False
    if version >= 8:
        (
            allow_auto_topic_creation,
            include_cluster_authorized_operations,
            include_topic_authorized_operations,
        ) = _unpack_ooo(buffer, position)
        position += 3
    elif version >= 4:
        (allow_auto_topic_creation,) = _unpack_o(buffer, position)
        position += 1
    return MetadataRequest(
        topics=topics,
        allow_auto_topic_creation=allow_auto_topic_creation,
        include_cluster_authorized_operations=include_cluster_authorized_operations,
        include_topic_authorized_operations=include_topic_authorized_operations,
    ), position


def _read_metadata_request_topic_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[MetadataRequestTopic, int]:
    topic_id: UUID | None = None
    if version >= 10:
        (topic_id_raw,) = _unpack_s(buffer, position)
        position += 16
        topic_id = uuid_of(topic_id_raw)
    name: str | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        name = buffer[start:position].decode()
    elif version >= 10:
        name = None
    else:
        raise PeerError("name is null or has a negative length")
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return MetadataRequestTopic(topic_id=topic_id, name=name), position


def _read_request_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[MetadataRequest, int]:
    topics: tuple[MetadataRequestTopic, ...] | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        if size > end - position:
            raise truncated()
        if size > ELEMENTS_MAX:
            raise too_many(size)
        topics_list: list[MetadataRequestTopic] = []
        for _ in range(size):
            topics_item, position = _read_metadata_request_topic_flexible(
                buffer, position, end, version
            )
            topics_list.append(topics_item)
        topics = tuple(topics_list)
    else:
        topics = None
    include_cluster_authorized_operations: bool = False
    if version >= 11:
        allow_auto_topic_creation, include_topic_authorized_operations = _unpack_oo(
            buffer, position
        )
        position += 2
    else:
        (
            allow_auto_topic_creation,
            include_cluster_authorized_operations,
            include_topic_authorized_operations,
        ) = _unpack_ooo(buffer, position)
        position += 3
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return MetadataRequest(
        topics=topics,
        allow_auto_topic_creation=allow_auto_topic_creation,
        include_cluster_authorized_operations=include_cluster_authorized_operations,
        include_topic_authorized_operations=include_topic_authorized_operations,
    ), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[MetadataRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 9:
        return _read_request_flexible(buffer, position, end, version)
    return _read_request_legacy(buffer, position, end, version)


def _write_metadata_response_broker(
    out: bytearray, message: MetadataResponseBroker, version: int
) -> None:
    out += _pack_i(message.node_id)
    encoded = message.host.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_i(message.port)
    if version >= 1:
        if message.rack is None:
            out += NULL_STRING
        else:
            encoded = message.rack.encode()
            out += _pack_h(len(encoded))
            out += encoded


def _write_metadata_response_partition(
    out: bytearray, message: MetadataResponsePartition, version: int
) -> None:
    if version >= 7:
        out += _pack_hiii(
            message.error_code, message.partition_index, message.leader_id, message.leader_epoch
        )
    else:
        out += _pack_hii(message.error_code, message.partition_index, message.leader_id)
    out += _pack_i(len(message.replica_nodes))
    out += pack(f">{len(message.replica_nodes)}i", *message.replica_nodes)
    out += _pack_i(len(message.isr_nodes))
    out += pack(f">{len(message.isr_nodes)}i", *message.isr_nodes)
    if version >= 5:
        out += _pack_i(len(message.offline_replicas))
        out += pack(f">{len(message.offline_replicas)}i", *message.offline_replicas)


def _write_metadata_response_topic(
    out: bytearray, message: MetadataResponseTopic, version: int
) -> None:
    out += _pack_h(message.error_code)
    if message.name is None:
        out += EMPTY_STRING
    else:
        encoded = message.name.encode()
        out += _pack_h(len(encoded))
        out += encoded
    if version >= 1:
        out += _pack_o(message.is_internal)
    out += _pack_i(len(message.partitions))
    if isinstance(message.partitions, EncodedItems):
        out += message.partitions.content
    else:
        for partitions_item in message.partitions:
            _write_metadata_response_partition(out, partitions_item, version)
    if version >= 8:
        out += _pack_i(message.topic_authorized_operations)


def _write_response_legacy(out: bytearray, message: MetadataResponse, version: int) -> None:
    if version >= 3:
        out += _pack_i(message.throttle_time // MILLISECOND)
    out += _pack_i(len(message.brokers))
    for brokers_item in message.brokers:
        _write_metadata_response_broker(out, brokers_item, version)
    if version >= 2:
        if message.cluster_id is None:
            out += NULL_STRING
        else:
            encoded = message.cluster_id.encode()
            out += _pack_h(len(encoded))
            out += encoded
    if version >= 1:
        out += _pack_i(message.controller_id)
    out += _pack_i(len(message.topics))
    for topics_item in message.topics:
        _write_metadata_response_topic(out, topics_item, version)
    if version >= 8:
        out += _pack_i(message.cluster_authorized_operations)


def _write_metadata_response_broker_flexible(
    out: bytearray, message: MetadataResponseBroker
) -> None:
    out += _pack_i(message.node_id)
    encoded = message.host.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += _pack_i(message.port)
    if message.rack is None:
        out += NULL_COMPACT
    else:
        encoded = message.rack.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += NO_TAGS


def _write_metadata_response_partition_flexible(
    out: bytearray, message: MetadataResponsePartition
) -> None:
    out += _pack_hiii(
        message.error_code, message.partition_index, message.leader_id, message.leader_epoch
    )
    out += varint(len(message.replica_nodes) + 1)
    out += pack(f">{len(message.replica_nodes)}i", *message.replica_nodes)
    out += varint(len(message.isr_nodes) + 1)
    out += pack(f">{len(message.isr_nodes)}i", *message.isr_nodes)
    out += varint(len(message.offline_replicas) + 1)
    out += pack(f">{len(message.offline_replicas)}i", *message.offline_replicas)
    out += NO_TAGS


def _write_metadata_response_topic_flexible(
    out: bytearray, message: MetadataResponseTopic, version: int
) -> None:
    out += _pack_h(message.error_code)
    if message.name is None:
        out += NULL_COMPACT if version >= 12 else EMPTY_COMPACT
    else:
        encoded = message.name.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    if version >= 10:
        out += _pack_so(uuid_bytes(message.topic_id), message.is_internal)
    else:
        out += _pack_o(message.is_internal)
    out += varint(len(message.partitions) + 1)
    if isinstance(message.partitions, EncodedItems):
        out += message.partitions.content
    else:
        for partitions_item in message.partitions:
            _write_metadata_response_partition_flexible(out, partitions_item)
    out += _pack_i(message.topic_authorized_operations)
    out += NO_TAGS


def _write_response_flexible(out: bytearray, message: MetadataResponse, version: int) -> None:
    out += _pack_i(message.throttle_time // MILLISECOND)
    out += varint(len(message.brokers) + 1)
    for brokers_item in message.brokers:
        _write_metadata_response_broker_flexible(out, brokers_item)
    if message.cluster_id is None:
        out += NULL_COMPACT
    else:
        encoded = message.cluster_id.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += _pack_i(message.controller_id)
    out += varint(len(message.topics) + 1)
    for topics_item in message.topics:
        _write_metadata_response_topic_flexible(out, topics_item, version)
    if version >= 13:
        out += _pack_h(message.error_code)
    elif version <= 10:
        out += _pack_i(message.cluster_authorized_operations)
    out += NO_TAGS


def write_response(out: bytearray, message: MetadataResponse, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 9:
        _write_response_flexible(out, message, version)
    else:
        _write_response_legacy(out, message, version)


def write_metadata_response_partition(
    out: bytearray, message: MetadataResponsePartition, version: int
) -> None:
    """Append one item of `EncodedItems` as this version has it."""
    if version >= 9:
        _write_metadata_response_partition_flexible(out, message)
    else:
        _write_metadata_response_partition(out, message, version)
