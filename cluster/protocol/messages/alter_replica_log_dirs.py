"""AlterReplicaLogDirs messages, versions 1 to 2.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import timedelta
from struct import Struct, pack, unpack_from

from cluster.model.error_codes import ErrorCode
from cluster.model.errors import PeerError
from cluster.protocol.reader import ELEMENTS_MAX, read_length, skip_tags, too_many, truncated
from cluster.protocol.writer import MILLISECOND, NO_TAGS, varint

_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_ih = Struct(">ih").pack
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_ih = Struct(">ih").unpack_from


@dataclass(slots=True, kw_only=True)
class AlterReplicaLogDirTopic:
    """Part of AlterReplicaLogDirs."""

    name: str
    partitions: tuple[int, ...] = ()


@dataclass(slots=True, kw_only=True)
class AlterReplicaLogDir:
    """Part of AlterReplicaLogDirs."""

    path: str
    topics: tuple[AlterReplicaLogDirTopic, ...]


@dataclass(slots=True, kw_only=True)
class AlterReplicaLogDirsRequest:
    """AlterReplicaLogDirs request, versions 1-2."""

    dirs: tuple[AlterReplicaLogDir, ...]


@dataclass(slots=True, kw_only=True)
class AlterReplicaLogDirPartitionResult:
    """Part of AlterReplicaLogDirs."""

    partition_index: int
    error_code: ErrorCode


@dataclass(slots=True, kw_only=True)
class AlterReplicaLogDirTopicResult:
    """Part of AlterReplicaLogDirs."""

    topic_name: str
    partitions: tuple[AlterReplicaLogDirPartitionResult, ...]


@dataclass(slots=True, kw_only=True)
class AlterReplicaLogDirsResponse:
    """AlterReplicaLogDirs response, versions 1-2."""

    throttle_time: timedelta
    results: tuple[AlterReplicaLogDirTopicResult, ...]


def _read_alter_replica_log_dir_topic(
    buffer: bytes, position: int, end: int
) -> tuple[AlterReplicaLogDirTopic, int]:
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
    if 4 * size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    partitions = unpack_from(f">{size}i", buffer, position)
    position += 4 * size
    return AlterReplicaLogDirTopic(name=name, partitions=partitions), position


def _read_alter_replica_log_dir(
    buffer: bytes, position: int, end: int
) -> tuple[AlterReplicaLogDir, int]:
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("path is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    path = buffer[start:position].decode()
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("topics is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    topics_list: list[AlterReplicaLogDirTopic] = []
    for _ in range(size):
        topics_item, position = _read_alter_replica_log_dir_topic(buffer, position, end)
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    return AlterReplicaLogDir(path=path, topics=topics), position


def _read_request_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[AlterReplicaLogDirsRequest, int]:
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("dirs is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    dirs_list: list[AlterReplicaLogDir] = []
    for _ in range(size):
        dirs_item, position = _read_alter_replica_log_dir(buffer, position, end)
        dirs_list.append(dirs_item)
    dirs = tuple(dirs_list)
    return AlterReplicaLogDirsRequest(dirs=dirs), position


def _read_alter_replica_log_dir_topic_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[AlterReplicaLogDirTopic, int]:
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
    return AlterReplicaLogDirTopic(name=name, partitions=partitions), position


def _read_alter_replica_log_dir_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[AlterReplicaLogDir, int]:
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("path is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    path = buffer[start:position].decode()
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
    topics_list: list[AlterReplicaLogDirTopic] = []
    for _ in range(size):
        topics_item, position = _read_alter_replica_log_dir_topic_flexible(buffer, position, end)
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return AlterReplicaLogDir(path=path, topics=topics), position


def _read_request_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[AlterReplicaLogDirsRequest, int]:
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("dirs is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    dirs_list: list[AlterReplicaLogDir] = []
    for _ in range(size):
        dirs_item, position = _read_alter_replica_log_dir_flexible(buffer, position, end)
        dirs_list.append(dirs_item)
    dirs = tuple(dirs_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return AlterReplicaLogDirsRequest(dirs=dirs), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[AlterReplicaLogDirsRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 2:
        return _read_request_flexible(buffer, position, end, version)
    return _read_request_legacy(buffer, position, end, version)


def _write_alter_replica_log_dir_partition_result(
    out: bytearray, message: AlterReplicaLogDirPartitionResult
) -> None:
    out += _pack_ih(message.partition_index, message.error_code)


def _write_alter_replica_log_dir_topic_result(
    out: bytearray, message: AlterReplicaLogDirTopicResult
) -> None:
    encoded = message.topic_name.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_i(len(message.partitions))
    for partitions_item in message.partitions:
        _write_alter_replica_log_dir_partition_result(out, partitions_item)


def _write_response_legacy(
    out: bytearray, message: AlterReplicaLogDirsResponse, version: int
) -> None:
    out += _pack_i(message.throttle_time // MILLISECOND)
    out += _pack_i(len(message.results))
    for results_item in message.results:
        _write_alter_replica_log_dir_topic_result(out, results_item)


def _write_alter_replica_log_dir_partition_result_flexible(
    out: bytearray, message: AlterReplicaLogDirPartitionResult
) -> None:
    out += _pack_ih(message.partition_index, message.error_code)
    out += NO_TAGS


def _write_alter_replica_log_dir_topic_result_flexible(
    out: bytearray, message: AlterReplicaLogDirTopicResult
) -> None:
    encoded = message.topic_name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += varint(len(message.partitions) + 1)
    for partitions_item in message.partitions:
        _write_alter_replica_log_dir_partition_result_flexible(out, partitions_item)
    out += NO_TAGS


def _write_response_flexible(
    out: bytearray, message: AlterReplicaLogDirsResponse, version: int
) -> None:
    out += _pack_i(message.throttle_time // MILLISECOND)
    out += varint(len(message.results) + 1)
    for results_item in message.results:
        _write_alter_replica_log_dir_topic_result_flexible(out, results_item)
    out += NO_TAGS


def write_response(out: bytearray, message: AlterReplicaLogDirsResponse, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 2:
        _write_response_flexible(out, message, version)
    else:
        _write_response_legacy(out, message, version)


def _write_alter_replica_log_dir_topic(out: bytearray, message: AlterReplicaLogDirTopic) -> None:
    encoded = message.name.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_i(len(message.partitions))
    out += pack(f">{len(message.partitions)}i", *message.partitions)


def _write_alter_replica_log_dir(out: bytearray, message: AlterReplicaLogDir) -> None:
    encoded = message.path.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_i(len(message.topics))
    for topics_item in message.topics:
        _write_alter_replica_log_dir_topic(out, topics_item)


def _write_request_legacy(
    out: bytearray, message: AlterReplicaLogDirsRequest, version: int
) -> None:
    out += _pack_i(len(message.dirs))
    for dirs_item in message.dirs:
        _write_alter_replica_log_dir(out, dirs_item)


def _write_alter_replica_log_dir_topic_flexible(
    out: bytearray, message: AlterReplicaLogDirTopic
) -> None:
    encoded = message.name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += varint(len(message.partitions) + 1)
    out += pack(f">{len(message.partitions)}i", *message.partitions)
    out += NO_TAGS


def _write_alter_replica_log_dir_flexible(out: bytearray, message: AlterReplicaLogDir) -> None:
    encoded = message.path.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += varint(len(message.topics) + 1)
    for topics_item in message.topics:
        _write_alter_replica_log_dir_topic_flexible(out, topics_item)
    out += NO_TAGS


def _write_request_flexible(
    out: bytearray, message: AlterReplicaLogDirsRequest, version: int
) -> None:
    out += varint(len(message.dirs) + 1)
    for dirs_item in message.dirs:
        _write_alter_replica_log_dir_flexible(out, dirs_item)
    out += NO_TAGS


def write_request(out: bytearray, message: AlterReplicaLogDirsRequest, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 2:
        _write_request_flexible(out, message, version)
    else:
        _write_request_legacy(out, message, version)


def _read_alter_replica_log_dir_partition_result(
    buffer: bytes, position: int, end: int
) -> tuple[AlterReplicaLogDirPartitionResult, int]:
    partition_index, error_code = _unpack_ih(buffer, position)
    position += 6
    return AlterReplicaLogDirPartitionResult(
        partition_index=partition_index, error_code=ErrorCode(error_code)
    ), position


def _read_alter_replica_log_dir_topic_result(
    buffer: bytes, position: int, end: int
) -> tuple[AlterReplicaLogDirTopicResult, int]:
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("topic_name is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    topic_name = buffer[start:position].decode()
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("partitions is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    partitions_list: list[AlterReplicaLogDirPartitionResult] = []
    for _ in range(size):
        partitions_item, position = _read_alter_replica_log_dir_partition_result(
            buffer, position, end
        )
        partitions_list.append(partitions_item)
    partitions = tuple(partitions_list)
    return AlterReplicaLogDirTopicResult(topic_name=topic_name, partitions=partitions), position


def _read_response_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[AlterReplicaLogDirsResponse, int]:
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
    results_list: list[AlterReplicaLogDirTopicResult] = []
    for _ in range(size):
        results_item, position = _read_alter_replica_log_dir_topic_result(buffer, position, end)
        results_list.append(results_item)
    results = tuple(results_list)
    return AlterReplicaLogDirsResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time), results=results
    ), position


def _read_alter_replica_log_dir_partition_result_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[AlterReplicaLogDirPartitionResult, int]:
    partition_index, error_code = _unpack_ih(buffer, position)
    position += 6
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return AlterReplicaLogDirPartitionResult(
        partition_index=partition_index, error_code=ErrorCode(error_code)
    ), position


def _read_alter_replica_log_dir_topic_result_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[AlterReplicaLogDirTopicResult, int]:
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("topic_name is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    topic_name = buffer[start:position].decode()
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
    partitions_list: list[AlterReplicaLogDirPartitionResult] = []
    for _ in range(size):
        partitions_item, position = _read_alter_replica_log_dir_partition_result_flexible(
            buffer, position, end
        )
        partitions_list.append(partitions_item)
    partitions = tuple(partitions_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return AlterReplicaLogDirTopicResult(topic_name=topic_name, partitions=partitions), position


def _read_response_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[AlterReplicaLogDirsResponse, int]:
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
    results_list: list[AlterReplicaLogDirTopicResult] = []
    for _ in range(size):
        results_item, position = _read_alter_replica_log_dir_topic_result_flexible(
            buffer, position, end
        )
        results_list.append(results_item)
    results = tuple(results_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return AlterReplicaLogDirsResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time), results=results
    ), position


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[AlterReplicaLogDirsResponse, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 2:
        return _read_response_flexible(buffer, position, end, version)
    return _read_response_legacy(buffer, position, end, version)
