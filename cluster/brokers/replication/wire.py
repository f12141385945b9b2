"""What followers and leaders say to each other over ZeroMQ: msgpack maps, record bytes as frames.

    fetch    {kind, broker, machine, session, sequence, partitions, forgotten, max_wait_ms,
              max_bytes, by_file}
             partitions: [topic, partition, leader_epoch, fetch_offset, last_fetched_epoch]
    fetched  {kind, session, sequence, error, partitions} + a frame per partition with inline bytes
             partitions: [topic, partition, leader_epoch, error, high_watermark, log_start_offset,
                          diverging, source]
             diverging: null, or [epoch, end_offset] (KIP-595)
             source:    null, [path, inode, position, size_bytes] (same machine), or size_bytes
                        (next frame)

A session is the leader's memory of what one follower wants, so that a request names only what
changed since the last one (as KIP-227 does for clients). Session 0, or a sequence that does not
follow, makes the leader answer `error` and the follower begin a new session with all partitions.
"""

from dataclasses import dataclass
from typing import Any

import msgpack

from cluster.model.errors import PeerError


@dataclass(frozen=True, slots=True)
class FetchPosition:
    """Where a follower stands in one partition."""

    topic: str
    partition: int
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int


@dataclass(frozen=True, slots=True)
class FollowerFetch:
    """One request of a follower; `partitions` are those that changed since the last request."""

    broker: int
    machine: str
    session: int
    sequence: int
    partitions: list[FetchPosition]
    forgotten: list[tuple[str, int]]
    max_wait_ms: int
    max_bytes: int
    by_file: bool


@dataclass(frozen=True, slots=True)
class FileSource:
    """Record bytes that the follower reads from the leader's segment file itself (REP5).

    The inode tells a file from another one that got the same path later: of a topic that was
    deleted and created anew, or of a compacted segment.
    """

    path: str
    inode: int
    position: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class FetchedPartition:
    """The leader's answer for one partition; `records` is None, bytes, or where to read them."""

    topic: str
    partition: int
    leader_epoch: int
    error: int
    high_watermark: int
    log_start_offset: int
    diverging: tuple[int, int] | None = None
    records: "bytes | memoryview | FileSource | None" = None


@dataclass(frozen=True, slots=True)
class FetchAnswer:
    """One answer; `error` is an ErrorCode number about the session as a whole."""

    session: int
    sequence: int
    error: int
    partitions: list[FetchedPartition]


def encode_fetch(fetch: FollowerFetch) -> list[bytes]:
    """Frames of a follower's request."""
    return [
        msgpack.packb(
            {
                "kind": "fetch",
                "broker": fetch.broker,
                "machine": fetch.machine,
                "session": fetch.session,
                "sequence": fetch.sequence,
                "partitions": [
                    (p.topic, p.partition, p.leader_epoch, p.fetch_offset, p.last_fetched_epoch)
                    for p in fetch.partitions
                ],
                "forgotten": fetch.forgotten,
                "max_wait_ms": fetch.max_wait_ms,
                "max_bytes": fetch.max_bytes,
                "by_file": fetch.by_file,
            }
        )
    ]


def decode_fetch(frames: list[bytes]) -> FollowerFetch:
    """A follower's request. Raises PeerError for anything else."""
    message = unpack(frames, "fetch")
    try:
        return FollowerFetch(
            message["broker"],
            message["machine"],
            message["session"],
            message["sequence"],
            [FetchPosition(*fields) for fields in message["partitions"]],
            [(topic, partition) for topic, partition in message["forgotten"]],
            message["max_wait_ms"],
            message["max_bytes"],
            message["by_file"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise PeerError(f"malformed fetch: {error!r}") from error


def encode_answer(answer: FetchAnswer) -> list[bytes | memoryview]:
    """Frames of a leader's answer."""
    frames: list[bytes | memoryview] = []
    partitions = []
    for p in answer.partitions:
        source: object = None
        if isinstance(p.records, FileSource):
            source = (
                p.records.path,
                p.records.inode,
                p.records.position,
                p.records.size_bytes,
            )
        elif p.records is not None:
            source = len(p.records)
            frames.append(p.records)
        partitions.append(
            (
                p.topic,
                p.partition,
                p.leader_epoch,
                p.error,
                p.high_watermark,
                p.log_start_offset,
                p.diverging,
                source,
            )
        )
    head = msgpack.packb(
        {
            "kind": "fetched",
            "session": answer.session,
            "sequence": answer.sequence,
            "error": answer.error,
            "partitions": partitions,
        }
    )
    return [head, *frames]


def decode_answer(frames: list[bytes]) -> FetchAnswer:
    """A leader's answer. Raises PeerError for anything else."""
    message = unpack(frames, "fetched")
    rest = iter(frames[1:])
    try:
        partitions = [_partition_of(fields, rest) for fields in message["partitions"]]
        return FetchAnswer(message["session"], message["sequence"], message["error"], partitions)
    except (KeyError, TypeError, ValueError, StopIteration) as error:
        raise PeerError(f"malformed fetch answer: {error!r}") from error


def unpack(frames: list[bytes], kind: str) -> dict[str, Any]:
    """The msgpack map of the first frame, which must be of that kind. Raises PeerError."""
    try:
        message = msgpack.unpackb(frames[0])
    except (ValueError, IndexError, msgpack.UnpackException) as error:
        raise PeerError(f"not a message: {error!r}") from error
    if not isinstance(message, dict) or message.get("kind") != kind:
        raise PeerError(f"expected a message of kind {kind!r}")
    return message


def _partition_of(fields: list[Any], frames: Any) -> FetchedPartition:
    topic, partition, epoch, error, high_watermark, log_start, diverging, source = fields
    records: bytes | FileSource | None = None
    if isinstance(source, list):
        records = FileSource(*source)
    elif source is not None:
        inline: bytes = next(frames)
        if len(inline) != source:
            raise ValueError(f"{len(inline)} bytes of records instead of {source}")
        records = inline
    return FetchedPartition(
        topic,
        partition,
        epoch,
        error,
        high_watermark,
        log_start,
        tuple(diverging) if diverging else None,
        records,
    )
