"""TxnOffsetCommit messages, versions 0 to 5.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import timedelta
from struct import Struct

from cluster.model.error_codes import ErrorCode
from cluster.model.errors import PeerError
from cluster.protocol.reader import ELEMENTS_MAX, read_length, skip_tags, too_many, truncated
from cluster.protocol.writer import MILLISECOND, NO_TAGS, NULL_COMPACT, NULL_STRING, varint

_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_ih = Struct(">ih").pack
_pack_iq = Struct(">iq").pack
_pack_iqi = Struct(">iqi").pack
_pack_qh = Struct(">qh").pack
_pack_qhi = Struct(">qhi").pack
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_ih = Struct(">ih").unpack_from
_unpack_iq = Struct(">iq").unpack_from
_unpack_iqi = Struct(">iqi").unpack_from
_unpack_qh = Struct(">qh").unpack_from
_unpack_qhi = Struct(">qhi").unpack_from


@dataclass(slots=True, kw_only=True)
class TxnOffsetCommitRequestPartition:
    """Part of TxnOffsetCommit."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int = -1
    committed_metadata: str | None


@dataclass(slots=True, kw_only=True)
class TxnOffsetCommitRequestTopic:
    """Part of TxnOffsetCommit."""

    name: str
    partitions: tuple[TxnOffsetCommitRequestPartition, ...]


@dataclass(slots=True, kw_only=True)
class TxnOffsetCommitRequest:
    """TxnOffsetCommit request, versions 0-5."""

    transactional_id: str
    group_id: str
    producer_id: int
    producer_epoch: int
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    topics: tuple[TxnOffsetCommitRequestTopic, ...]


@dataclass(slots=True, kw_only=True)
class TxnOffsetCommitResponsePartition:
    """Part of TxnOffsetCommit."""

    partition_index: int
    error_code: ErrorCode


@dataclass(slots=True, kw_only=True)
class TxnOffsetCommitResponseTopic:
    """Part of TxnOffsetCommit."""

    name: str
    partitions: tuple[TxnOffsetCommitResponsePartition, ...]


@dataclass(slots=True, kw_only=True)
class TxnOffsetCommitResponse:
    """TxnOffsetCommit response, versions 0-5."""

    throttle_time: timedelta
    topics: tuple[TxnOffsetCommitResponseTopic, ...]


def _read_txn_offset_commit_request_partition(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[TxnOffsetCommitRequestPartition, int]:
    committed_leader_epoch: int = -1
    if version >= 2:
        partition_index, committed_offset, committed_leader_epoch = _unpack_iqi(buffer, position)
        position += 16
    else:
        partition_index, committed_offset = _unpack_iq(buffer, position)
        position += 12
    committed_metadata: str | None
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        committed_metadata = buffer[start:position].decode()
    elif size == -1:
        committed_metadata = None
    else:
        raise PeerError("committed_metadata is null or has a negative length")
    return TxnOffsetCommitRequestPartition(
        partition_index=partition_index,
        committed_offset=committed_offset,
        committed_leader_epoch=committed_leader_epoch,
        committed_metadata=committed_metadata,
    ), position


def _read_txn_offset_commit_request_topic(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[TxnOffsetCommitRequestTopic, int]:
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
    partitions_list: list[TxnOffsetCommitRequestPartition] = []
    for _ in range(size):
        partitions_item, position = _read_txn_offset_commit_request_partition(
            buffer, position, end, version
        )
        partitions_list.append(partitions_item)
    partitions = tuple(partitions_list)
    return TxnOffsetCommitRequestTopic(name=name, partitions=partitions), position


def _read_request_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[TxnOffsetCommitRequest, int]:
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("transactional_id is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    transactional_id = buffer[start:position].decode()
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("group_id is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    group_id = buffer[start:position].decode()
    producer_id, producer_epoch = _unpack_qh(buffer, position)
    position += 10
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("topics is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    topics_list: list[TxnOffsetCommitRequestTopic] = []
    for _ in range(size):
        topics_item, position = _read_txn_offset_commit_request_topic(
            buffer, position, end, version
        )
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        topics=topics,
    ), position


def _read_txn_offset_commit_request_partition_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[TxnOffsetCommitRequestPartition, int]:
    partition_index, committed_offset, committed_leader_epoch = _unpack_iqi(buffer, position)
    position += 16
    committed_metadata: str | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        committed_metadata = buffer[start:position].decode()
    else:
        committed_metadata = None
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return TxnOffsetCommitRequestPartition(
        partition_index=partition_index,
        committed_offset=committed_offset,
        committed_leader_epoch=committed_leader_epoch,
        committed_metadata=committed_metadata,
    ), position


def _read_txn_offset_commit_request_topic_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[TxnOffsetCommitRequestTopic, int]:
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
    partitions_list: list[TxnOffsetCommitRequestPartition] = []
    for _ in range(size):
        partitions_item, position = _read_txn_offset_commit_request_partition_flexible(
            buffer, position, end
        )
        partitions_list.append(partitions_item)
    partitions = tuple(partitions_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return TxnOffsetCommitRequestTopic(name=name, partitions=partitions), position


def _read_request_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[TxnOffsetCommitRequest, int]:
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("transactional_id is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    transactional_id = buffer[start:position].decode()
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("group_id is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    group_id = buffer[start:position].decode()
    producer_id, producer_epoch, generation_id = _unpack_qhi(buffer, position)
    position += 14
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("member_id is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    member_id = buffer[start:position].decode()
    group_instance_id: str | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        group_instance_id = buffer[start:position].decode()
    else:
        group_instance_id = None
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
    topics_list: list[TxnOffsetCommitRequestTopic] = []
    for _ in range(size):
        topics_item, position = _read_txn_offset_commit_request_topic_flexible(
            buffer, position, end
        )
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        generation_id=generation_id,
        member_id=member_id,
        group_instance_id=group_instance_id,
        topics=topics,
    ), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[TxnOffsetCommitRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 3:
        return _read_request_flexible(buffer, position, end, version)
    return _read_request_legacy(buffer, position, end, version)


def _write_txn_offset_commit_response_partition(
    out: bytearray, message: TxnOffsetCommitResponsePartition
) -> None:
    out += _pack_ih(message.partition_index, message.error_code)


def _write_txn_offset_commit_response_topic(
    out: bytearray, message: TxnOffsetCommitResponseTopic
) -> None:
    encoded = message.name.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_i(len(message.partitions))
    for partitions_item in message.partitions:
        _write_txn_offset_commit_response_partition(out, partitions_item)


def _write_response_legacy(out: bytearray, message: TxnOffsetCommitResponse, version: int) -> None:
    out += _pack_i(message.throttle_time // MILLISECOND)
    out += _pack_i(len(message.topics))
    for topics_item in message.topics:
        _write_txn_offset_commit_response_topic(out, topics_item)


def _write_txn_offset_commit_response_partition_flexible(
    out: bytearray, message: TxnOffsetCommitResponsePartition
) -> None:
    out += _pack_ih(message.partition_index, message.error_code)
    out += NO_TAGS


def _write_txn_offset_commit_response_topic_flexible(
    out: bytearray, message: TxnOffsetCommitResponseTopic
) -> None:
    encoded = message.name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += varint(len(message.partitions) + 1)
    for partitions_item in message.partitions:
        _write_txn_offset_commit_response_partition_flexible(out, partitions_item)
    out += NO_TAGS


def _write_response_flexible(
    out: bytearray, message: TxnOffsetCommitResponse, version: int
) -> None:
    out += _pack_i(message.throttle_time // MILLISECOND)
    out += varint(len(message.topics) + 1)
    for topics_item in message.topics:
        _write_txn_offset_commit_response_topic_flexible(out, topics_item)
    out += NO_TAGS


def write_response(out: bytearray, message: TxnOffsetCommitResponse, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 3:
        _write_response_flexible(out, message, version)
    else:
        _write_response_legacy(out, message, version)


def _write_txn_offset_commit_request_partition(
    out: bytearray, message: TxnOffsetCommitRequestPartition, version: int
) -> None:
    if version >= 2:
        out += _pack_iqi(
            message.partition_index, message.committed_offset, message.committed_leader_epoch
        )
    else:
        out += _pack_iq(message.partition_index, message.committed_offset)
    if message.committed_metadata is None:
        out += NULL_STRING
    else:
        encoded = message.committed_metadata.encode()
        out += _pack_h(len(encoded))
        out += encoded


def _write_txn_offset_commit_request_topic(
    out: bytearray, message: TxnOffsetCommitRequestTopic, version: int
) -> None:
    encoded = message.name.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_i(len(message.partitions))
    for partitions_item in message.partitions:
        _write_txn_offset_commit_request_partition(out, partitions_item, version)


def _write_request_legacy(out: bytearray, message: TxnOffsetCommitRequest, version: int) -> None:
    encoded = message.transactional_id.encode()
    out += _pack_h(len(encoded))
    out += encoded
    encoded = message.group_id.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_qh(message.producer_id, message.producer_epoch)
    out += _pack_i(len(message.topics))
    for topics_item in message.topics:
        _write_txn_offset_commit_request_topic(out, topics_item, version)


def _write_txn_offset_commit_request_partition_flexible(
    out: bytearray, message: TxnOffsetCommitRequestPartition
) -> None:
    out += _pack_iqi(
        message.partition_index, message.committed_offset, message.committed_leader_epoch
    )
    if message.committed_metadata is None:
        out += NULL_COMPACT
    else:
        encoded = message.committed_metadata.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += NO_TAGS


def _write_txn_offset_commit_request_topic_flexible(
    out: bytearray, message: TxnOffsetCommitRequestTopic
) -> None:
    encoded = message.name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += varint(len(message.partitions) + 1)
    for partitions_item in message.partitions:
        _write_txn_offset_commit_request_partition_flexible(out, partitions_item)
    out += NO_TAGS


def _write_request_flexible(out: bytearray, message: TxnOffsetCommitRequest, version: int) -> None:
    encoded = message.transactional_id.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    encoded = message.group_id.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += _pack_qhi(message.producer_id, message.producer_epoch, message.generation_id)
    encoded = message.member_id.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    if message.group_instance_id is None:
        out += NULL_COMPACT
    else:
        encoded = message.group_instance_id.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += varint(len(message.topics) + 1)
    for topics_item in message.topics:
        _write_txn_offset_commit_request_topic_flexible(out, topics_item)
    out += NO_TAGS


def write_request(out: bytearray, message: TxnOffsetCommitRequest, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 3:
        _write_request_flexible(out, message, version)
    else:
        _write_request_legacy(out, message, version)


def _read_txn_offset_commit_response_partition(
    buffer: bytes, position: int, end: int
) -> tuple[TxnOffsetCommitResponsePartition, int]:
    partition_index, error_code = _unpack_ih(buffer, position)
    position += 6
    return TxnOffsetCommitResponsePartition(
        partition_index=partition_index, error_code=ErrorCode(error_code)
    ), position


def _read_txn_offset_commit_response_topic(
    buffer: bytes, position: int, end: int
) -> tuple[TxnOffsetCommitResponseTopic, int]:
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
    partitions_list: list[TxnOffsetCommitResponsePartition] = []
    for _ in range(size):
        partitions_item, position = _read_txn_offset_commit_response_partition(
            buffer, position, end
        )
        partitions_list.append(partitions_item)
    partitions = tuple(partitions_list)
    return TxnOffsetCommitResponseTopic(name=name, partitions=partitions), position


def _read_response_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[TxnOffsetCommitResponse, int]:
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
    topics_list: list[TxnOffsetCommitResponseTopic] = []
    for _ in range(size):
        topics_item, position = _read_txn_offset_commit_response_topic(buffer, position, end)
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    return TxnOffsetCommitResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time), topics=topics
    ), position


def _read_txn_offset_commit_response_partition_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[TxnOffsetCommitResponsePartition, int]:
    partition_index, error_code = _unpack_ih(buffer, position)
    position += 6
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return TxnOffsetCommitResponsePartition(
        partition_index=partition_index, error_code=ErrorCode(error_code)
    ), position


def _read_txn_offset_commit_response_topic_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[TxnOffsetCommitResponseTopic, int]:
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
    partitions_list: list[TxnOffsetCommitResponsePartition] = []
    for _ in range(size):
        partitions_item, position = _read_txn_offset_commit_response_partition_flexible(
            buffer, position, end
        )
        partitions_list.append(partitions_item)
    partitions = tuple(partitions_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return TxnOffsetCommitResponseTopic(name=name, partitions=partitions), position


def _read_response_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[TxnOffsetCommitResponse, int]:
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
    topics_list: list[TxnOffsetCommitResponseTopic] = []
    for _ in range(size):
        topics_item, position = _read_txn_offset_commit_response_topic_flexible(
            buffer, position, end
        )
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return TxnOffsetCommitResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time), topics=topics
    ), position


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[TxnOffsetCommitResponse, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 3:
        return _read_response_flexible(buffer, position, end, version)
    return _read_response_legacy(buffer, position, end, version)
