"""Fetch requests (API key 1), versions 4-18, scanned by hand into one shape for all versions.

v4  replica_id max_wait_ms min_bytes max_bytes isolation_level
    [topic [partition fetch_offset max_bytes]]
v5  log_start_offset; v7 sessions and forgotten topics (KIP-227)
v9  current_leader_epoch (KIP-320); v11 rack_id (KIP-392)
v12 compact, last_fetched_epoch (KIP-595); v13 topic ids; v15 replica_id by tag (KIP-903)
v18 high_watermark by tag (KIP-1166), which no consumer sends: passed over like any unknown tag
"""

import struct
from typing import Final, NamedTuple
from uuid import UUID

from cluster.model.errors import PeerError
from cluster.protocol.reader import (
    ELEMENTS_MAX,
    MALFORMED,
    read_varint,
    skip_tags,
    tag_spans,
    too_many,
    truncated,
    uuid_of,
)

_SESSIONS: Final = 7
_FLEXIBLE: Final = 12
_TOPIC_IDS: Final = 13
_REPLICA_STATE: Final = 15
_REPLICA_STATE_TAG: Final = 1

_i16: Final = struct.Struct(">h").unpack_from
_i32: Final = struct.Struct(">i").unpack_from


class FetchPartition(NamedTuple):
    """One partition of a request; -1 for what the client does not state."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody calls
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    max_bytes: int


class FetchTopic(NamedTuple):
    """One topic of a request: named up to version 12, by id from version 13."""

    name: str | None
    topic_id: UUID | None
    partitions: list[FetchPartition]


class ForgottenTopic(NamedTuple):
    """Partitions that leave a fetch session."""

    name: str | None
    topic_id: UUID | None
    partitions: tuple[int, ...]


class FetchRequest(NamedTuple):
    """A fetch request of any version; `replica_id` is -1 for a consumer."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    rack_id: str
    replica_id: int
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]


def scan_fetch_request(version: int, frame: memoryview | bytes, position: int) -> FetchRequest:
    """Scan the request whose body begins at `position`; leftover bytes are ignored.

    Raises PeerError.
    """
    try:
        if version < _FLEXIBLE:
            return _scan_plain(version, frame, position)
        return _scan_compact(version, frame, position)
    except (*MALFORMED, PeerError) as error:
        raise PeerError(f"malformed FetchRequest v{version}: {error}") from None


def each_once(topics: list[FetchTopic]) -> list[FetchTopic]:
    """The topics with each partition once: its last values at its first position.

    As in Kafka, which reads the partitions into a map.
    """
    merged: dict[tuple[str | None, UUID | None], dict[int, FetchPartition]] = {}
    count = 0
    for name, topic_id, partitions in topics:
        own = merged.setdefault((name, topic_id), {})
        count += len(partitions)
        for each in partitions:
            own[each[0]] = each
    if len(merged) == len(topics) and sum(map(len, merged.values())) == count:
        return topics
    return [FetchTopic(name, topic_id, [*own.values()]) for (name, topic_id), own in merged.items()]


_plain_head: Final = struct.Struct(">iiiib")
_session: Final = struct.Struct(">ii")
_partition_v4: Final = struct.Struct(">iqi")
_partition_v5: Final = struct.Struct(">iqqi")
_partition_v9: Final = struct.Struct(">iiqqi")


def _scan_plain(version: int, frame: memoryview | bytes, position: int) -> FetchRequest:
    replica_id, max_wait_ms, min_bytes, max_bytes, isolation = _plain_head.unpack_from(
        frame, position
    )
    position += _plain_head.size
    session_id, session_epoch = 0, -1
    if version >= _SESSIONS:
        session_id, session_epoch = _session.unpack_from(frame, position)
        position += 8
    topic_count, position = _plain_count(frame, position)
    topics = []
    for _ in range(topic_count):
        name, position = _plain_string(frame, position)
        partition_count, position = _plain_count(frame, position)
        partitions = []
        if version >= 9:
            for _ in range(partition_count):
                index, leader_epoch, offset, log_start, limit = _partition_v9.unpack_from(
                    frame, position
                )
                position += 28
                partitions.append(FetchPartition(index, leader_epoch, offset, -1, log_start, limit))
        elif version >= 5:
            for _ in range(partition_count):
                index, offset, log_start, limit = _partition_v5.unpack_from(frame, position)
                position += 24
                partitions.append(FetchPartition(index, -1, offset, -1, log_start, limit))
        else:
            for _ in range(partition_count):
                index, offset, limit = _partition_v4.unpack_from(frame, position)
                position += 16
                partitions.append(FetchPartition(index, -1, offset, -1, -1, limit))
        topics.append(FetchTopic(name, None, partitions))
    forgotten = []
    if version >= _SESSIONS:
        topic_count, position = _plain_count(frame, position)
        for _ in range(topic_count):
            name, position = _plain_string(frame, position)
            partition_count, position = _plain_count(frame, position)
            indexes = struct.unpack_from(f">{partition_count}i", frame, position)
            position += 4 * partition_count
            forgotten.append(ForgottenTopic(name, None, indexes))
    rack_id = ""
    if version >= 11:
        rack_id, position = _plain_string(frame, position)
    return FetchRequest(
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation,
        session_id,
        session_epoch,
        rack_id,
        replica_id,
        topics,
        forgotten,
    )


def _plain_count(frame: memoryview | bytes, position: int) -> tuple[int, int]:
    (count,) = _i32(frame, position)
    position += 4
    if not 0 <= count <= len(frame) - position:
        raise PeerError(f"array of {count} elements")
    if count > ELEMENTS_MAX:
        raise too_many(count)
    return count, position


def _plain_string(frame: memoryview | bytes, position: int) -> tuple[str, int]:
    (size,) = _i16(frame, position)
    start = position + 2
    position = start + size
    if size < 0 or position > len(frame):
        raise PeerError(f"string of {size} bytes")
    return str(frame[start:position], "utf-8"), position


_compact_head: Final = struct.Struct(">iiibii")
_compact_head_from: Final = _compact_head.unpack_from
_partition_v12: Final = struct.Struct(">iiqiqi").unpack_from
_new: Final = tuple.__new__  # skips the Python-level constructor of a NamedTuple


def _scan_compact(version: int, frame: memoryview | bytes, position: int) -> FetchRequest:
    # Lengths of one byte are read in place: a call for each would cost more than everything else.
    end = len(frame)
    by_id = version >= _TOPIC_IDS
    replica_id = -1
    if version < _REPLICA_STATE:
        (replica_id,) = _i32(frame, position)
        position += 4
    limits = _compact_head_from(frame, position)
    position += _compact_head.size
    topic_count = frame[position] - 1
    if 0 <= topic_count < 127:
        position += 1
    else:
        topic_count, position = _compact_count(frame, position)
    topics = []
    for _ in range(topic_count):
        if by_id:
            name, start = None, position
            position += 16
            if position > end:
                raise truncated()
            topic_id = uuid_of(bytes(frame[start:position]))
        else:
            topic_id = None
            start = position + 1
            position += frame[position]
            if start <= position < start + 127 and position <= end:
                name = str(frame[start:position], "utf-8")
            else:
                name, position = _compact_string(frame, start - 1)
        partition_count = frame[position] - 1
        if 0 <= partition_count < 127:
            position += 1
        else:
            partition_count, position = _compact_count(frame, position)
        partitions = []
        for _ in range(partition_count):
            partitions.append(_new(FetchPartition, _partition_v12(frame, position)))
            position += 33
            if frame[position - 1]:
                position = skip_tags(frame, position - 1, end)
        position = skip_tags(frame, position, end) if frame[position] else position + 1
        topics.append(_new(FetchTopic, (name, topic_id, partitions)))
    forgotten: list[ForgottenTopic] = []
    if frame[position] == 1:
        position += 1
    else:
        forgotten, position = _scan_forgotten(frame, position, by_id=by_id)
    rack_id = ""
    if frame[position] == 1:
        position += 1
    else:
        rack_id, position = _compact_string(frame, position)
    if frame[position]:
        spans, _ = tag_spans(frame, position, end)
        if version >= _REPLICA_STATE and _REPLICA_STATE_TAG in spans:
            start, stop = spans[_REPLICA_STATE_TAG]
            (replica_id,) = _i32(frame[start:stop], 0)
    return _new(FetchRequest, (*limits, rack_id, replica_id, topics, forgotten))


def _scan_forgotten(
    frame: memoryview | bytes, position: int, *, by_id: bool
) -> tuple[list[ForgottenTopic], int]:
    topic_count, position = _compact_count(frame, position)
    forgotten = []
    for _ in range(topic_count):
        name, topic_id, position = _topic(frame, position, by_id=by_id)
        partition_count, position = _compact_count(frame, position)
        indexes = struct.unpack_from(f">{partition_count}i", frame, position)
        position = skip_tags(frame, position + 4 * partition_count, len(frame))
        forgotten.append(ForgottenTopic(name, topic_id, indexes))
    return forgotten, position


def _compact_count(frame: memoryview | bytes, position: int) -> tuple[int, int]:
    size = frame[position]
    position += 1
    if size > 127:
        size, position = read_varint(frame, position - 1)
    if not 0 < size <= len(frame) - position + 1:
        raise PeerError(f"array of {size - 1} elements")
    if size > ELEMENTS_MAX:
        raise too_many(size - 1)
    return size - 1, position


def _compact_string(frame: memoryview | bytes, position: int) -> tuple[str, int]:
    size = frame[position]
    start = position + 1
    if size > 127:
        size, start = read_varint(frame, position)
    position = start + size - 1
    if not size or position > len(frame):
        raise PeerError(f"string of {size - 1} bytes")
    return str(frame[start:position], "utf-8"), position


def _topic(
    frame: memoryview | bytes, position: int, *, by_id: bool
) -> tuple[str | None, UUID | None, int]:
    if not by_id:
        name, position = _compact_string(frame, position)
        return name, None, position
    after = position + 16
    if after > len(frame):
        raise truncated()
    return None, uuid_of(bytes(frame[position:after])), after
