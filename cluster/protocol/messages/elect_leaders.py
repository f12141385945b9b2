"""ElectLeaders messages, versions 0 to 2.

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

_pack_b = Struct(">b").pack
_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_ih = Struct(">ih").pack
_unpack_b = Struct(">b").unpack_from
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_ih = Struct(">ih").unpack_from


@dataclass(slots=True, kw_only=True)
class TopicPartitions:
    """Part of ElectLeaders."""

    topic: str
    partitions: tuple[int, ...] = ()


@dataclass(slots=True, kw_only=True)
class ElectLeadersRequest:
    """ElectLeaders request, versions 0-2."""

    election_type: int
    topic_partitions: tuple[TopicPartitions, ...] | None
    timeout: timedelta = timedelta(milliseconds=60000)


@dataclass(slots=True, kw_only=True)
class PartitionResult:
    """Part of ElectLeaders."""

    partition_id: int
    error_code: ErrorCode
    error_message: str | None


@dataclass(slots=True, kw_only=True)
class ReplicaElectionResult:
    """Part of ElectLeaders."""

    topic: str
    partition_result: tuple[PartitionResult, ...]


@dataclass(slots=True, kw_only=True)
class ElectLeadersResponse:
    """ElectLeaders response, versions 0-2."""

    throttle_time: timedelta
    error_code: ErrorCode
    replica_election_results: tuple[ReplicaElectionResult, ...]


def _read_topic_partitions(buffer: bytes, position: int, end: int) -> tuple[TopicPartitions, int]:
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
    return TopicPartitions(topic=topic, partitions=partitions), position


def _read_request_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ElectLeadersRequest, int]:
    election_type: int = 0
    if version >= 1:
        (election_type,) = _unpack_b(buffer, position)
        position += 1
    topic_partitions: tuple[TopicPartitions, ...] | None
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size >= 0:
        if size > end - position:
            raise truncated()
        if size > ELEMENTS_MAX:
            raise too_many(size)
        topic_partitions_list: list[TopicPartitions] = []
        for _ in range(size):
            topic_partitions_item, position = _read_topic_partitions(buffer, position, end)
            topic_partitions_list.append(topic_partitions_item)
        topic_partitions = tuple(topic_partitions_list)
    elif size == -1:
        topic_partitions = None
    else:
        raise PeerError("topic_partitions is null or has a negative length")
    (timeout,) = _unpack_i(buffer, position)
    position += 4
    return ElectLeadersRequest(
        election_type=election_type,
        topic_partitions=topic_partitions,
        timeout=timedelta(0, 0, 0, timeout),
    ), position


def _read_topic_partitions_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[TopicPartitions, int]:
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
    return TopicPartitions(topic=topic, partitions=partitions), position


def _read_request_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ElectLeadersRequest, int]:
    (election_type,) = _unpack_b(buffer, position)
    position += 1
    topic_partitions: tuple[TopicPartitions, ...] | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        if size > end - position:
            raise truncated()
        if size > ELEMENTS_MAX:
            raise too_many(size)
        topic_partitions_list: list[TopicPartitions] = []
        for _ in range(size):
            topic_partitions_item, position = _read_topic_partitions_flexible(buffer, position, end)
            topic_partitions_list.append(topic_partitions_item)
        topic_partitions = tuple(topic_partitions_list)
    else:
        topic_partitions = None
    (timeout,) = _unpack_i(buffer, position)
    position += 4
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return ElectLeadersRequest(
        election_type=election_type,
        topic_partitions=topic_partitions,
        timeout=timedelta(0, 0, 0, timeout),
    ), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ElectLeadersRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 2:
        return _read_request_flexible(buffer, position, end, version)
    return _read_request_legacy(buffer, position, end, version)


def _write_partition_result(out: bytearray, message: PartitionResult) -> None:
    out += _pack_ih(message.partition_id, message.error_code)
    if message.error_message is None:
        out += NULL_STRING
    else:
        encoded = message.error_message.encode()
        out += _pack_h(len(encoded))
        out += encoded


def _write_replica_election_result(out: bytearray, message: ReplicaElectionResult) -> None:
    encoded = message.topic.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_i(len(message.partition_result))
    for partition_result_item in message.partition_result:
        _write_partition_result(out, partition_result_item)


def _write_response_legacy(out: bytearray, message: ElectLeadersResponse, version: int) -> None:
    if version >= 1:
        out += _pack_ih(message.throttle_time // MILLISECOND, message.error_code)
    else:
        out += _pack_i(message.throttle_time // MILLISECOND)
    out += _pack_i(len(message.replica_election_results))
    for replica_election_results_item in message.replica_election_results:
        _write_replica_election_result(out, replica_election_results_item)


def _write_partition_result_flexible(out: bytearray, message: PartitionResult) -> None:
    out += _pack_ih(message.partition_id, message.error_code)
    if message.error_message is None:
        out += NULL_COMPACT
    else:
        encoded = message.error_message.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += NO_TAGS


def _write_replica_election_result_flexible(out: bytearray, message: ReplicaElectionResult) -> None:
    encoded = message.topic.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += varint(len(message.partition_result) + 1)
    for partition_result_item in message.partition_result:
        _write_partition_result_flexible(out, partition_result_item)
    out += NO_TAGS


def _write_response_flexible(out: bytearray, message: ElectLeadersResponse, version: int) -> None:
    out += _pack_ih(message.throttle_time // MILLISECOND, message.error_code)
    out += varint(len(message.replica_election_results) + 1)
    for replica_election_results_item in message.replica_election_results:
        _write_replica_election_result_flexible(out, replica_election_results_item)
    out += NO_TAGS


def write_response(out: bytearray, message: ElectLeadersResponse, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 2:
        _write_response_flexible(out, message, version)
    else:
        _write_response_legacy(out, message, version)


def _write_topic_partitions(out: bytearray, message: TopicPartitions) -> None:
    encoded = message.topic.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_i(len(message.partitions))
    out += pack(f">{len(message.partitions)}i", *message.partitions)


def _write_request_legacy(out: bytearray, message: ElectLeadersRequest, version: int) -> None:
    if version >= 1:
        out += _pack_b(message.election_type)
    if message.topic_partitions is None:
        out += NULL_ARRAY
    else:
        out += _pack_i(len(message.topic_partitions))
        for topic_partitions_item in message.topic_partitions:
            _write_topic_partitions(out, topic_partitions_item)
    out += _pack_i(message.timeout // MILLISECOND)


def _write_topic_partitions_flexible(out: bytearray, message: TopicPartitions) -> None:
    encoded = message.topic.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += varint(len(message.partitions) + 1)
    out += pack(f">{len(message.partitions)}i", *message.partitions)
    out += NO_TAGS


def _write_request_flexible(out: bytearray, message: ElectLeadersRequest, version: int) -> None:
    out += _pack_b(message.election_type)
    if message.topic_partitions is None:
        out += NULL_COMPACT
    else:
        out += varint(len(message.topic_partitions) + 1)
        for topic_partitions_item in message.topic_partitions:
            _write_topic_partitions_flexible(out, topic_partitions_item)
    out += _pack_i(message.timeout // MILLISECOND)
    out += NO_TAGS


def write_request(out: bytearray, message: ElectLeadersRequest, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 2:
        _write_request_flexible(out, message, version)
    else:
        _write_request_legacy(out, message, version)


def _read_partition_result(buffer: bytes, position: int, end: int) -> tuple[PartitionResult, int]:
    partition_id, error_code = _unpack_ih(buffer, position)
    position += 6
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
    return PartitionResult(
        partition_id=partition_id, error_code=ErrorCode(error_code), error_message=error_message
    ), position


def _read_replica_election_result(
    buffer: bytes, position: int, end: int
) -> tuple[ReplicaElectionResult, int]:
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
        raise PeerError("partition_result is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    partition_result_list: list[PartitionResult] = []
    for _ in range(size):
        partition_result_item, position = _read_partition_result(buffer, position, end)
        partition_result_list.append(partition_result_item)
    partition_result = tuple(partition_result_list)
    return ReplicaElectionResult(topic=topic, partition_result=partition_result), position


def _read_response_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ElectLeadersResponse, int]:
    error_code: ErrorCode = ErrorCode.none
    if version >= 1:
        throttle_time, error_code_raw = _unpack_ih(buffer, position)
        position += 6
        error_code = ErrorCode(error_code_raw)
    else:
        (throttle_time,) = _unpack_i(buffer, position)
        position += 4
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("replica_election_results is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    replica_election_results_list: list[ReplicaElectionResult] = []
    for _ in range(size):
        replica_election_results_item, position = _read_replica_election_result(
            buffer, position, end
        )
        replica_election_results_list.append(replica_election_results_item)
    replica_election_results = tuple(replica_election_results_list)
    return ElectLeadersResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time),
        error_code=error_code,
        replica_election_results=replica_election_results,
    ), position


def _read_partition_result_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[PartitionResult, int]:
    partition_id, error_code = _unpack_ih(buffer, position)
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
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return PartitionResult(
        partition_id=partition_id, error_code=ErrorCode(error_code), error_message=error_message
    ), position


def _read_replica_election_result_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[ReplicaElectionResult, int]:
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
        raise PeerError("partition_result is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    partition_result_list: list[PartitionResult] = []
    for _ in range(size):
        partition_result_item, position = _read_partition_result_flexible(buffer, position, end)
        partition_result_list.append(partition_result_item)
    partition_result = tuple(partition_result_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return ReplicaElectionResult(topic=topic, partition_result=partition_result), position


def _read_response_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ElectLeadersResponse, int]:
    throttle_time, error_code = _unpack_ih(buffer, position)
    position += 6
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("replica_election_results is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    replica_election_results_list: list[ReplicaElectionResult] = []
    for _ in range(size):
        replica_election_results_item, position = _read_replica_election_result_flexible(
            buffer, position, end
        )
        replica_election_results_list.append(replica_election_results_item)
    replica_election_results = tuple(replica_election_results_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return ElectLeadersResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time),
        error_code=ErrorCode(error_code),
        replica_election_results=replica_election_results,
    ), position


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ElectLeadersResponse, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 2:
        return _read_response_flexible(buffer, position, end, version)
    return _read_response_legacy(buffer, position, end, version)
