"""Cuts what a client sends into records: 4-byte length and bytes, or one four-letter word. Pure."""

from typing import Final

from cluster.coordinator.registry.jute import INT
from cluster.model.errors import PeerError

FOUR_LETTER_WORDS: Final = frozenset(
    {b"conf", b"envi", b"isro", b"mntr", b"ruok", b"srvr", b"stat"}
)
"""As lengths they would be above 1.6 GB, so that no frame can be mistaken for one."""


class FrameReader:
    """The receiving half of one connection.

    Invariant: it holds less than one record of at most `max_record_bytes`, whatever the client
    sends. Nothing follows a four-letter word: `word` is set and further bytes are dropped.
    """

    __slots__ = ("_buffer", "_is_first", "_max_record_bytes", "word")

    def __init__(self, max_record_bytes: int) -> None:
        self._buffer = bytearray()
        self._is_first = True
        self._max_record_bytes = max_record_bytes
        self.word: bytes | None = None

    def receive(self, received: bytes) -> list[bytes]:
        """The records that are complete now. Raises PeerError for a length that cannot be."""
        if self.word is not None:
            return []
        buffer = self._buffer
        buffer += received
        records: list[bytes] = []
        position, end = 0, len(buffer)
        while end - position >= 4:
            if self._is_first and bytes(buffer[:4]) in FOUR_LETTER_WORDS:
                self.word = bytes(buffer[:4])
                buffer.clear()
                return []
            self._is_first = False
            (length,) = INT.unpack_from(buffer, position)
            if not 0 <= length <= self._max_record_bytes:
                raise PeerError(
                    f"a frame of {length} bytes, at most {self._max_record_bytes} are allowed"
                )
            if end - position - 4 < length:
                break
            records.append(bytes(buffer[position + 4 : position + 4 + length]))
            position += 4 + length
        del buffer[:position]
        return records
