"""CreateTopics messages, versions 2 to 7.

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
    read_length,
    skip_tags,
    tag_spans,
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
_pack_io = Struct(">i?").pack
_pack_obo = Struct(">?b?").pack
_pack_sh = Struct(">16sh").pack
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_ih = Struct(">ih").unpack_from
_unpack_io = Struct(">i?").unpack_from
_unpack_obo = Struct(">?b?").unpack_from
_unpack_sh = Struct(">16sh").unpack_from


@dataclass(slots=True, kw_only=True)
class CreatableReplicaAssignment:
    """Part of CreateTopics."""

    partition_index: int
    broker_ids: tuple[int, ...] = ()


@dataclass(slots=True, kw_only=True)
class CreatableTopicConfig:
    """Part of CreateTopics."""

    name: str
    value: str | None


@dataclass(slots=True, kw_only=True)
class CreatableTopic:
    """Part of CreateTopics."""

    name: str
    num_partitions: int
    replication_factor: int
    assignments: tuple[CreatableReplicaAssignment, ...]
    configs: tuple[CreatableTopicConfig, ...]


@dataclass(slots=True, kw_only=True)
class CreateTopicsRequest:
    """CreateTopics request, versions 2-7."""

    topics: tuple[CreatableTopic, ...]
    timeout: timedelta = timedelta(milliseconds=60000)
    validate_only: bool = False


@dataclass(slots=True, kw_only=True)
class CreatableTopicConfigs:
    """Part of CreateTopics."""

    name: str
    value: str | None
    read_only: bool
    config_source: int = -1
    is_sensitive: bool


@dataclass(slots=True, kw_only=True)
class CreatableTopicResult:
    """Part of CreateTopics."""

    name: str
    topic_id: UUID | None
    error_code: ErrorCode
    error_message: str | None
    topic_config_error_code: int = 0
    num_partitions: int = -1
    replication_factor: int = -1
    configs: tuple[CreatableTopicConfigs, ...] | None


@dataclass(slots=True, kw_only=True)
class CreateTopicsResponse:
    """CreateTopics response, versions 2-7."""

    throttle_time: timedelta
    topics: tuple[CreatableTopicResult, ...]


def _read_creatable_replica_assignment(
    buffer: bytes, position: int, end: int
) -> tuple[CreatableReplicaAssignment, int]:
    (partition_index,) = _unpack_i(buffer, position)
    position += 4
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("broker_ids is null or has a negative length")
    if 4 * size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    broker_ids = unpack_from(f">{size}i", buffer, position)
    position += 4 * size
    return CreatableReplicaAssignment(
        partition_index=partition_index, broker_ids=broker_ids
    ), position


def _read_creatable_topic_config(
    buffer: bytes, position: int, end: int
) -> tuple[CreatableTopicConfig, int]:
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("name is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    name = buffer[start:position].decode()
    value: str | None
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        value = buffer[start:position].decode()
    elif size == -1:
        value = None
    else:
        raise PeerError("value is null or has a negative length")
    return CreatableTopicConfig(name=name, value=value), position


def _read_creatable_topic(buffer: bytes, position: int, end: int) -> tuple[CreatableTopic, int]:
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("name is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    name = buffer[start:position].decode()
    num_partitions, replication_factor = _unpack_ih(buffer, position)
    position += 6
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("assignments is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    assignments_list: list[CreatableReplicaAssignment] = []
    for _ in range(size):
        assignments_item, position = _read_creatable_replica_assignment(buffer, position, end)
        assignments_list.append(assignments_item)
    assignments = tuple(assignments_list)
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("configs is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    configs_list: list[CreatableTopicConfig] = []
    for _ in range(size):
        configs_item, position = _read_creatable_topic_config(buffer, position, end)
        configs_list.append(configs_item)
    configs = tuple(configs_list)
    return CreatableTopic(
        name=name,
        num_partitions=num_partitions,
        replication_factor=replication_factor,
        assignments=assignments,
        configs=configs,
    ), position


def _read_request_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[CreateTopicsRequest, int]:
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("topics is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    topics_list: list[CreatableTopic] = []
    for _ in range(size):
        topics_item, position = _read_creatable_topic(buffer, position, end)
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    timeout, validate_only = _unpack_io(buffer, position)
    position += 5
    return CreateTopicsRequest(
        topics=topics, timeout=timedelta(0, 0, 0, timeout), validate_only=validate_only
    ), position


def _read_creatable_replica_assignment_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[CreatableReplicaAssignment, int]:
    (partition_index,) = _unpack_i(buffer, position)
    position += 4
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("broker_ids is null or has a negative length")
    if 4 * size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    broker_ids = unpack_from(f">{size}i", buffer, position)
    position += 4 * size
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return CreatableReplicaAssignment(
        partition_index=partition_index, broker_ids=broker_ids
    ), position


def _read_creatable_topic_config_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[CreatableTopicConfig, int]:
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
    value: str | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        value = buffer[start:position].decode()
    else:
        value = None
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return CreatableTopicConfig(name=name, value=value), position


def _read_creatable_topic_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[CreatableTopic, int]:
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
    num_partitions, replication_factor = _unpack_ih(buffer, position)
    position += 6
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("assignments is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    assignments_list: list[CreatableReplicaAssignment] = []
    for _ in range(size):
        assignments_item, position = _read_creatable_replica_assignment_flexible(
            buffer, position, end
        )
        assignments_list.append(assignments_item)
    assignments = tuple(assignments_list)
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("configs is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    configs_list: list[CreatableTopicConfig] = []
    for _ in range(size):
        configs_item, position = _read_creatable_topic_config_flexible(buffer, position, end)
        configs_list.append(configs_item)
    configs = tuple(configs_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return CreatableTopic(
        name=name,
        num_partitions=num_partitions,
        replication_factor=replication_factor,
        assignments=assignments,
        configs=configs,
    ), position


def _read_request_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[CreateTopicsRequest, int]:
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
    topics_list: list[CreatableTopic] = []
    for _ in range(size):
        topics_item, position = _read_creatable_topic_flexible(buffer, position, end)
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    timeout, validate_only = _unpack_io(buffer, position)
    position += 5
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return CreateTopicsRequest(
        topics=topics, timeout=timedelta(0, 0, 0, timeout), validate_only=validate_only
    ), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[CreateTopicsRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 5:
        return _read_request_flexible(buffer, position, end, version)
    return _read_request_legacy(buffer, position, end, version)


def _write_creatable_topic_result(out: bytearray, message: CreatableTopicResult) -> None:
    encoded = message.name.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_h(message.error_code)
    if message.error_message is None:
        out += NULL_STRING
    else:
        encoded = message.error_message.encode()
        out += _pack_h(len(encoded))
        out += encoded


def _write_response_legacy(out: bytearray, message: CreateTopicsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time // MILLISECOND)
    out += _pack_i(len(message.topics))
    for topics_item in message.topics:
        _write_creatable_topic_result(out, topics_item)


def _write_creatable_topic_configs_flexible(out: bytearray, message: CreatableTopicConfigs) -> None:
    encoded = message.name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    if message.value is None:
        out += NULL_COMPACT
    else:
        encoded = message.value.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += _pack_obo(message.read_only, message.config_source, message.is_sensitive)
    out += NO_TAGS


def _write_creatable_topic_result_flexible(
    out: bytearray, message: CreatableTopicResult, version: int
) -> None:
    encoded = message.name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    if version >= 7:
        out += _pack_sh(uuid_bytes(message.topic_id), message.error_code)
    else:
        out += _pack_h(message.error_code)
    if message.error_message is None:
        out += NULL_COMPACT
    else:
        encoded = message.error_message.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += _pack_ih(message.num_partitions, message.replication_factor)
    if message.configs is None:
        out += NULL_COMPACT
    else:
        out += varint(len(message.configs) + 1)
        for configs_item in message.configs:
            _write_creatable_topic_configs_flexible(out, configs_item)
    count = 0
    tags = bytearray()
    if message.topic_config_error_code != 0:
        count += 1
        value = _pack_h(message.topic_config_error_code)
        tags += varint(0) + varint(len(value)) + value
    out += varint(count)
    out += tags


def _write_response_flexible(out: bytearray, message: CreateTopicsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time // MILLISECOND)
    out += varint(len(message.topics) + 1)
    for topics_item in message.topics:
        _write_creatable_topic_result_flexible(out, topics_item, version)
    out += NO_TAGS


def write_response(out: bytearray, message: CreateTopicsResponse, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 5:
        _write_response_flexible(out, message, version)
    else:
        _write_response_legacy(out, message, version)


def _write_creatable_replica_assignment(
    out: bytearray, message: CreatableReplicaAssignment
) -> None:
    out += _pack_i(message.partition_index)
    out += _pack_i(len(message.broker_ids))
    out += pack(f">{len(message.broker_ids)}i", *message.broker_ids)


def _write_creatable_topic_config(out: bytearray, message: CreatableTopicConfig) -> None:
    encoded = message.name.encode()
    out += _pack_h(len(encoded))
    out += encoded
    if message.value is None:
        out += NULL_STRING
    else:
        encoded = message.value.encode()
        out += _pack_h(len(encoded))
        out += encoded


def _write_creatable_topic(out: bytearray, message: CreatableTopic) -> None:
    encoded = message.name.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_ih(message.num_partitions, message.replication_factor)
    out += _pack_i(len(message.assignments))
    for assignments_item in message.assignments:
        _write_creatable_replica_assignment(out, assignments_item)
    out += _pack_i(len(message.configs))
    for configs_item in message.configs:
        _write_creatable_topic_config(out, configs_item)


def _write_request_legacy(out: bytearray, message: CreateTopicsRequest, version: int) -> None:
    out += _pack_i(len(message.topics))
    for topics_item in message.topics:
        _write_creatable_topic(out, topics_item)
    out += _pack_io(message.timeout // MILLISECOND, message.validate_only)


def _write_creatable_replica_assignment_flexible(
    out: bytearray, message: CreatableReplicaAssignment
) -> None:
    out += _pack_i(message.partition_index)
    out += varint(len(message.broker_ids) + 1)
    out += pack(f">{len(message.broker_ids)}i", *message.broker_ids)
    out += NO_TAGS


def _write_creatable_topic_config_flexible(out: bytearray, message: CreatableTopicConfig) -> None:
    encoded = message.name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    if message.value is None:
        out += NULL_COMPACT
    else:
        encoded = message.value.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += NO_TAGS


def _write_creatable_topic_flexible(out: bytearray, message: CreatableTopic) -> None:
    encoded = message.name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += _pack_ih(message.num_partitions, message.replication_factor)
    out += varint(len(message.assignments) + 1)
    for assignments_item in message.assignments:
        _write_creatable_replica_assignment_flexible(out, assignments_item)
    out += varint(len(message.configs) + 1)
    for configs_item in message.configs:
        _write_creatable_topic_config_flexible(out, configs_item)
    out += NO_TAGS


def _write_request_flexible(out: bytearray, message: CreateTopicsRequest, version: int) -> None:
    out += varint(len(message.topics) + 1)
    for topics_item in message.topics:
        _write_creatable_topic_flexible(out, topics_item)
    out += _pack_io(message.timeout // MILLISECOND, message.validate_only)
    out += NO_TAGS


def write_request(out: bytearray, message: CreateTopicsRequest, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 5:
        _write_request_flexible(out, message, version)
    else:
        _write_request_legacy(out, message, version)


def _read_creatable_topic_result(
    buffer: bytes, position: int, end: int
) -> tuple[CreatableTopicResult, int]:
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("name is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    name = buffer[start:position].decode()
    (error_code,) = _unpack_h(buffer, position)
    position += 2
    error_message: str | None
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        error_message = buffer[start:position].decode()
    elif size == -1:
        error_message = None
    else:
        raise PeerError("error_message is null or has a negative length")
    return CreatableTopicResult(
        name=name,
        topic_id=None,
        error_code=ErrorCode(error_code),
        error_message=error_message,
        configs=(),
    ), position


def _read_response_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[CreateTopicsResponse, int]:
    (throttle_time,) = _unpack_i(buffer, position)
    position += 4
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("topics is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    topics_list: list[CreatableTopicResult] = []
    for _ in range(size):
        topics_item, position = _read_creatable_topic_result(buffer, position, end)
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    return CreateTopicsResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time), topics=topics
    ), position


def _read_creatable_topic_configs_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[CreatableTopicConfigs, int]:
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
    value: str | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        value = buffer[start:position].decode()
    else:
        value = None
    read_only, config_source, is_sensitive = _unpack_obo(buffer, position)
    position += 3
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return CreatableTopicConfigs(
        name=name,
        value=value,
        read_only=read_only,
        config_source=config_source,
        is_sensitive=is_sensitive,
    ), position


def _read_creatable_topic_result_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[CreatableTopicResult, int]:
    topic_config_error_code: int = 0
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
    if version >= 7:
        topic_id_raw, error_code = _unpack_sh(buffer, position)
        position += 18
        topic_id = uuid_of(topic_id_raw)
    else:
        (error_code,) = _unpack_h(buffer, position)
        position += 2
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
    num_partitions, replication_factor = _unpack_ih(buffer, position)
    position += 6
    configs: tuple[CreatableTopicConfigs, ...] | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        if size > end - position:
            raise truncated()
        if size > ELEMENTS_MAX:
            raise too_many(size)
        configs_list: list[CreatableTopicConfigs] = []
        for _ in range(size):
            configs_item, position = _read_creatable_topic_configs_flexible(buffer, position, end)
            configs_list.append(configs_item)
        configs = tuple(configs_list)
    else:
        configs = None
    if not buffer[position]:
        position += 1
    else:
        spans, after = tag_spans(buffer, position, end)
        if 0 in spans:
            position, value_end = spans[0]
            if value_end - position < 2:
                raise truncated()
            (topic_config_error_code,) = _unpack_h(buffer, position)
        position = after
    return CreatableTopicResult(
        name=name,
        topic_id=topic_id,
        error_code=ErrorCode(error_code),
        error_message=error_message,
        topic_config_error_code=topic_config_error_code,
        num_partitions=num_partitions,
        replication_factor=replication_factor,
        configs=configs,
    ), position


def _read_response_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[CreateTopicsResponse, int]:
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
    topics_list: list[CreatableTopicResult] = []
    for _ in range(size):
        topics_item, position = _read_creatable_topic_result_flexible(
            buffer, position, end, version
        )
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return CreateTopicsResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time), topics=topics
    ), position


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[CreateTopicsResponse, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 5:
        return _read_response_flexible(buffer, position, end, version)
    return _read_response_legacy(buffer, position, end, version)
