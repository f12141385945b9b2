"""Splits received bytes into records, each with a 4-byte length, or one four-letter word. Pure."""

from typing import Final

from cluster.coordinator.registry.wire.jute import INT
from cluster.model.errors import PeerError

FOUR_LETTER_WORDS: Final = frozenset(
    {
        *(b"conf", b"cons", b"crst", b"dirs", b"dump", b"envi", b"isro", b"mntr"),
        *(b"ruok", b"srst", b"srvr", b"stat", b"wchc", b"wchp", b"wchs"),
    }
)
"""As lengths they exceed 1.6 GB, so no frame can be mistaken for one of them."""


class FrameReader:
    """The receiving half of one connection. The caller takes records until there is none before it
    passes more bytes.

    Invariant: then less than one record of at most `max_record_bytes` is held, whatever the client
    sends, and no more than has arrived of it.

    Nothing follows a four-letter word: `word` is set, and further bytes are dropped.
    """

    __slots__ = ("_is_first", "_max_record_bytes", "_position", "pending", "word")

    def __init__(self, max_record_bytes: int) -> None:
        self.pending = bytearray()
        """Received bytes that are not part of a returned record."""
        self._position = 0
        self._is_first = True
        self._max_record_bytes = max_record_bytes
        self.word: bytes | None = None

    def receive(self, received: bytes | memoryview) -> None:
        """Append received bytes."""
        buffer = self.pending
        del buffer[: self._position]
        self._position = 0
        buffer += received
        if self._is_first and len(buffer) >= 4:
            self._is_first = False
            word = bytes(buffer[:4])
            if word in FOUR_LETTER_WORDS:
                self.word = word
        if self.word is not None:
            buffer.clear()

    def next_record(self) -> bytes | None:
        """The next record; None before it is complete. Raises PeerError for an invalid length."""
        buffer, start = self.pending, self._position + 4
        if len(buffer) < start:
            return None
        (length,) = INT.unpack_from(buffer, self._position)
        if not 0 <= length <= self._max_record_bytes:
            raise PeerError(
                f"a frame of {length} bytes, at most {self._max_record_bytes} are allowed"
            )
        end = start + length
        if len(buffer) < end:
            return None
        record = bytes(memoryview(buffer)[start:end])
        if end == len(buffer):
            buffer.clear()  # a connection at rest keeps no memory of its last request
            end = 0
        self._position = end
        return record
