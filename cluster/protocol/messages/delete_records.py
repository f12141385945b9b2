"""DeleteRecords messages, versions 0 to 2.

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
_pack_i = Struct(">i").pack
_pack_iq = Struct(">iq").pack
_pack_iqh = Struct(">iqh").pack
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_iq = Struct(">iq").unpack_from
_unpack_iqh = Struct(">iqh").unpack_from


@dataclass(slots=True, kw_only=True)
class DeleteRecordsPartition:
    """Part of DeleteRecords."""

    partition_index: int
    offset: int


@dataclass(slots=True, kw_only=True)
class DeleteRecordsTopic:
    """Part of DeleteRecords."""

    name: str
    partitions: tuple[DeleteRecordsPartition, ...]


@dataclass(slots=True, kw_only=True)
class DeleteRecordsRequest:
    """DeleteRecords request, versions 0-2."""

    topics: tuple[DeleteRecordsTopic, ...]
    timeout: timedelta


@dataclass(slots=True, kw_only=True)
class DeleteRecordsPartitionResult:
    """Part of DeleteRecords."""

    partition_index: int
    low_watermark: int
    error_code: ErrorCode


@dataclass(slots=True, kw_only=True)
class DeleteRecordsTopicResult:
    """Part of DeleteRecords."""

    name: str
    partitions: tuple[DeleteRecordsPartitionResult, ...]


@dataclass(slots=True, kw_only=True)
class DeleteRecordsResponse:
    """DeleteRecords response, versions 0-2."""

    throttle_time: timedelta
    topics: tuple[DeleteRecordsTopicResult, ...]


def _read_delete_records_partition(
    buffer: bytes, position: int, end: int
) -> tuple[DeleteRecordsPartition, int]:
    partition_index, offset = _unpack_iq(buffer, position)
    position += 12
    return DeleteRecordsPartition(partition_index=partition_index, offset=offset), position


def _read_delete_records_topic(
    buffer: bytes, position: int, end: int
) -> tuple[DeleteRecordsTopic, int]:
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
    partitions_list: list[DeleteRecordsPartition] = []
    for _ in range(size):
        partitions_item, position = _read_delete_records_partition(buffer, position, end)
        partitions_list.append(partitions_item)
    partitions = tuple(partitions_list)
    return DeleteRecordsTopic(name=name, partitions=partitions), position


def _read_request_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DeleteRecordsRequest, int]:
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("topics is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    topics_list: list[DeleteRecordsTopic] = []
    for _ in range(size):
        topics_item, position = _read_delete_records_topic(buffer, position, end)
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    (timeout,) = _unpack_i(buffer, position)
    position += 4
    return DeleteRecordsRequest(topics=topics, timeout=timedelta(0, 0, 0, timeout)), position


def _read_delete_records_partition_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[DeleteRecordsPartition, int]:
    partition_index, offset = _unpack_iq(buffer, position)
    position += 12
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DeleteRecordsPartition(partition_index=partition_index, offset=offset), position


def _read_delete_records_topic_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[DeleteRecordsTopic, int]:
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
    partitions_list: list[DeleteRecordsPartition] = []
    for _ in range(size):
        partitions_item, position = _read_delete_records_partition_flexible(buffer, position, end)
        partitions_list.append(partitions_item)
    partitions = tuple(partitions_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DeleteRecordsTopic(name=name, partitions=partitions), position


def _read_request_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DeleteRecordsRequest, int]:
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
    topics_list: list[DeleteRecordsTopic] = []
    for _ in range(size):
        topics_item, position = _read_delete_records_topic_flexible(buffer, position, end)
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    (timeout,) = _unpack_i(buffer, position)
    position += 4
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DeleteRecordsRequest(topics=topics, timeout=timedelta(0, 0, 0, timeout)), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DeleteRecordsRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 2:
        return _read_request_flexible(buffer, position, end, version)
    return _read_request_legacy(buffer, position, end, version)


def _write_delete_records_partition_result(
    out: bytearray, message: DeleteRecordsPartitionResult
) -> None:
    out += _pack_iqh(message.partition_index, message.low_watermark, message.error_code)


def _write_delete_records_topic_result(out: bytearray, message: DeleteRecordsTopicResult) -> None:
    encoded = message.name.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_i(len(message.partitions))
    for partitions_item in message.partitions:
        _write_delete_records_partition_result(out, partitions_item)


def _write_response_legacy(out: bytearray, message: DeleteRecordsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time // MILLISECOND)
    out += _pack_i(len(message.topics))
    for topics_item in message.topics:
        _write_delete_records_topic_result(out, topics_item)


def _write_delete_records_partition_result_flexible(
    out: bytearray, message: DeleteRecordsPartitionResult
) -> None:
    out += _pack_iqh(message.partition_index, message.low_watermark, message.error_code)
    out += NO_TAGS


def _write_delete_records_topic_result_flexible(
    out: bytearray, message: DeleteRecordsTopicResult
) -> None:
    encoded = message.name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += varint(len(message.partitions) + 1)
    for partitions_item in message.partitions:
        _write_delete_records_partition_result_flexible(out, partitions_item)
    out += NO_TAGS


def _write_response_flexible(out: bytearray, message: DeleteRecordsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time // MILLISECOND)
    out += varint(len(message.topics) + 1)
    for topics_item in message.topics:
        _write_delete_records_topic_result_flexible(out, topics_item)
    out += NO_TAGS


def write_response(out: bytearray, message: DeleteRecordsResponse, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 2:
        _write_response_flexible(out, message, version)
    else:
        _write_response_legacy(out, message, version)


def _write_delete_records_partition(out: bytearray, message: DeleteRecordsPartition) -> None:
    out += _pack_iq(message.partition_index, message.offset)


def _write_delete_records_topic(out: bytearray, message: DeleteRecordsTopic) -> None:
    encoded = message.name.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_i(len(message.partitions))
    for partitions_item in message.partitions:
        _write_delete_records_partition(out, partitions_item)


def _write_request_legacy(out: bytearray, message: DeleteRecordsRequest, version: int) -> None:
    out += _pack_i(len(message.topics))
    for topics_item in message.topics:
        _write_delete_records_topic(out, topics_item)
    out += _pack_i(message.timeout // MILLISECOND)


def _write_delete_records_partition_flexible(
    out: bytearray, message: DeleteRecordsPartition
) -> None:
    out += _pack_iq(message.partition_index, message.offset)
    out += NO_TAGS


def _write_delete_records_topic_flexible(out: bytearray, message: DeleteRecordsTopic) -> None:
    encoded = message.name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += varint(len(message.partitions) + 1)
    for partitions_item in message.partitions:
        _write_delete_records_partition_flexible(out, partitions_item)
    out += NO_TAGS


def _write_request_flexible(out: bytearray, message: DeleteRecordsRequest, version: int) -> None:
    out += varint(len(message.topics) + 1)
    for topics_item in message.topics:
        _write_delete_records_topic_flexible(out, topics_item)
    out += _pack_i(message.timeout // MILLISECOND)
    out += NO_TAGS


def write_request(out: bytearray, message: DeleteRecordsRequest, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 2:
        _write_request_flexible(out, message, version)
    else:
        _write_request_legacy(out, message, version)


def _read_delete_records_partition_result(
    buffer: bytes, position: int, end: int
) -> tuple[DeleteRecordsPartitionResult, int]:
    partition_index, low_watermark, error_code = _unpack_iqh(buffer, position)
    position += 14
    return DeleteRecordsPartitionResult(
        partition_index=partition_index,
        low_watermark=low_watermark,
        error_code=ErrorCode(error_code),
    ), position


def _read_delete_records_topic_result(
    buffer: bytes, position: int, end: int
) -> tuple[DeleteRecordsTopicResult, int]:
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
    partitions_list: list[DeleteRecordsPartitionResult] = []
    for _ in range(size):
        partitions_item, position = _read_delete_records_partition_result(buffer, position, end)
        partitions_list.append(partitions_item)
    partitions = tuple(partitions_list)
    return DeleteRecordsTopicResult(name=name, partitions=partitions), position


def _read_response_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DeleteRecordsResponse, int]:
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
    topics_list: list[DeleteRecordsTopicResult] = []
    for _ in range(size):
        topics_item, position = _read_delete_records_topic_result(buffer, position, end)
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    return DeleteRecordsResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time), topics=topics
    ), position


def _read_delete_records_partition_result_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[DeleteRecordsPartitionResult, int]:
    partition_index, low_watermark, error_code = _unpack_iqh(buffer, position)
    position += 14
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DeleteRecordsPartitionResult(
        partition_index=partition_index,
        low_watermark=low_watermark,
        error_code=ErrorCode(error_code),
    ), position


def _read_delete_records_topic_result_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[DeleteRecordsTopicResult, int]:
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
    partitions_list: list[DeleteRecordsPartitionResult] = []
    for _ in range(size):
        partitions_item, position = _read_delete_records_partition_result_flexible(
            buffer, position, end
        )
        partitions_list.append(partitions_item)
    partitions = tuple(partitions_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DeleteRecordsTopicResult(name=name, partitions=partitions), position


def _read_response_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DeleteRecordsResponse, int]:
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
    topics_list: list[DeleteRecordsTopicResult] = []
    for _ in range(size):
        topics_item, position = _read_delete_records_topic_result_flexible(buffer, position, end)
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DeleteRecordsResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time), topics=topics
    ), position


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DeleteRecordsResponse, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 2:
        return _read_response_flexible(buffer, position, end, version)
    return _read_response_legacy(buffer, position, end, version)
