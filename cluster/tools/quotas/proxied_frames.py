"""Splits a stream of Kafka's frames without keeping them: the beginning and end of each. Pure."""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from cluster.model.errors import PeerError
from cluster.protocol.api import ApiKey, is_flexible

_INT: Final = struct.Struct(">i")
_HEAD_BYTES: Final = 16
_TAIL_BYTES: Final = 8


class Frame(NamedTuple):
    """A frame; `tail` is its last bytes, once it has passed completely."""

    size_bytes: int
    head: bytes
    tail: bytes


class FrameCutter:
    """One direction of one connection."""

    def __init__(self, *, at_head: bool) -> None:
        """`at_head`: whether a frame is reported at its beginning, not when it has passed."""
        self._at_head = at_head
        self._begin = bytearray()
        self._head = b""
        self._tail = b""
        self._size_bytes = 0
        self._left_bytes = 0

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames reported by `data`. Raises PeerError for a size below 0."""
        position = 0
        while position < len(data):
            if not self._left_bytes:
                missing = _INT.size - len(self._begin)
                self._begin += data[position : position + missing]
                position += missing
                if len(self._begin) < _INT.size:
                    return
                (self._size_bytes,) = _INT.unpack(self._begin)
                if self._size_bytes < 0:
                    raise PeerError(f"a frame of {self._size_bytes} bytes")
                self._left_bytes = self._size_bytes
                self._begin.clear()
                self._head = self._tail = b""
                continue
            part = data[position : position + self._left_bytes]
            position += len(part)
            self._left_bytes -= len(part)
            yield from self._take(part)

    def _take(self, part: bytes) -> Iterator[Frame]:
        wanted = min(_HEAD_BYTES, self._size_bytes)
        had_head = len(self._head) == wanted
        self._head += part[: wanted - len(self._head)]
        self._tail = (self._tail + part[-_TAIL_BYTES:])[-_TAIL_BYTES:]
        has_head = len(self._head) == wanted
        if (has_head and not had_head) if self._at_head else not self._left_bytes:
            yield Frame(self._size_bytes, self._head, self._tail)


def throttle_ms_of(api_key: int, version: int, answer: Frame) -> int:
    """The throttle time in a response to Produce or Fetch, from version 1 on.

    Fetch begins with it, Produce ends with it; behind that are only empty tags, as the endpoints of
    other leaders (KIP-951) do not come from a cluster of one broker.
    """
    tags = is_flexible(api_key, version)
    if api_key == ApiKey.FETCH:
        throttle_ms: int = _INT.unpack_from(answer.head, _INT.size + tags)[0]
    else:
        (throttle_ms,) = _INT.unpack_from(answer.tail, len(answer.tail) - _INT.size - tags)
    return throttle_ms
