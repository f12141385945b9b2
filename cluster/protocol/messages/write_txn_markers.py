"""WriteTxnMarkers messages, versions 1 to 1.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from struct import Struct, pack, unpack_from

from cluster.model.error_codes import ErrorCode
from cluster.model.errors import PeerError
from cluster.protocol.reader import ELEMENTS_MAX, read_length, skip_tags, too_many, truncated
from cluster.protocol.writer import NO_TAGS, varint

_pack_i = Struct(">i").pack
_pack_ih = Struct(">ih").pack
_pack_q = Struct(">q").pack
_pack_qho = Struct(">qh?").pack
_unpack_i = Struct(">i").unpack_from
_unpack_ih = Struct(">ih").unpack_from
_unpack_q = Struct(">q").unpack_from
_unpack_qho = Struct(">qh?").unpack_from


@dataclass(slots=True, kw_only=True)
class WritableTxnMarkerTopic:
    """Part of WriteTxnMarkers."""

    name: str
    partition_indexes: tuple[int, ...] = ()


@dataclass(slots=True, kw_only=True)
class WritableTxnMarker:
    """Part of WriteTxnMarkers."""

    producer_id: int
    producer_epoch: int
    transaction_result: bool
    topics: tuple[WritableTxnMarkerTopic, ...]
    coordinator_epoch: int


@dataclass(slots=True, kw_only=True)
class WriteTxnMarkersRequest:
    """WriteTxnMarkers request, versions 1-1."""

    markers: tuple[WritableTxnMarker, ...]


@dataclass(slots=True, kw_only=True)
class WritableTxnMarkerPartitionResult:
    """Part of WriteTxnMarkers."""

    partition_index: int
    error_code: ErrorCode


@dataclass(slots=True, kw_only=True)
class WritableTxnMarkerTopicResult:
    """Part of WriteTxnMarkers."""

    name: str
    partitions: tuple[WritableTxnMarkerPartitionResult, ...]


@dataclass(slots=True, kw_only=True)
class WritableTxnMarkerResult:
    """Part of WriteTxnMarkers."""

    producer_id: int
    topics: tuple[WritableTxnMarkerTopicResult, ...]


@dataclass(slots=True, kw_only=True)
class WriteTxnMarkersResponse:
    """WriteTxnMarkers response, versions 1-1."""

    markers: tuple[WritableTxnMarkerResult, ...]


def _read_writable_txn_marker_topic(
    buffer: bytes, position: int, end: int
) -> tuple[WritableTxnMarkerTopic, int]:
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
    return WritableTxnMarkerTopic(name=name, partition_indexes=partition_indexes), position


def _read_writable_txn_marker(
    buffer: bytes, position: int, end: int
) -> tuple[WritableTxnMarker, int]:
    producer_id, producer_epoch, transaction_result = _unpack_qho(buffer, position)
    position += 11
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
    topics_list: list[WritableTxnMarkerTopic] = []
    for _ in range(size):
        topics_item, position = _read_writable_txn_marker_topic(buffer, position, end)
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    (coordinator_epoch,) = _unpack_i(buffer, position)
    position += 4
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transaction_result=transaction_result,
        topics=topics,
        coordinator_epoch=coordinator_epoch,
    ), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[WriteTxnMarkersRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("markers is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    markers_list: list[WritableTxnMarker] = []
    for _ in range(size):
        markers_item, position = _read_writable_txn_marker(buffer, position, end)
        markers_list.append(markers_item)
    markers = tuple(markers_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return WriteTxnMarkersRequest(markers=markers), position


def _write_writable_txn_marker_partition_result(
    out: bytearray, message: WritableTxnMarkerPartitionResult
) -> None:
    out += _pack_ih(message.partition_index, message.error_code)
    out += NO_TAGS


def _write_writable_txn_marker_topic_result(
    out: bytearray, message: WritableTxnMarkerTopicResult
) -> None:
    encoded = message.name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += varint(len(message.partitions) + 1)
    for partitions_item in message.partitions:
        _write_writable_txn_marker_partition_result(out, partitions_item)
    out += NO_TAGS


def _write_writable_txn_marker_result(out: bytearray, message: WritableTxnMarkerResult) -> None:
    out += _pack_q(message.producer_id)
    out += varint(len(message.topics) + 1)
    for topics_item in message.topics:
        _write_writable_txn_marker_topic_result(out, topics_item)
    out += NO_TAGS


def write_response(out: bytearray, message: WriteTxnMarkersResponse, version: int) -> None:
    """Append the message as this version has it."""
    out += varint(len(message.markers) + 1)
    for markers_item in message.markers:
        _write_writable_txn_marker_result(out, markers_item)
    out += NO_TAGS


def _write_writable_txn_marker_topic(out: bytearray, message: WritableTxnMarkerTopic) -> None:
    encoded = message.name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += varint(len(message.partition_indexes) + 1)
    out += pack(f">{len(message.partition_indexes)}i", *message.partition_indexes)
    out += NO_TAGS


def _write_writable_txn_marker(out: bytearray, message: WritableTxnMarker) -> None:
    out += _pack_qho(message.producer_id, message.producer_epoch, message.transaction_result)
    out += varint(len(message.topics) + 1)
    for topics_item in message.topics:
        _write_writable_txn_marker_topic(out, topics_item)
    out += _pack_i(message.coordinator_epoch)
    out += NO_TAGS


def write_request(out: bytearray, message: WriteTxnMarkersRequest, version: int) -> None:
    """Append the message as this version has it."""
    out += varint(len(message.markers) + 1)
    for markers_item in message.markers:
        _write_writable_txn_marker(out, markers_item)
    out += NO_TAGS


def _read_writable_txn_marker_partition_result(
    buffer: bytes, position: int, end: int
) -> tuple[WritableTxnMarkerPartitionResult, int]:
    partition_index, error_code = _unpack_ih(buffer, position)
    position += 6
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return WritableTxnMarkerPartitionResult(
        partition_index=partition_index, error_code=ErrorCode(error_code)
    ), position


def _read_writable_txn_marker_topic_result(
    buffer: bytes, position: int, end: int
) -> tuple[WritableTxnMarkerTopicResult, int]:
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
    partitions_list: list[WritableTxnMarkerPartitionResult] = []
    for _ in range(size):
        partitions_item, position = _read_writable_txn_marker_partition_result(
            buffer, position, end
        )
        partitions_list.append(partitions_item)
    partitions = tuple(partitions_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return WritableTxnMarkerTopicResult(name=name, partitions=partitions), position


def _read_writable_txn_marker_result(
    buffer: bytes, position: int, end: int
) -> tuple[WritableTxnMarkerResult, int]:
    (producer_id,) = _unpack_q(buffer, position)
    position += 8
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
    topics_list: list[WritableTxnMarkerTopicResult] = []
    for _ in range(size):
        topics_item, position = _read_writable_txn_marker_topic_result(buffer, position, end)
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return WritableTxnMarkerResult(producer_id=producer_id, topics=topics), position


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[WriteTxnMarkersResponse, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("markers is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    markers_list: list[WritableTxnMarkerResult] = []
    for _ in range(size):
        markers_item, position = _read_writable_txn_marker_result(buffer, position, end)
        markers_list.append(markers_item)
    markers = tuple(markers_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return WriteTxnMarkersResponse(markers=markers), position
