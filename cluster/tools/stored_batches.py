"""The batches and messages of a log file, one after the other.

Reads as Kafka's `FileLogInputStream` does: what is not a whole batch at the end is left out, and a
size that no batch has ends the reading.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from cluster.model.errors import Refused
from cluster.records.batch import (
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    MAGIC_POSITION,
    MAGIC_V2,
    BatchHeader,
    checksum,
    read_header,
)
from cluster.records.legacy import SIZE_MIN, Message, read_message, records_of_message
from cluster.records.reader import Record, records_of_batch
from cluster.tools.stored_file import StoredFile

_SIZE: Final = Struct(">i")
_SIZE_POSITION: Final = 8
_HEAD_BYTES: Final = MAGIC_POSITION + 1
NO_LIMIT: Final = 2**31 - 1


class Unreadable(Exception):
    """A file cannot be read beyond what was read of it; the text says why, without its name."""


class AllocatedAhead(Unreadable):
    """What is left of a log file is space that its broker has allocated ahead: no damage."""


class Read(NamedTuple):
    """One record; `message` is the old message that holds it, if any."""

    record: Record
    message: Message | None


class NewBatch(NamedTuple):
    """A batch of format v2."""

    position: int
    header: BatchHeader
    content: memoryview

    @property
    def last_offset(self) -> int:
        """Offset of the last record."""
        return self.header.last_offset

    @property
    def is_valid(self) -> bool:
        """Whether it has a header and its checksum matches."""
        return len(self.content) >= HEADER_BYTES and checksum(self.content) == self.header.crc

    def records(self) -> Iterator[Read]:
        """The records, as far as they can be read. Raises Unreadable."""
        try:
            for record in records_of_batch(self.header, self.content):
                yield Read(record, None)
        except Refused as problem:
            raise Unreadable(f"{problem.detail} (batch at byte {self.position})") from None


class OldMessage(NamedTuple):
    """A message of format v0 or v1, perhaps with others inside."""

    position: int
    message: Message
    content: memoryview

    @property
    def last_offset(self) -> int:
        """Offset of the last record."""
        return self.message.offset

    @property
    def is_valid(self) -> bool:
        """Whether its checksum matches."""
        return self.message.is_valid

    def records(self) -> Iterator[Read]:
        """The record, or those inside. Raises Unreadable."""
        try:
            for inner, record in records_of_message(self.message):
                yield Read(record, inner)
        except Refused as problem:
            raise Unreadable(f"{problem.detail} (message at byte {self.position})") from None


StoredBatch = NewBatch | OldMessage


def stored_batches(
    file: StoredFile, position: int = 0, max_bytes: int = NO_LIMIT
) -> Iterator[StoredBatch]:
    """Each batch or message in `max_bytes` from a position on, also of a log that is written to.

    Raises Unreadable, AllocatedAhead and UserError.
    """
    end = min(position + max_bytes, file.size_bytes)
    while position < end - _HEAD_BYTES:
        length = _length(file, position)
        if not length:
            if file.is_zero_from(position):
                raise AllocatedAhead(
                    f"the log ends at byte {position}; {file.size_bytes - position} bytes after it"
                    " are allocated ahead"
                )
            file.forget()  # its broker may have appended there since the length was read
            length = _length(file, position)
        if length < SIZE_MIN:
            raise Unreadable(
                f"Found record size {length} smaller than minimum record overhead ({SIZE_MIN})"
                f" at byte {position}"
            )
        size = LENGTH_OVERHEAD_BYTES + length
        if position + size > end:
            return
        content = file.read(position, size)
        try:
            yield _batch(file, position, content)
        except Refused as problem:
            raise Unreadable(f"{problem.detail} (at byte {position})") from None
        position += size


def _length(file: StoredFile, position: int) -> int:
    (length,) = _SIZE.unpack_from(file.read(position, HEADER_BYTES), _SIZE_POSITION)
    return int(length)


def _batch(file: StoredFile, position: int, content: memoryview) -> StoredBatch:
    if content[MAGIC_POSITION] < MAGIC_V2:
        return OldMessage(position, read_message(content), content)
    return NewBatch(position, read_header(file.read(position, HEADER_BYTES)), content)
