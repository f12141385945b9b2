"""Produce (API key 0), versions 3-13: requests scanned without copying a record, responses packed.

request   v3  transactional_id acks timeout_ms [topic [partition records]]
          v9  compact lengths and tags; v13 topic ids in place of names
response  v3  [topic [partition error base_offset log_append_time_ms]] throttle_time_ms
          v5  log_start_offset; v8 record_errors (KIP-467) and error_message; v9 compact
          v10 current_leader and node_endpoints by tag (KIP-951); v13 topic ids
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from cluster.model.errors import PeerError, RecordError
from cluster.protocol.endpoints import NodeEndpoint, pack_endpoints_tag
from cluster.protocol.reader import (
    ELEMENTS_MAX,
    MALFORMED,
    read_varint,
    skip_tags,
    too_many,
    truncated,
    uuid_of,
)
from cluster.protocol.writer import uuid_bytes, varint

__all__ = [
    "NodeEndpoint",
    "ProduceRequest",
    "ProducedPartition",
    "ProducedTopic",
    "ProducedTopicResult",
    "pack_produce_response",
    "scan_produce_request",
]

FIRST_VERSION: Final = 3
LAST_VERSION: Final = 13
_FLEXIBLE: Final = 9
_LEADER_HINTS: Final = 10
_TOPIC_IDS: Final = 13

_i16: Final = struct.Struct(">h").unpack_from
_i32: Final = struct.Struct(">i").unpack_from
_i32_pair: Final = struct.Struct(">ii").unpack_from
_acks_timeout_count: Final = struct.Struct(">hii").unpack_from
_index_and_size: Final = struct.Struct(">iB").unpack_from
_acks_timeout: Final = struct.Struct(">hi").unpack_from
_new: Final = tuple.__new__  # skips the Python-level constructor of a NamedTuple


class ProducedTopic(NamedTuple):
    """One topic of a request: named up to version 12, by id from version 13."""

    name: str | None
    topic_id: UUID | None
    partitions: "list[tuple[int, memoryview | None]]"
    """Partition index and its record bytes, a view of the frame; None if they were null."""


class ProduceRequest(NamedTuple):
    """A produce request; its records are in the frame and must be used before that is reused."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[ProducedTopic]


class ProducedPartition(NamedTuple):
    """The outcome for one partition's records."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody calls
    error_code: int
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    error_message: str | None = None
    current_leader: tuple[int, int] | None = None
    """The id and epoch of the leader to ask instead (KIP-951)."""
    record_errors: Sequence[RecordError] = ()
    """The records because of which a batch was refused; sent from version 8."""


ProducedTopicResult = tuple[str | None, UUID | None, Sequence[ProducedPartition]]


def scan_produce_request(version: int, frame: memoryview, position: int) -> ProduceRequest:
    """Scan the request whose body begins at `position`; leftovers are ignored. Raises PeerError."""
    try:
        if version < _FLEXIBLE:
            return _scan_plain(frame, position)
        return _scan_compact(frame, position, by_id=version >= _TOPIC_IDS)
    except (*MALFORMED, PeerError) as error:
        raise PeerError(f"malformed ProduceRequest v{version}: {error}") from None


def _scan_plain(frame: memoryview, position: int) -> ProduceRequest:
    end = len(frame)
    (size,) = _i16(frame, position)
    position += 2
    transactional_id = None
    if size >= 0:
        start = position
        position += size
        transactional_id = str(frame[start:position], "utf-8")
    elif size != -1:
        raise PeerError("transactional id has a negative length")
    acks, timeout_ms, topic_count = _acks_timeout_count(frame, position)
    position += 10
    if topic_count < 0:
        raise PeerError("topics are null")
    topics = []
    left = ELEMENTS_MAX - topic_count
    for _ in range(topic_count):
        (size,) = _i16(frame, position)
        if size < 0:
            raise PeerError("topic name is null")
        start = position + 2
        position = start + size
        name = str(frame[start:position], "utf-8")
        (partition_count,) = _i32(frame, position)
        if partition_count < 0:
            raise PeerError("partitions are null")
        left -= partition_count
        if left < 0:
            raise too_many(ELEMENTS_MAX - left)
        position += 4
        partitions: list[tuple[int, memoryview | None]] = []
        for _ in range(partition_count):
            index, size = _i32_pair(frame, position)
            start = position + 8
            if size < 0:
                if size != -1:
                    raise PeerError("records have a negative length")
                position = start
                partitions.append((index, None))
                continue
            position = start + size
            if position > end:
                raise truncated()
            partitions.append((index, frame[start:position]))
        topics.append(_new(ProducedTopic, (name, None, partitions)))
    return _new(ProduceRequest, (transactional_id, acks, timeout_ms, topics))


def _scan_compact(frame: memoryview, position: int, *, by_id: bool) -> ProduceRequest:
    end = len(frame)
    transactional_id = None
    if frame[position]:
        size, start = read_varint(frame, position)
        position = start + size - 1
        transactional_id = str(frame[start:position], "utf-8")
    else:
        position += 1
    acks, timeout_ms = _acks_timeout(frame, position)
    count, position = read_varint(frame, position + 6)
    if not count:
        raise PeerError("topics are null")
    topics = []
    left = ELEMENTS_MAX - count
    for _ in range(count - 1):
        name = topic_id = None
        if by_id:
            start = position
            position += 16
            topic_id = uuid_of(bytes(frame[start:position]))
        else:
            size = frame[position]
            start = position + 1
            if size > 127:
                size, start = read_varint(frame, position)
            if not size:
                raise PeerError("topic name is null")
            position = start + size - 1
            name = str(frame[start:position], "utf-8")
        count = frame[position]
        position += 1
        if count > 127:
            count, position = read_varint(frame, position - 1)
        if not count:
            raise PeerError("partitions are null")
        left -= count
        if left < 0:
            raise too_many(ELEMENTS_MAX - left)
        partitions: list[tuple[int, memoryview | None]] = []
        for _ in range(count - 1):
            index, size = _index_and_size(frame, position)
            start = position + 5
            if size > 127:
                size, start = read_varint(frame, position + 4)
            if size:
                position = start + size - 1
                if position >= end:
                    raise truncated()
                partitions.append((index, frame[start:position]))
            else:
                position = start
                partitions.append((index, None))
            position = skip_tags(frame, position, end) if frame[position] else position + 1
        position = skip_tags(frame, position, end) if frame[position] else position + 1
        topics.append(_new(ProducedTopic, (name, topic_id, partitions)))
    if frame[position]:
        skip_tags(frame, position, end)
    return _new(ProduceRequest, (transactional_id, acks, timeout_ms, topics))


# size, correlation id, one topic, length of its name
_plain_head: Final = struct.Struct(">iiih").pack
# size, correlation id, no header tags, one topic, length of its name + 1
_compact_head: Final = struct.Struct(">iixBB").pack
_id_head: Final = struct.Struct(">iixB16s").pack
_prefix: Final = struct.Struct(">ii").pack

# One partition (count in front) up to the throttle time, which ends the plain layouts.
_TAIL_FORMATS: Final = {
    3: ">iihqqi",
    5: ">iihqqqi",
    8: ">iihqqqihi",
    9: ">BihqqqBBxxix",
}
_TAIL: Final = {
    version: struct.Struct(_TAIL_FORMATS[max(v for v in _TAIL_FORMATS if v <= version)])
    for version in range(FIRST_VERSION, LAST_VERSION + 1)
}
_tail: Final = {version: layout.pack for version, layout in _TAIL.items()}

_plain_partition: Final = {
    3: struct.Struct(">ihqq").pack,
    5: struct.Struct(">ihqqq").pack,
}
_compact_partition: Final = struct.Struct(">ihqqq").pack
_int32: Final = struct.Struct(">i").pack
_int16: Final = struct.Struct(">h").pack
_UNKNOWN: Final = (-1, -1)
_leader_tag: Final = struct.Struct(">BBBiix").pack


def pack_produce_response(
    version: int,
    correlation_id: int,
    topics: Sequence[ProducedTopicResult],
    throttle_time_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> bytes:
    """The complete frame of a produce response, including its 4-byte size."""
    if len(topics) == 1 and not node_endpoints:
        name, topic_id, partitions = topics[0]
        if len(partitions) == 1:
            packed = _pack_one(
                version, correlation_id, name, topic_id, partitions[0], throttle_time_ms
            )
            if packed is not None:
                return packed
    if version < _FLEXIBLE:
        return _pack_plain(version, correlation_id, topics, throttle_time_ms)
    return _pack_compact(version, correlation_id, topics, throttle_time_ms, node_endpoints)


def _pack_one(
    version: int,
    correlation_id: int,
    topic: str | None,
    topic_id: UUID | None,
    partition: ProducedPartition,
    throttle_time_ms: int,
) -> bytes | None:
    """The most frequent frame: one partition, no message, no hint. None if that does not fit."""
    index, error, base, time_ms, log_start, message, leader, record_errors = partition
    if message is not None or leader is not None or record_errors:
        return None
    if version >= _FLEXIBLE:
        tail = _tail[version](2, index, error, base, time_ms, log_start, 1, 0, throttle_time_ms)
        if version >= _TOPIC_IDS:
            return _id_head(22 + len(tail), correlation_id, 2, uuid_bytes(topic_id)) + tail
        name = (topic or "").encode()
        size = len(name)
        if size > 126:
            return None
        return _compact_head(7 + size + len(tail), correlation_id, 2, size + 1) + name + tail
    name = (topic or "").encode()
    size = len(name)
    pack = _tail[version]
    if version >= 8:
        tail = pack(1, index, error, base, time_ms, log_start, 0, -1, throttle_time_ms)
    elif version >= 5:
        tail = pack(1, index, error, base, time_ms, log_start, throttle_time_ms)
    else:
        tail = pack(1, index, error, base, time_ms, throttle_time_ms)
    return _plain_head(10 + size + len(tail), correlation_id, 1, size) + name + tail


def _pack_plain(
    version: int,
    correlation_id: int,
    topics: Sequence[ProducedTopicResult],
    throttle_time_ms: int,
) -> bytes:
    out = bytearray(struct.pack(">i", len(topics)))
    for topic, _, partitions in topics:
        name = (topic or "").encode()
        out += struct.pack(">h", len(name))
        out += name
        out += struct.pack(">i", len(partitions))
        for index, error, base, time_ms, log_start, message, _, record_errors in partitions:
            if version < 5:
                out += _plain_partition[3](index, error, base, time_ms)
                continue
            out += _plain_partition[5](index, error, base, time_ms, log_start)
            if version >= 8:
                out += _int32(len(record_errors))
                for at, why in record_errors:
                    out += _int32(at)
                    out += _plain_nullable(why)
                out += _plain_nullable(message)
    out += struct.pack(">i", throttle_time_ms)
    return _prefix(len(out) + 4, correlation_id) + out


def _pack_compact(
    version: int,
    correlation_id: int,
    topics: Sequence[ProducedTopicResult],
    throttle_time_ms: int,
    node_endpoints: Sequence[NodeEndpoint],
) -> bytes:
    out = bytearray(b"\0")
    out += varint(len(topics) + 1)
    for topic, topic_id, partitions in topics:
        if version >= _TOPIC_IDS:
            out += uuid_bytes(topic_id)
        else:
            name = (topic or "").encode()
            out += varint(len(name) + 1)
            out += name
        out += varint(len(partitions) + 1)
        for index, error, base, time_ms, log_start, message, leader, record_errors in partitions:
            out += _compact_partition(index, error, base, time_ms, log_start)
            out += varint(len(record_errors) + 1)
            for at, why in record_errors:
                out += _int32(at)
                out += _compact_nullable(why)
                out += b"\0"
            out += _compact_nullable(message)
            if leader is None or leader == _UNKNOWN or version < _LEADER_HINTS:
                out += b"\0"
            else:
                out += _leader_tag(1, 0, 9, *leader)
        out += b"\0"
    out += struct.pack(">i", throttle_time_ms)
    if node_endpoints and version >= _LEADER_HINTS:
        out += b"\1"
        out += pack_endpoints_tag(node_endpoints)
    else:
        out += b"\0"
    return _prefix(len(out) + 4, correlation_id) + out


def _plain_nullable(text: str | None) -> bytes:
    if text is None:
        return b"\xff\xff"
    encoded = text.encode()
    return _int16(len(encoded)) + encoded


def _compact_nullable(text: str | None) -> bytes:
    if text is None:
        return b"\0"
    encoded = text.encode()
    return varint(len(encoded) + 1) + encoded
