"""DescribeLogDirs messages, versions 1 to 4.

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
    EncodedItems,
    varint,
)

_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_ih = Struct(">ih").pack
_pack_iqqo = Struct(">iqq?").pack
_pack_qq = Struct(">qq").pack
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_ih = Struct(">ih").unpack_from
_unpack_iqqo = Struct(">iqq?").unpack_from
_unpack_qq = Struct(">qq").unpack_from


@dataclass(slots=True, kw_only=True)
class DescribableLogDirTopic:
    """Part of DescribeLogDirs."""

    topic: str
    partitions: tuple[int, ...] = ()


@dataclass(slots=True, kw_only=True)
class DescribeLogDirsRequest:
    """DescribeLogDirs request, versions 1-4."""

    topics: tuple[DescribableLogDirTopic, ...] | None


@dataclass(slots=True, kw_only=True)
class DescribeLogDirsPartition:
    """Part of DescribeLogDirs."""

    partition_index: int
    partition_size: int
    offset_lag: int
    is_future_key: bool


@dataclass(slots=True, kw_only=True)
class DescribeLogDirsTopic:
    """Part of DescribeLogDirs."""

    name: str
    partitions: tuple[DescribeLogDirsPartition, ...] | EncodedItems


@dataclass(slots=True, kw_only=True)
class DescribeLogDirsResult:
    """Part of DescribeLogDirs."""

    error_code: ErrorCode
    log_dir: str
    topics: tuple[DescribeLogDirsTopic, ...]
    total_bytes: int = -1
    usable_bytes: int = -1


@dataclass(slots=True, kw_only=True)
class DescribeLogDirsResponse:
    """DescribeLogDirs response, versions 1-4."""

    throttle_time: timedelta
    error_code: ErrorCode
    results: tuple[DescribeLogDirsResult, ...]


def _read_describable_log_dir_topic(
    buffer: bytes, position: int, end: int
) -> tuple[DescribableLogDirTopic, int]:
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
    if 4 * size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    partitions = unpack_from(f">{size}i", buffer, position)
    position += 4 * size
    return DescribableLogDirTopic(topic=topic, partitions=partitions), position


def _read_request_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeLogDirsRequest, int]:
    topics: tuple[DescribableLogDirTopic, ...] | None
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size >= 0:
        if size > end - position:
            raise truncated()
        if size > ELEMENTS_MAX:
            raise too_many(size)
        topics_list: list[DescribableLogDirTopic] = []
        for _ in range(size):
            topics_item, position = _read_describable_log_dir_topic(buffer, position, end)
            topics_list.append(topics_item)
        topics = tuple(topics_list)
    elif size == -1:
        topics = None
    else:
        raise PeerError("topics is null or has a negative length")
    return DescribeLogDirsRequest(topics=topics), position


def _read_describable_log_dir_topic_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[DescribableLogDirTopic, int]:
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
    if 4 * size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    partitions = unpack_from(f">{size}i", buffer, position)
    position += 4 * size
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DescribableLogDirTopic(topic=topic, partitions=partitions), position


def _read_request_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeLogDirsRequest, int]:
    topics: tuple[DescribableLogDirTopic, ...] | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        if size > end - position:
            raise truncated()
        if size > ELEMENTS_MAX:
            raise too_many(size)
        topics_list: list[DescribableLogDirTopic] = []
        for _ in range(size):
            topics_item, position = _read_describable_log_dir_topic_flexible(buffer, position, end)
            topics_list.append(topics_item)
        topics = tuple(topics_list)
    else:
        topics = None
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DescribeLogDirsRequest(topics=topics), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeLogDirsRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 2:
        return _read_request_flexible(buffer, position, end, version)
    return _read_request_legacy(buffer, position, end, version)


def _write_describe_log_dirs_partition(out: bytearray, message: DescribeLogDirsPartition) -> None:
    out += _pack_iqqo(
        message.partition_index, message.partition_size, message.offset_lag, message.is_future_key
    )


def _write_describe_log_dirs_topic(out: bytearray, message: DescribeLogDirsTopic) -> None:
    encoded = message.name.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_i(len(message.partitions))
    if isinstance(message.partitions, EncodedItems):
        out += message.partitions.content
    else:
        for partitions_item in message.partitions:
            _write_describe_log_dirs_partition(out, partitions_item)


def _write_describe_log_dirs_result(out: bytearray, message: DescribeLogDirsResult) -> None:
    out += _pack_h(message.error_code)
    encoded = message.log_dir.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_i(len(message.topics))
    for topics_item in message.topics:
        _write_describe_log_dirs_topic(out, topics_item)


def _write_response_legacy(out: bytearray, message: DescribeLogDirsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time // MILLISECOND)
    out += _pack_i(len(message.results))
    for results_item in message.results:
        _write_describe_log_dirs_result(out, results_item)


def _write_describe_log_dirs_partition_flexible(
    out: bytearray, message: DescribeLogDirsPartition
) -> None:
    out += _pack_iqqo(
        message.partition_index, message.partition_size, message.offset_lag, message.is_future_key
    )
    out += NO_TAGS


def _write_describe_log_dirs_topic_flexible(out: bytearray, message: DescribeLogDirsTopic) -> None:
    encoded = message.name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += varint(len(message.partitions) + 1)
    if isinstance(message.partitions, EncodedItems):
        out += message.partitions.content
    else:
        for partitions_item in message.partitions:
            _write_describe_log_dirs_partition_flexible(out, partitions_item)
    out += NO_TAGS


def _write_describe_log_dirs_result_flexible(
    out: bytearray, message: DescribeLogDirsResult, version: int
) -> None:
    out += _pack_h(message.error_code)
    encoded = message.log_dir.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += varint(len(message.topics) + 1)
    for topics_item in message.topics:
        _write_describe_log_dirs_topic_flexible(out, topics_item)
    if version >= 4:
        out += _pack_qq(message.total_bytes, message.usable_bytes)
    out += NO_TAGS


def _write_response_flexible(
    out: bytearray, message: DescribeLogDirsResponse, version: int
) -> None:
    if version >= 3:
        out += _pack_ih(message.throttle_time // MILLISECOND, message.error_code)
    else:
        out += _pack_i(message.throttle_time // MILLISECOND)
    out += varint(len(message.results) + 1)
    for results_item in message.results:
        _write_describe_log_dirs_result_flexible(out, results_item, version)
    out += NO_TAGS


def write_response(out: bytearray, message: DescribeLogDirsResponse, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 2:
        _write_response_flexible(out, message, version)
    else:
        _write_response_legacy(out, message, version)


def _write_describable_log_dir_topic(out: bytearray, message: DescribableLogDirTopic) -> None:
    encoded = message.topic.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_i(len(message.partitions))
    out += pack(f">{len(message.partitions)}i", *message.partitions)


def _write_request_legacy(out: bytearray, message: DescribeLogDirsRequest, version: int) -> None:
    if message.topics is None:
        out += NULL_ARRAY
    else:
        out += _pack_i(len(message.topics))
        for topics_item in message.topics:
            _write_describable_log_dir_topic(out, topics_item)


def _write_describable_log_dir_topic_flexible(
    out: bytearray, message: DescribableLogDirTopic
) -> None:
    encoded = message.topic.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += varint(len(message.partitions) + 1)
    out += pack(f">{len(message.partitions)}i", *message.partitions)
    out += NO_TAGS


def _write_request_flexible(out: bytearray, message: DescribeLogDirsRequest, version: int) -> None:
    if message.topics is None:
        out += NULL_COMPACT
    else:
        out += varint(len(message.topics) + 1)
        for topics_item in message.topics:
            _write_describable_log_dir_topic_flexible(out, topics_item)
    out += NO_TAGS


def write_request(out: bytearray, message: DescribeLogDirsRequest, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 2:
        _write_request_flexible(out, message, version)
    else:
        _write_request_legacy(out, message, version)


def _read_describe_log_dirs_partition(
    buffer: bytes, position: int, end: int
) -> tuple[DescribeLogDirsPartition, int]:
    partition_index, partition_size, offset_lag, is_future_key = _unpack_iqqo(buffer, position)
    position += 21
    return DescribeLogDirsPartition(
        partition_index=partition_index,
        partition_size=partition_size,
        offset_lag=offset_lag,
        is_future_key=is_future_key,
    ), position


def _read_describe_log_dirs_topic(
    buffer: bytes, position: int, end: int
) -> tuple[DescribeLogDirsTopic, int]:
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
    partitions_list: list[DescribeLogDirsPartition] = []
    for _ in range(size):
        partitions_item, position = _read_describe_log_dirs_partition(buffer, position, end)
        partitions_list.append(partitions_item)
    partitions = tuple(partitions_list)
    return DescribeLogDirsTopic(name=name, partitions=partitions), position


def _read_describe_log_dirs_result(
    buffer: bytes, position: int, end: int
) -> tuple[DescribeLogDirsResult, int]:
    (error_code,) = _unpack_h(buffer, position)
    position += 2
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("log_dir is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    log_dir = buffer[start:position].decode()
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("topics is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    topics_list: list[DescribeLogDirsTopic] = []
    for _ in range(size):
        topics_item, position = _read_describe_log_dirs_topic(buffer, position, end)
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    return DescribeLogDirsResult(
        error_code=ErrorCode(error_code), log_dir=log_dir, topics=topics
    ), position


def _read_response_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeLogDirsResponse, int]:
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
    results_list: list[DescribeLogDirsResult] = []
    for _ in range(size):
        results_item, position = _read_describe_log_dirs_result(buffer, position, end)
        results_list.append(results_item)
    results = tuple(results_list)
    return DescribeLogDirsResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time), error_code=ErrorCode.none, results=results
    ), position


def _read_describe_log_dirs_partition_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[DescribeLogDirsPartition, int]:
    partition_index, partition_size, offset_lag, is_future_key = _unpack_iqqo(buffer, position)
    position += 21
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DescribeLogDirsPartition(
        partition_index=partition_index,
        partition_size=partition_size,
        offset_lag=offset_lag,
        is_future_key=is_future_key,
    ), position


def _read_describe_log_dirs_topic_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[DescribeLogDirsTopic, int]:
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
    partitions_list: list[DescribeLogDirsPartition] = []
    for _ in range(size):
        partitions_item, position = _read_describe_log_dirs_partition_flexible(
            buffer, position, end
        )
        partitions_list.append(partitions_item)
    partitions = tuple(partitions_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DescribeLogDirsTopic(name=name, partitions=partitions), position


def _read_describe_log_dirs_result_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeLogDirsResult, int]:
    (error_code,) = _unpack_h(buffer, position)
    position += 2
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("log_dir is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    log_dir = buffer[start:position].decode()
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
    topics_list: list[DescribeLogDirsTopic] = []
    for _ in range(size):
        topics_item, position = _read_describe_log_dirs_topic_flexible(buffer, position, end)
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    total_bytes: int = -1
    usable_bytes: int = -1
    if version >= 4:
        total_bytes, usable_bytes = _unpack_qq(buffer, position)
        position += 16
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DescribeLogDirsResult(
        error_code=ErrorCode(error_code),
        log_dir=log_dir,
        topics=topics,
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
    ), position


def _read_response_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeLogDirsResponse, int]:
    error_code: ErrorCode = ErrorCode.none
    if version >= 3:
        throttle_time, error_code_raw = _unpack_ih(buffer, position)
        position += 6
        error_code = ErrorCode(error_code_raw)
    else:
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
    results_list: list[DescribeLogDirsResult] = []
    for _ in range(size):
        results_item, position = _read_describe_log_dirs_result_flexible(
            buffer, position, end, version
        )
        results_list.append(results_item)
    results = tuple(results_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DescribeLogDirsResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time), error_code=error_code, results=results
    ), position


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeLogDirsResponse, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 2:
        return _read_response_flexible(buffer, position, end, version)
    return _read_response_legacy(buffer, position, end, version)


def write_describe_log_dirs_partition(
    out: bytearray, message: DescribeLogDirsPartition, version: int
) -> None:
    """Append one item of `EncodedItems` as this version has it."""
    if version >= 2:
        _write_describe_log_dirs_partition_flexible(out, message)
    else:
        _write_describe_log_dirs_partition(out, message)
