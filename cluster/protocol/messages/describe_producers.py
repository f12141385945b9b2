"""DescribeProducers messages, versions 0 to 0.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import timedelta
from struct import Struct, pack, unpack_from

from cluster.model.error_codes import ErrorCode
from cluster.model.errors import PeerError
from cluster.protocol.reader import ELEMENTS_MAX, read_length, skip_tags, too_many, truncated
from cluster.protocol.writer import MILLISECOND, NO_TAGS, NULL_COMPACT, EncodedItems, varint

_pack_i = Struct(">i").pack
_pack_ih = Struct(">ih").pack
_pack_qiiqiq = Struct(">qiiqiq").pack
_unpack_i = Struct(">i").unpack_from
_unpack_ih = Struct(">ih").unpack_from
_unpack_qiiqiq = Struct(">qiiqiq").unpack_from


@dataclass(slots=True, kw_only=True)
class DescribeProducersTopicRequest:
    """Part of DescribeProducers."""

    name: str
    partition_indexes: tuple[int, ...] = ()


@dataclass(slots=True, kw_only=True)
class DescribeProducersRequest:
    """DescribeProducers request, versions 0-0."""

    topics: tuple[DescribeProducersTopicRequest, ...]


@dataclass(slots=True, kw_only=True)
class DescribedProducer:
    """Part of DescribeProducers."""

    producer_id: int
    producer_epoch: int
    last_sequence: int = -1
    last_timestamp: int = -1
    coordinator_epoch: int
    current_txn_start_offset: int = -1


@dataclass(slots=True, kw_only=True)
class DescribedProducersPartition:
    """Part of DescribeProducers."""

    partition_index: int
    error_code: ErrorCode
    error_message: str | None = None
    active_producers: tuple[DescribedProducer, ...] | EncodedItems


@dataclass(slots=True, kw_only=True)
class DescribedProducersTopic:
    """Part of DescribeProducers."""

    name: str
    partitions: tuple[DescribedProducersPartition, ...]


@dataclass(slots=True, kw_only=True)
class DescribeProducersResponse:
    """DescribeProducers response, versions 0-0."""

    throttle_time: timedelta
    topics: tuple[DescribedProducersTopic, ...]


def _read_describe_producers_topic_request(
    buffer: bytes, position: int, end: int
) -> tuple[DescribeProducersTopicRequest, int]:
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
    return DescribeProducersTopicRequest(name=name, partition_indexes=partition_indexes), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeProducersRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
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
    topics_list: list[DescribeProducersTopicRequest] = []
    for _ in range(size):
        topics_item, position = _read_describe_producers_topic_request(buffer, position, end)
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DescribeProducersRequest(topics=topics), position


def _write_described_producer(out: bytearray, message: DescribedProducer) -> None:
    out += _pack_qiiqiq(
        message.producer_id,
        message.producer_epoch,
        message.last_sequence,
        message.last_timestamp,
        message.coordinator_epoch,
        message.current_txn_start_offset,
    )
    out += NO_TAGS


def _write_described_producers_partition(
    out: bytearray, message: DescribedProducersPartition
) -> None:
    out += _pack_ih(message.partition_index, message.error_code)
    if message.error_message is None:
        out += NULL_COMPACT
    else:
        encoded = message.error_message.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += varint(len(message.active_producers) + 1)
    if isinstance(message.active_producers, EncodedItems):
        out += message.active_producers.content
    else:
        for active_producers_item in message.active_producers:
            _write_described_producer(out, active_producers_item)
    out += NO_TAGS


def _write_described_producers_topic(out: bytearray, message: DescribedProducersTopic) -> None:
    encoded = message.name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += varint(len(message.partitions) + 1)
    for partitions_item in message.partitions:
        _write_described_producers_partition(out, partitions_item)
    out += NO_TAGS


def write_response(out: bytearray, message: DescribeProducersResponse, version: int) -> None:
    """Append the message as this version has it."""
    out += _pack_i(message.throttle_time // MILLISECOND)
    out += varint(len(message.topics) + 1)
    for topics_item in message.topics:
        _write_described_producers_topic(out, topics_item)
    out += NO_TAGS


def _write_describe_producers_topic_request(
    out: bytearray, message: DescribeProducersTopicRequest
) -> None:
    encoded = message.name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += varint(len(message.partition_indexes) + 1)
    out += pack(f">{len(message.partition_indexes)}i", *message.partition_indexes)
    out += NO_TAGS


def write_request(out: bytearray, message: DescribeProducersRequest, version: int) -> None:
    """Append the message as this version has it."""
    out += varint(len(message.topics) + 1)
    for topics_item in message.topics:
        _write_describe_producers_topic_request(out, topics_item)
    out += NO_TAGS


def _read_described_producer(
    buffer: bytes, position: int, end: int
) -> tuple[DescribedProducer, int]:
    (
        producer_id,
        producer_epoch,
        last_sequence,
        last_timestamp,
        coordinator_epoch,
        current_txn_start_offset,
    ) = _unpack_qiiqiq(buffer, position)
    position += 36
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DescribedProducer(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        last_sequence=last_sequence,
        last_timestamp=last_timestamp,
        coordinator_epoch=coordinator_epoch,
        current_txn_start_offset=current_txn_start_offset,
    ), position


def _read_described_producers_partition(
    buffer: bytes, position: int, end: int
) -> tuple[DescribedProducersPartition, int]:
    partition_index, error_code = _unpack_ih(buffer, position)
    position += 6
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
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("active_producers is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    active_producers_list: list[DescribedProducer] = []
    for _ in range(size):
        active_producers_item, position = _read_described_producer(buffer, position, end)
        active_producers_list.append(active_producers_item)
    active_producers = tuple(active_producers_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DescribedProducersPartition(
        partition_index=partition_index,
        error_code=ErrorCode(error_code),
        error_message=error_message,
        active_producers=active_producers,
    ), position


def _read_described_producers_topic(
    buffer: bytes, position: int, end: int
) -> tuple[DescribedProducersTopic, int]:
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
    partitions_list: list[DescribedProducersPartition] = []
    for _ in range(size):
        partitions_item, position = _read_described_producers_partition(buffer, position, end)
        partitions_list.append(partitions_item)
    partitions = tuple(partitions_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DescribedProducersTopic(name=name, partitions=partitions), position


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeProducersResponse, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
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
    topics_list: list[DescribedProducersTopic] = []
    for _ in range(size):
        topics_item, position = _read_described_producers_topic(buffer, position, end)
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DescribeProducersResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time), topics=topics
    ), position


def write_described_producer(out: bytearray, message: DescribedProducer, version: int) -> None:
    """Append one item of `EncodedItems` as this version has it."""
    _write_described_producer(out, message)
