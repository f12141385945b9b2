"""Produce requests with one finished batch each: version 8, the newest without tags. Pure."""

import struct
from typing import Final, NamedTuple

from cluster.model.errors import ErrorCode, PeerError
from cluster.protocol.reader import MALFORMED, truncated

VERSION: Final = 8
_NULL: Final = b"\xff\xff"
_ACKS_ALL: Final = -1
_ACKS_TIMEOUT_TOPICS: Final = struct.Struct(">hii")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_ONE_AND_INDEX_AND_SIZE: Final = struct.Struct(">iii")
_RESULT: Final = struct.Struct(">ihqqq")


class Answer(NamedTuple):
    """What became of the batch; the offset of its first record, -1 where it was refused."""

    error_code: ErrorCode
    base_offset: int
    message: str
    """The broker's words, perhaps empty."""


def produce_body(topic: str, partition: int, batch: bytes | bytearray, timeout_ms: int) -> bytes:
    """The body of a request that waits for all in-sync replicas (acks=all)."""
    name = topic.encode()
    return b"".join(
        (
            _NULL,
            _ACKS_TIMEOUT_TOPICS.pack(_ACKS_ALL, timeout_ms, 1),
            _INT16.pack(len(name)),
            name,
            _ONE_AND_INDEX_AND_SIZE.pack(1, partition, len(batch)),
            batch,
        )
    )


def read_answer(body: bytes) -> Answer:
    """The result for the one partition of a response. Raises PeerError."""
    try:
        return _answer(body)
    except MALFORMED as problem:
        raise PeerError(f"malformed ProduceResponse v{VERSION}: {problem}") from None


def _answer(body: bytes) -> Answer:
    position = _INT32.size  # one topic
    _, position = _text(body, position)
    position += _INT32.size  # one partition
    _, code, base_offset, _, _ = _RESULT.unpack_from(body, position)
    position += _RESULT.size
    (count,) = _INT32.unpack_from(body, position)
    position += _INT32.size
    texts = []
    for _ in range(count):
        text, position = _text(body, position + _INT32.size)
        texts.append(text)
    message, _ = _text(body, position)
    return Answer(ErrorCode(code), base_offset, message or "; ".join(filter(None, texts[:3])))


def _text(body: bytes, position: int) -> tuple[str, int]:
    (size,) = _INT16.unpack_from(body, position)
    position += _INT16.size
    if size < 0:
        return "", position
    if position + size > len(body):
        raise truncated()
    return body[position : position + size].decode(), position + size
