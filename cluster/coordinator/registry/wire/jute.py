"""The primitives of ZooKeeper's record encoding (jute, binary): big-endian, length-prefixed.

int: 4 bytes; long: 8; boolean: 1; buffer and string: int length (-1 = null) and the bytes;
vector: int count (-1 = null) and the elements. Knows nothing of requests.
"""

import struct
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

INT: Final = struct.Struct(">i")
LONG: Final = struct.Struct(">q")
_NULL: Final = INT.pack(-1)
_TRUE: Final = b"\x01"
_FALSE: Final = b"\x00"

T = TypeVar("T")


class MalformedRecord(Exception):
    """A record ends too early, or contains an invalid length or text."""


class RecordReader:
    """Reads the primitives of one record in order. Raises MalformedRecord at its end."""

    __slots__ = ("_end", "_position", "_record")

    def __init__(self, record: bytes, position: int = 0) -> None:
        self._record = record
        self._position = position
        self._end = len(record)

    @property
    def remaining_bytes(self) -> int:
        """The number of unread bytes."""
        return self._end - self._position

    def _advance(self, size: int) -> int:
        start = self._position
        if size > self._end - start:
            raise MalformedRecord(f"{size} bytes wanted, {self._end - start} left")
        self._position = start + size
        return start

    def read_int(self) -> int:
        """A signed 32-bit number."""
        start = self._advance(4)
        number: int = INT.unpack_from(self._record, start)[0]
        return number

    def read_long(self) -> int:
        """A signed 64-bit number."""
        start = self._advance(8)
        number: int = LONG.unpack_from(self._record, start)[0]
        return number

    def read_bool(self) -> bool:
        """One byte: everything but 0 is true."""
        return self._record[self._advance(1)] != 0

    def read_buffer(self) -> bytes | None:
        """A byte string, or None for the null buffer."""
        length = self.read_int()
        if length < 0:
            if length == -1:
                return None
            raise MalformedRecord(f"length {length}")
        start = self._advance(length)
        return self._record[start : start + length]

    def read_string(self) -> str:
        """A UTF-8 text. The null string reads as empty, since clients send it for an empty one."""
        buffer = self.read_buffer()
        if not buffer:
            return ""
        try:
            return buffer.decode("utf-8")
        except UnicodeDecodeError as error:
            raise MalformedRecord("text is not UTF-8") from error

    def read_vector(self, read_element: Callable[["RecordReader"], T]) -> tuple[T, ...]:
        """The elements in order; the null vector reads as empty."""
        count = self.read_int()
        if count < -1 or count > self.remaining_bytes:
            raise MalformedRecord(f"{count} elements in {self.remaining_bytes} bytes")
        return tuple([read_element(self) for _ in range(count)])


def encode_int(number: int) -> bytes:
    """A signed 32-bit number."""
    return INT.pack(number)


def encode_long(number: int) -> bytes:
    """A signed 64-bit number."""
    return LONG.pack(number)


def encode_bool(value: bool) -> bytes:
    """One byte, 0 or 1."""
    return _TRUE if value else _FALSE


def encode_buffer(buffer: bytes | None) -> bytes:
    """Length and bytes; None becomes the null buffer."""
    return _NULL if buffer is None else INT.pack(len(buffer)) + buffer


def encode_string(text: str) -> bytes:
    """Length and UTF-8 bytes."""
    encoded = text.encode("utf-8")
    return INT.pack(len(encoded)) + encoded


def encode_strings(texts: Iterable[str]) -> bytes:
    """A vector of ustring."""
    encoded = [encode_string(text) for text in texts]
    return encode_int(len(encoded)) + b"".join(encoded)
