"""CreatePartitions messages, versions 0 to 3.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import timedelta
from struct import Struct, pack, unpack_from

from cluster.model.error_codes import ErrorCode
from cluster.model.errors import PeerError
from cluster.protocol.reader import ELEMENTS_MAX, read_length, skip_tags, too_many, truncated
from cluster.protocol.writer import (
    MILLISECOND,
    NO_TAGS,
    NULL_ARRAY,
    NULL_COMPACT,
    NULL_STRING,
    varint,
)

_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_io = Struct(">i?").pack
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_io = Struct(">i?").unpack_from


@dataclass(slots=True, kw_only=True)
class CreatePartitionsAssignment:
    """Part of CreatePartitions."""

    broker_ids: tuple[int, ...] = ()


@dataclass(slots=True, kw_only=True)
class CreatePartitionsTopic:
    """Part of CreatePartitions."""

    name: str
    count: int
    assignments: tuple[CreatePartitionsAssignment, ...] | None


@dataclass(slots=True, kw_only=True)
class CreatePartitionsRequest:
    """CreatePartitions request, versions 0-3."""

    topics: tuple[CreatePartitionsTopic, ...]
    timeout: timedelta
    validate_only: bool


@dataclass(slots=True, kw_only=True)
class CreatePartitionsTopicResult:
    """Part of CreatePartitions."""

    name: str
    error_code: ErrorCode
    error_message: str | None = None


@dataclass(slots=True, kw_only=True)
class CreatePartitionsResponse:
    """CreatePartitions response, versions 0-3."""

    throttle_time: timedelta
    results: tuple[CreatePartitionsTopicResult, ...]


def _read_create_partitions_assignment(
    buffer: bytes, position: int, end: int
) -> tuple[CreatePartitionsAssignment, int]:
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
    return CreatePartitionsAssignment(broker_ids=broker_ids), position


def _read_create_partitions_topic(
    buffer: bytes, position: int, end: int
) -> tuple[CreatePartitionsTopic, int]:
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("name is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    name = buffer[start:position].decode()
    (count,) = _unpack_i(buffer, position)
    position += 4
    assignments: tuple[CreatePartitionsAssignment, ...] | None
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size >= 0:
        if size > end - position:
            raise truncated()
        if size > ELEMENTS_MAX:
            raise too_many(size)
        assignments_list: list[CreatePartitionsAssignment] = []
        for _ in range(size):
            assignments_item, position = _read_create_partitions_assignment(buffer, position, end)
            assignments_list.append(assignments_item)
        assignments = tuple(assignments_list)
    elif size == -1:
        assignments = None
    else:
        raise PeerError("assignments is null or has a negative length")
    return CreatePartitionsTopic(name=name, count=count, assignments=assignments), position


def _read_request_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[CreatePartitionsRequest, int]:
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("topics is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    topics_list: list[CreatePartitionsTopic] = []
    for _ in range(size):
        topics_item, position = _read_create_partitions_topic(buffer, position, end)
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    timeout, validate_only = _unpack_io(buffer, position)
    position += 5
    return CreatePartitionsRequest(
        topics=topics, timeout=timedelta(0, 0, 0, timeout), validate_only=validate_only
    ), position


def _read_create_partitions_assignment_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[CreatePartitionsAssignment, int]:
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
    return CreatePartitionsAssignment(broker_ids=broker_ids), position


def _read_create_partitions_topic_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[CreatePartitionsTopic, int]:
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
    (count,) = _unpack_i(buffer, position)
    position += 4
    assignments: tuple[CreatePartitionsAssignment, ...] | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        if size > end - position:
            raise truncated()
        if size > ELEMENTS_MAX:
            raise too_many(size)
        assignments_list: list[CreatePartitionsAssignment] = []
        for _ in range(size):
            assignments_item, position = _read_create_partitions_assignment_flexible(
                buffer, position, end
            )
            assignments_list.append(assignments_item)
        assignments = tuple(assignments_list)
    else:
        assignments = None
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return CreatePartitionsTopic(name=name, count=count, assignments=assignments), position


def _read_request_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[CreatePartitionsRequest, int]:
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
    topics_list: list[CreatePartitionsTopic] = []
    for _ in range(size):
        topics_item, position = _read_create_partitions_topic_flexible(buffer, position, end)
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    timeout, validate_only = _unpack_io(buffer, position)
    position += 5
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return CreatePartitionsRequest(
        topics=topics, timeout=timedelta(0, 0, 0, timeout), validate_only=validate_only
    ), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[CreatePartitionsRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 2:
        return _read_request_flexible(buffer, position, end, version)
    return _read_request_legacy(buffer, position, end, version)


def _write_create_partitions_topic_result(
    out: bytearray, message: CreatePartitionsTopicResult
) -> None:
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


def _write_response_legacy(out: bytearray, message: CreatePartitionsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time // MILLISECOND)
    out += _pack_i(len(message.results))
    for results_item in message.results:
        _write_create_partitions_topic_result(out, results_item)


def _write_create_partitions_topic_result_flexible(
    out: bytearray, message: CreatePartitionsTopicResult
) -> None:
    encoded = message.name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += _pack_h(message.error_code)
    if message.error_message is None:
        out += NULL_COMPACT
    else:
        encoded = message.error_message.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += NO_TAGS


def _write_response_flexible(
    out: bytearray, message: CreatePartitionsResponse, version: int
) -> None:
    out += _pack_i(message.throttle_time // MILLISECOND)
    out += varint(len(message.results) + 1)
    for results_item in message.results:
        _write_create_partitions_topic_result_flexible(out, results_item)
    out += NO_TAGS


def write_response(out: bytearray, message: CreatePartitionsResponse, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 2:
        _write_response_flexible(out, message, version)
    else:
        _write_response_legacy(out, message, version)


def _write_create_partitions_assignment(
    out: bytearray, message: CreatePartitionsAssignment
) -> None:
    out += _pack_i(len(message.broker_ids))
    out += pack(f">{len(message.broker_ids)}i", *message.broker_ids)


def _write_create_partitions_topic(out: bytearray, message: CreatePartitionsTopic) -> None:
    encoded = message.name.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_i(message.count)
    if message.assignments is None:
        out += NULL_ARRAY
    else:
        out += _pack_i(len(message.assignments))
        for assignments_item in message.assignments:
            _write_create_partitions_assignment(out, assignments_item)


def _write_request_legacy(out: bytearray, message: CreatePartitionsRequest, version: int) -> None:
    out += _pack_i(len(message.topics))
    for topics_item in message.topics:
        _write_create_partitions_topic(out, topics_item)
    out += _pack_io(message.timeout // MILLISECOND, message.validate_only)


def _write_create_partitions_assignment_flexible(
    out: bytearray, message: CreatePartitionsAssignment
) -> None:
    out += varint(len(message.broker_ids) + 1)
    out += pack(f">{len(message.broker_ids)}i", *message.broker_ids)
    out += NO_TAGS


def _write_create_partitions_topic_flexible(out: bytearray, message: CreatePartitionsTopic) -> None:
    encoded = message.name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += _pack_i(message.count)
    if message.assignments is None:
        out += NULL_COMPACT
    else:
        out += varint(len(message.assignments) + 1)
        for assignments_item in message.assignments:
            _write_create_partitions_assignment_flexible(out, assignments_item)
    out += NO_TAGS


def _write_request_flexible(out: bytearray, message: CreatePartitionsRequest, version: int) -> None:
    out += varint(len(message.topics) + 1)
    for topics_item in message.topics:
        _write_create_partitions_topic_flexible(out, topics_item)
    out += _pack_io(message.timeout // MILLISECOND, message.validate_only)
    out += NO_TAGS


def write_request(out: bytearray, message: CreatePartitionsRequest, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 2:
        _write_request_flexible(out, message, version)
    else:
        _write_request_legacy(out, message, version)


def _read_create_partitions_topic_result(
    buffer: bytes, position: int, end: int
) -> tuple[CreatePartitionsTopicResult, int]:
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
    return CreatePartitionsTopicResult(
        name=name, error_code=ErrorCode(error_code), error_message=error_message
    ), position


def _read_response_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[CreatePartitionsResponse, int]:
    (throttle_time,) = _unpack_i(buffer, position)
    position += 4
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("results is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    results_list: list[CreatePartitionsTopicResult] = []
    for _ in range(size):
        results_item, position = _read_create_partitions_topic_result(buffer, position, end)
        results_list.append(results_item)
    results = tuple(results_list)
    return CreatePartitionsResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time), results=results
    ), position


def _read_create_partitions_topic_result_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[CreatePartitionsTopicResult, int]:
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
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return CreatePartitionsTopicResult(
        name=name, error_code=ErrorCode(error_code), error_message=error_message
    ), position


def _read_response_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[CreatePartitionsResponse, int]:
    (throttle_time,) = _unpack_i(buffer, position)
    position += 4
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("results is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    results_list: list[CreatePartitionsTopicResult] = []
    for _ in range(size):
        results_item, position = _read_create_partitions_topic_result_flexible(
            buffer, position, end
        )
        results_list.append(results_item)
    results = tuple(results_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return CreatePartitionsResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time), results=results
    ), position


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[CreatePartitionsResponse, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 2:
        return _read_response_flexible(buffer, position, end, version)
    return _read_response_legacy(buffer, position, end, version)
