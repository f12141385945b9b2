"""Fetch requests of a consumer outside of groups: version 11, the newest without tags. Pure."""

import struct
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from cluster.model.errors import ErrorCode, PeerError
from cluster.protocol.reader import MALFORMED, truncated

VERSION: Final = 11
_CONSUMER: Final = -1
_NO_WAIT_MS: Final = 0
_MIN_BYTES: Final = 1
_NO_SESSION: Final = (0, -1)
_UNKNOWN: Final = -1
_HEAD: Final = struct.Struct(">iiiibii")
_PARTITION: Final = struct.Struct(">iiqqi")
_ANSWER_HEAD: Final = struct.Struct(">ihii")
_ANSWER_PARTITION: Final = struct.Struct(">ihqqq")
_ABORTED: Final = struct.Struct(">qq")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


class Fetched(NamedTuple):
    """The answer for one partition."""

    partition: int
    error_code: ErrorCode
    aborted: tuple[tuple[int, int], ...]
    """Producer id and first offset of each aborted transaction in the records, for a request that
    reads committed records only."""
    records: memoryview
    """Record batches; the last one may be incomplete."""


def fetch_body(
    topic: str,
    offsets: Mapping[int, int],
    *,
    is_committed_only: bool,
    max_bytes: int,
    partition_max_bytes: int,
) -> bytes:
    """The body of a request for partitions of a topic, each from an offset.

    A broker that has records answers at once, one that has none too. The first batch is sent whole,
    however large it is.
    """
    name = topic.encode()
    parts = [
        _HEAD.pack(
            _CONSUMER, _NO_WAIT_MS, _MIN_BYTES, max_bytes, int(is_committed_only), *_NO_SESSION
        ),
        _INT32.pack(1),
        _INT16.pack(len(name)),
        name,
        _INT32.pack(len(offsets)),
    ]
    parts += (
        _PARTITION.pack(partition, _UNKNOWN, offset, _UNKNOWN, partition_max_bytes)
        for partition, offset in offsets.items()
    )
    parts.append(_INT32.pack(0))  # forgotten topics
    parts.append(_INT16.pack(0))  # no rack: the leader answers
    return b"".join(parts)


def read_fetch_answer(body: bytes) -> list[Fetched]:
    """The answers for the partitions of one topic. Raises PeerError."""
    try:
        return [*_answers(body)]
    except MALFORMED as problem:
        raise PeerError(f"malformed FetchResponse v{VERSION}: {problem}") from None


def _answers(body: bytes) -> Iterator[Fetched]:
    _, error, _, topics = _ANSWER_HEAD.unpack_from(body)
    if error != ErrorCode.none:
        raise PeerError(f"fetch refused: {ErrorCode(error).name}")
    position = _ANSWER_HEAD.size
    view = memoryview(body)
    for _ in range(topics):
        (size,) = _INT16.unpack_from(body, position)
        position += _INT16.size + size
        (count,) = _INT32.unpack_from(body, position)
        position += _INT32.size
        for _ in range(count):
            index, code, *_ = _ANSWER_PARTITION.unpack_from(body, position)
            position += _ANSWER_PARTITION.size
            (transactions,) = _INT32.unpack_from(body, position)
            position += _INT32.size
            aborted = []
            for _ in range(max(0, transactions)):
                aborted.append(_ABORTED.unpack_from(body, position))
                position += _ABORTED.size
            position += _INT32.size  # the preferred read replica
            (length,) = _INT32.unpack_from(body, position)
            start = position + _INT32.size
            position = start + max(0, length)
            if position > len(body):
                raise truncated()
            yield Fetched(index, ErrorCode(code), tuple(aborted), view[start:position])
