"""Metadata messages, versions 0 to 13.

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
    EMPTY_COMPACT,
    EMPTY_STRING,
    MILLISECOND,
    NO_TAGS,
    NULL_ARRAY,
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
_pack_oo = Struct(">??").pack
_pack_ooo = Struct(">???").pack
_pack_s = Struct(">16s").pack
_pack_so = Struct(">16s?").pack
_unpack_h = Struct(">h").unpack_from
_unpack_hii = Struct(">hii").unpack_from
_unpack_hiii = Struct(">hiii").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_o = Struct(">?").unpack_from
_unpack_oo = Struct(">??").unpack_from
_unpack_ooo = Struct(">???").unpack_from
_unpack_s = Struct(">16s").unpack_from
_unpack_so = Struct(">16s?").unpack_from


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


def _write_metadata_request_topic(out: bytearray, message: MetadataRequestTopic) -> None:
    if message.name is None:
        out += EMPTY_STRING
    else:
        encoded = message.name.encode()
        out += _pack_h(len(encoded))
        out += encoded


def _write_request_legacy(out: bytearray, message: MetadataRequest, version: int) -> None:
    if message.topics is None:
        out += NULL_ARRAY if version >= 1 else EMPTY_ARRAY
    else:
        out += _pack_i(len(message.topics))
        for topics_item in message.topics:
            _write_metadata_request_topic(out, topics_item)
    if version >= 8:
        out += _pack_ooo(
            message.allow_auto_topic_creation,
            message.include_cluster_authorized_operations,
            message.include_topic_authorized_operations,
        )
    elif version >= 4:
        out += _pack_o(message.allow_auto_topic_creation)


def _write_metadata_request_topic_flexible(
    out: bytearray, message: MetadataRequestTopic, version: int
) -> None:
    if version >= 10:
        out += _pack_s(uuid_bytes(message.topic_id))
    if message.name is None:
        out += NULL_COMPACT if version >= 10 else EMPTY_COMPACT
    else:
        encoded = message.name.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += NO_TAGS


def _write_request_flexible(out: bytearray, message: MetadataRequest, version: int) -> None:
    if message.topics is None:
        out += NULL_COMPACT
    else:
        out += varint(len(message.topics) + 1)
        for topics_item in message.topics:
            _write_metadata_request_topic_flexible(out, topics_item, version)
    if version >= 11:
        out += _pack_oo(
            message.allow_auto_topic_creation, message.include_topic_authorized_operations
        )
    else:
        out += _pack_ooo(
            message.allow_auto_topic_creation,
            message.include_cluster_authorized_operations,
            message.include_topic_authorized_operations,
        )
    out += NO_TAGS


def write_request(out: bytearray, message: MetadataRequest, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 9:
        _write_request_flexible(out, message, version)
    else:
        _write_request_legacy(out, message, version)


def _read_metadata_response_broker(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[MetadataResponseBroker, int]:
    (node_id,) = _unpack_i(buffer, position)
    position += 4
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("host is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    host = buffer[start:position].decode()
    (port,) = _unpack_i(buffer, position)
    position += 4
    rack: str | None = None
    if version >= 1:
        (size,) = _unpack_h(buffer, position)
        position += 2
        if size >= 0:
            start = position
            position += size
            if position > end:
                raise truncated()
            rack = buffer[start:position].decode()
        elif size == -1:
            rack = None
        else:
            raise PeerError("rack is null or has a negative length")
    return MetadataResponseBroker(node_id=node_id, host=host, port=port, rack=rack), position


def _read_metadata_response_partition(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[MetadataResponsePartition, int]:
    leader_epoch: int = -1
    if version >= 7:
        error_code, partition_index, leader_id, leader_epoch = _unpack_hiii(buffer, position)
        position += 14
    else:
        error_code, partition_index, leader_id = _unpack_hii(buffer, position)
        position += 10
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("replica_nodes is null or has a negative length")
    if 4 * size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    replica_nodes = unpack_from(f">{size}i", buffer, position)
    position += 4 * size
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("isr_nodes is null or has a negative length")
    if 4 * size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    isr_nodes = unpack_from(f">{size}i", buffer, position)
    position += 4 * size
    offline_replicas: tuple[int, ...] = ()
    if version >= 5:
        (size,) = _unpack_i(buffer, position)
        position += 4
        if size < 0:
            raise PeerError("offline_replicas is null or has a negative length")
        if 4 * size > end - position:
            raise truncated()
        if size > ELEMENTS_MAX:
            raise too_many(size)
        offline_replicas = unpack_from(f">{size}i", buffer, position)
        position += 4 * size
    return MetadataResponsePartition(
        error_code=ErrorCode(error_code),
        partition_index=partition_index,
        leader_id=leader_id,
        leader_epoch=leader_epoch,
        replica_nodes=replica_nodes,
        isr_nodes=isr_nodes,
        offline_replicas=offline_replicas,
    ), position


def _read_metadata_response_topic(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[MetadataResponseTopic, int]:
    (error_code,) = _unpack_h(buffer, position)
    position += 2
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
    is_internal: bool = False
    if version >= 1:
        (is_internal,) = _unpack_o(buffer, position)
        position += 1
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("partitions is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    partitions_list: list[MetadataResponsePartition] = []
    for _ in range(size):
        partitions_item, position = _read_metadata_response_partition(
            buffer, position, end, version
        )
        partitions_list.append(partitions_item)
    partitions = tuple(partitions_list)
    topic_authorized_operations: int = -2147483648
    if version >= 8:
        (topic_authorized_operations,) = _unpack_i(buffer, position)
        position += 4
    return MetadataResponseTopic(
        error_code=ErrorCode(error_code),
        name=name,
        topic_id=None,
        is_internal=is_internal,
        partitions=partitions,
        topic_authorized_operations=topic_authorized_operations,
    ), position


def _read_response_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[MetadataResponse, int]:
    throttle_time: timedelta = NO_TIME
    if version >= 3:
        (throttle_time_raw,) = _unpack_i(buffer, position)
        position += 4
        throttle_time = timedelta(0, 0, 0, throttle_time_raw)
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("brokers is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    brokers_list: list[MetadataResponseBroker] = []
    for _ in range(size):
        brokers_item, position = _read_metadata_response_broker(buffer, position, end, version)
        brokers_list.append(brokers_item)
    brokers = tuple(brokers_list)
    cluster_id: str | None = None
    if version >= 2:
        (size,) = _unpack_h(buffer, position)
        position += 2
        if size >= 0:
            start = position
            position += size
            if position > end:
                raise truncated()
            cluster_id = buffer[start:position].decode()
        elif size == -1:
            cluster_id = None
        else:
            raise PeerError("cluster_id is null or has a negative length")
    controller_id: int = -1
    if version >= 1:
        (controller_id,) = _unpack_i(buffer, position)
        position += 4
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("topics is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    topics_list: list[MetadataResponseTopic] = []
    for _ in range(size):
        topics_item, position = _read_metadata_response_topic(buffer, position, end, version)
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    cluster_authorized_operations: int = -2147483648
    if version >= 8:
        (cluster_authorized_operations,) = _unpack_i(buffer, position)
        position += 4
    return MetadataResponse(
        throttle_time=throttle_time,
        brokers=brokers,
        cluster_id=cluster_id,
        controller_id=controller_id,
        topics=topics,
        cluster_authorized_operations=cluster_authorized_operations,
        error_code=ErrorCode.none,
    ), position


def _read_metadata_response_broker_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[MetadataResponseBroker, int]:
    (node_id,) = _unpack_i(buffer, position)
    position += 4
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("host is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    host = buffer[start:position].decode()
    (port,) = _unpack_i(buffer, position)
    position += 4
    rack: str | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        rack = buffer[start:position].decode()
    else:
        rack = None
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return MetadataResponseBroker(node_id=node_id, host=host, port=port, rack=rack), position


def _read_metadata_response_partition_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[MetadataResponsePartition, int]:
    error_code, partition_index, leader_id, leader_epoch = _unpack_hiii(buffer, position)
    position += 14
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("replica_nodes is null or has a negative length")
    if 4 * size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    replica_nodes = unpack_from(f">{size}i", buffer, position)
    position += 4 * size
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("isr_nodes is null or has a negative length")
    if 4 * size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    isr_nodes = unpack_from(f">{size}i", buffer, position)
    position += 4 * size
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("offline_replicas is null or has a negative length")
    if 4 * size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    offline_replicas = unpack_from(f">{size}i", buffer, position)
    position += 4 * size
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return MetadataResponsePartition(
        error_code=ErrorCode(error_code),
        partition_index=partition_index,
        leader_id=leader_id,
        leader_epoch=leader_epoch,
        replica_nodes=replica_nodes,
        isr_nodes=isr_nodes,
        offline_replicas=offline_replicas,
    ), position


def _read_metadata_response_topic_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[MetadataResponseTopic, int]:
    (error_code,) = _unpack_h(buffer, position)
    position += 2
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
    elif version >= 12:
        name = None
    else:
        raise PeerError("name is null or has a negative length")
    topic_id: UUID | None = None
    if version >= 10:
        topic_id_raw, is_internal = _unpack_so(buffer, position)
        position += 17
        topic_id = uuid_of(topic_id_raw)
    else:
        (is_internal,) = _unpack_o(buffer, position)
        position += 1
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
    partitions_list: list[MetadataResponsePartition] = []
    for _ in range(size):
        partitions_item, position = _read_metadata_response_partition_flexible(
            buffer, position, end
        )
        partitions_list.append(partitions_item)
    partitions = tuple(partitions_list)
    (topic_authorized_operations,) = _unpack_i(buffer, position)
    position += 4
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return MetadataResponseTopic(
        error_code=ErrorCode(error_code),
        name=name,
        topic_id=topic_id,
        is_internal=is_internal,
        partitions=partitions,
        topic_authorized_operations=topic_authorized_operations,
    ), position


def _read_response_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[MetadataResponse, int]:
    (throttle_time,) = _unpack_i(buffer, position)
    position += 4
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("brokers is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    brokers_list: list[MetadataResponseBroker] = []
    for _ in range(size):
        brokers_item, position = _read_metadata_response_broker_flexible(buffer, position, end)
        brokers_list.append(brokers_item)
    brokers = tuple(brokers_list)
    cluster_id: str | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        cluster_id = buffer[start:position].decode()
    else:
        cluster_id = None
    (controller_id,) = _unpack_i(buffer, position)
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
    topics_list: list[MetadataResponseTopic] = []
    for _ in range(size):
        topics_item, position = _read_metadata_response_topic_flexible(
            buffer, position, end, version
        )
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    cluster_authorized_operations: int = -2147483648
    error_code: ErrorCode = ErrorCode.none
    if version >= 13:
        (error_code_raw,) = _unpack_h(buffer, position)
        position += 2
        error_code = ErrorCode(error_code_raw)
    elif version <= 10:
        (cluster_authorized_operations,) = _unpack_i(buffer, position)
        position += 4
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return MetadataResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time),
        brokers=brokers,
        cluster_id=cluster_id,
        controller_id=controller_id,
        topics=topics,
        cluster_authorized_operations=cluster_authorized_operations,
        error_code=error_code,
    ), position


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[MetadataResponse, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 9:
        return _read_response_flexible(buffer, position, end, version)
    return _read_response_legacy(buffer, position, end, version)


def write_metadata_response_partition(
    out: bytearray, message: MetadataResponsePartition, version: int
) -> None:
    """Append one item of `EncodedItems` as this version has it."""
    if version >= 9:
        _write_metadata_response_partition_flexible(out, message)
    else:
        _write_metadata_response_partition(out, message, version)
