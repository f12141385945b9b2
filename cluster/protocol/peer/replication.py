"""Fetches of followers, and the leaders' answers (KIP-227 for replicas of one cluster).

A session is the leader's memory of what one follower wants, so that a request contains only changes
since the last one. After session 0, or a sequence that does not follow, the leader answers `error`
and the follower begins a new session with all partitions.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from cluster.model.errors import ErrorCode
from cluster.model.ids import TopicPartition
from cluster.model.topics import TOPIC_NAME_LENGTH_MAX
from cluster.protocol.peer.field_types import (
    BOOLEAN,
    EPOCH,
    ERROR_CODE,
    INT32_MAX,
    INT64_MAX,
    LONG,
    NUMBER,
    OFFSET,
    OFFSET_OR_NONE,
    FieldType,
    Malformed,
    integer,
    listed,
    optional,
    record,
    text,
)

PARTITIONS_MAX: Final = 1_000_000
"""The upper bound for one message: far more than one broker can hold, and less than would fill a
machine."""
_MACHINE_NAME_MAX: Final = 255
_PATH_MAX: Final = 4_096
_SEGMENT_NAME_LENGTH: Final = len("00000000000000000000.log")


@dataclass(frozen=True, slots=True)
class FetchPosition:
    """A follower's fetch position in one partition."""

    topic: str
    partition: int
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    handle: int = 0
    """Stands for the partition in the compact messages of the session."""
    max_bytes: int = INT32_MAX
    """The bytes that the answer may contain (0: no records), or one batch if that is larger."""


@dataclass(frozen=True, slots=True)
class FollowerFetch:
    """One request of a follower; `partitions` are those that changed since the last request."""

    broker: int
    machine: str
    session: int
    sequence: int
    partitions: Sequence[FetchPosition]
    forgotten: Sequence[TopicPartition]
    max_wait_ms: int
    max_bytes: int
    by_file: bool
    broker_epoch: int = -1
    """The epoch of the follower's registration (KIP-903)."""


@dataclass(frozen=True, slots=True)
class FileSource:
    """Record bytes that the follower reads from the leader's segment file itself.

    The inode identifies the file: another one may get the same path after a topic was recreated or
    a segment was compacted.
    """

    path: str
    inode: int
    position: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class FetchedPartition:
    """The leader's answer for one partition; `records` is None, bytes, or where to read them.

    Bytes are sent as a separate frame behind the message, which holds their number.
    """

    topic: str
    partition: int
    leader_epoch: int
    error: ErrorCode
    high_watermark: int
    log_start_offset: int
    diverging: tuple[int, int] | None = None
    """The epoch and its end offset (KIP-595)."""
    records: bytes | memoryview | FileSource | None = None

    @property
    def size_bytes(self) -> int:
        """The bytes of the records, wherever they are."""
        records = self.records
        if records is None:
            return 0
        return records.size_bytes if isinstance(records, FileSource) else len(records)


@dataclass(frozen=True, slots=True)
class FetchAnswer:
    """One answer; `error` concerns the session as a whole."""

    session: int
    sequence: int
    error: ErrorCode
    partitions: Sequence[FetchedPartition]


def _members(*values: Any) -> tuple[Any, ...]:
    return values


_TOPIC: Final = text(TOPIC_NAME_LENGTH_MAX)

FOLLOWER_FETCH: Final = record(
    FollowerFetch,
    broker=NUMBER,
    machine=text(_MACHINE_NAME_MAX),
    session=NUMBER,
    sequence=LONG,
    partitions=listed(
        record(
            FetchPosition,
            topic=_TOPIC,
            partition=NUMBER,
            leader_epoch=EPOCH,
            fetch_offset=OFFSET,
            last_fetched_epoch=EPOCH,
            log_start_offset=OFFSET,
            handle=NUMBER,
            max_bytes=NUMBER,
        ),
        PARTITIONS_MAX,
    ),
    forgotten=listed(record(TopicPartition, topic=_TOPIC, partition=NUMBER), PARTITIONS_MAX),
    max_wait_ms=NUMBER,
    max_bytes=NUMBER,
    by_file=BOOLEAN,
    broker_epoch=OFFSET_OR_NONE,
)

_FILE_SOURCE: Final = record(
    FileSource,
    path=text(_PATH_MAX),
    inode=integer(0, 2 * INT64_MAX + 1),
    position=NUMBER,
    size_bytes=NUMBER,
)
_pack_file_source: Final = _FILE_SOURCE.packer()


_SOURCE: Final = FieldType(
    "a source of records",
    "True",
    "({v} if {v} is None else read_file({v}) if type({v}) is list else read_size({v}))",
    names={"read_file": _FILE_SOURCE.reader(), "read_size": NUMBER.reader()},
)


def _fetched(
    topic: str,
    partition: int,
    leader_epoch: int,
    error: ErrorCode,
    high_watermark: int,
    log_start_offset: int,
    diverging: tuple[int, int] | None,
    source: Any,
) -> FetchedPartition:
    """While inline bytes are still to come, `records` is their number. Raises Malformed."""
    if source is not None:
        if error or diverging is not None:
            raise Malformed("records beside an error or a divergence", "source")
        if type(source) is not int and not is_segment_path(source.path, topic, partition):
            raise Malformed("no path of a segment of this partition", "source.path")
    if not error and log_start_offset > high_watermark:
        raise Malformed(
            f"{log_start_offset} is above the high watermark {high_watermark}", "log_start_offset"
        )
    return FetchedPartition(
        topic,
        partition,
        leader_epoch,
        error,
        high_watermark,
        log_start_offset,
        diverging,
        source,
    )


@lru_cache(maxsize=4_096)
def is_segment_path(path: str, topic: str, partition: int) -> bool:
    """Whether this may be a segment of that partition: `[directory]/orders-0/[20 digits].log`."""
    name = path[-_SEGMENT_NAME_LENGTH:]
    directory = f"{topic}-{partition}/"
    return (
        name[:20].isdecimal()
        and name.isascii()
        and name.endswith(".log")
        and "\0" not in path
        and (
            path.endswith(f"/{directory}", 0, -_SEGMENT_NAME_LENGTH)
            or path[:-_SEGMENT_NAME_LENGTH] == directory
        )
    )


_read_content: Final = record(
    _members,
    session=NUMBER,
    sequence=LONG,
    error=ERROR_CODE,
    partitions=listed(
        record(
            _fetched,
            topic=_TOPIC,
            partition=NUMBER,
            leader_epoch=EPOCH,
            error=ERROR_CODE,
            high_watermark=OFFSET_OR_NONE,
            log_start_offset=OFFSET_OR_NONE,
            diverging=optional(record(_members, epoch=EPOCH, end_offset=OFFSET_OR_NONE)),
            source=_SOURCE,
        ),
        PARTITIONS_MAX,
    ),
).reader()


def pack_answer(answer: FetchAnswer) -> tuple[object, list[bytes | memoryview]]:
    """The value for msgpack, and the frames behind the message."""
    frames: list[bytes | memoryview] = []
    partitions = []
    for each in answer.partitions:
        records = each.records
        source: object = None
        if isinstance(records, FileSource):
            source = _pack_file_source(records)
        elif records is not None:
            source = len(records)
            frames.append(records)
        partitions.append(
            (
                each.topic,
                each.partition,
                each.leader_epoch,
                int(each.error),
                each.high_watermark,
                each.log_start_offset,
                each.diverging,
                source,
            )
        )
    return (answer.session, answer.sequence, int(answer.error), partitions), frames


def read_answer(content: Any, frames: Sequence[bytes]) -> FetchAnswer:
    """The answer, with the frame of each partition. Raises Malformed."""
    session, sequence, error, partitions = _read_content(content)
    inline = [at for at, each in enumerate(partitions) if type(each.records) is int]
    if inline or frames:
        if len(inline) != len(frames):
            raise Malformed(f"{len(frames)} frames of records instead of {len(inline)}")
        partitions = list(partitions)
        for at, records in zip(inline, frames, strict=True):
            announced = partitions[at].records
            if len(records) != announced:
                raise Malformed(
                    f"{len(records)} bytes of records instead of {announced}", f"partitions[{at}]"
                )
            partitions[at] = replace(partitions[at], records=records)
    return FetchAnswer(session, sequence, error, partitions)
