"""Checks the files of one segment, for a broker's scrub and for `verify`.

Reads the files in pieces, never through a mapping, because the owner may truncate or delete them
meanwhile. The caller may pause between two pieces.
"""

import errno
import os
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from crc32c import crc32c

from cluster.log.files import files_of
from cluster.log.index_check import IndexChecks
from cluster.log.transaction_check import TransactionChecks
from cluster.records.batch import (
    ATTRIBUTES_POSITION,
    CONTROL_BIT,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    MAGIC_POSITION,
    MAGIC_V2,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
    read_header,
)

PIECE_BYTES: Final = 128 << 10
"""Read at a time. A tenth of a millisecond of a processor, some more for small batches."""
_OLD_CHECKSUM_POSITION: Final = 12
_OLD_LENGTH_MIN: Final = 14
_MAGIC_V2_BYTE: Final = bytes([MAGIC_V2])
_OF_TRANSACTIONS: Final = TRANSACTIONAL_BIT | CONTROL_BIT
_SHORTEST: Final = HEADER_BYTES - LENGTH_OVERHEAD_BYTES


class Hole(NamedTuple):
    """A range without valid batches, up to the next good one."""

    position: int
    end: int
    offset: int
    """The first one that may be missing."""
    next_offset: int
    """That of the good batch at `end`, or where the next segment begins."""
    defect: str


class FileToCheck(NamedTuple):
    """One segment, as its owner or the directory describes it."""

    path: Path
    base_offset: int
    offset_limit: int
    """Where the next segment begins, or the log ends."""
    size_bytes: int | None
    """How many bytes are batches; None for all that the file holds."""
    is_active: bool
    """Its indexes are not written yet, and it may end in space allocated ahead."""


class SegmentCheck:
    """The check of one segment. Lifecycle: construct, run `steps` to the end, read the attributes.

    Invariant: each byte of [0, end) is in a good batch or in a hole.
    """

    def __init__(self, file: FileToCheck) -> None:
        self.file = file
        self.holes: list[Hole] = []
        self.index_defects: list[str] = []
        self.has_bad_transactions = False
        """Whether one of the defects is that of the `.txnindex`."""
        self.checked_bytes = 0
        self.end = 0
        """Where the batches end."""
        self.first_offset = file.base_offset
        self.next_offset = file.base_offset
        self.stamp: tuple[int, int] | None = None
        """Modification time and inode of the file; None where it changed meanwhile."""
        self._descriptor = -1
        self._window = b""
        self._window_at = 0

    @property
    def is_good(self) -> bool:
        """Whether no defect was found."""
        return not self.holes and not self.index_defects

    def steps(self, first_position: int = 0) -> Iterator[int]:
        """Run the check; yields the number of bytes read since the last step. Raises OSError.

        A check that starts in the middle does not check the indexes.
        """
        self._files = files_of(self.file.path)
        self._descriptor = self._files.open(self.file.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            facts = os.fstat(self._descriptor)
            yield from self._check(facts.st_size, first_position)
            after = os.fstat(self._descriptor)
            if facts.st_mtime_ns == after.st_mtime_ns:
                self.stamp = facts.st_mtime_ns, facts.st_ino
        finally:
            os.close(self._descriptor)
            self._window = b""

    def run(self, first_position: int = 0) -> "SegmentCheck":
        """Run the whole check at once. Raises OSError."""
        for _ in self.steps(first_position):
            pass
        return self

    def _check(self, file_bytes: int, first_position: int) -> Iterator[int]:
        file = self.file
        wanted = file_bytes if file.size_bytes is None else file.size_bytes
        size = min(wanted, file_bytes)
        has_indexes = not file.is_active and not first_position
        indexes = IndexChecks(file.path, file.base_offset) if has_indexes else None
        transactions = TransactionChecks(file.path) if has_indexes else None
        position, reported = first_position, first_position
        is_first = True
        while position < size:
            header, defect = self._batch_at(position, self.next_offset, size)
            if defect is None and header is not None:
                if is_first:
                    self.first_offset, is_first = header.base_offset, False
                if indexes is not None:
                    indexes.on_batch(position, header)
                if transactions is not None and header.attributes & _OF_TRANSACTIONS:
                    self._check_transaction(transactions, position, header)
                position += header.size_bytes
                self.next_offset = header.last_offset + 1
            elif file.is_active and file.size_bytes is None and self._is_zero(position, size):
                break
            else:
                end = yield from self._next_good(position, header, size)
                after = file.offset_limit
                if end < size:
                    after = read_header(self._read(end, HEADER_BYTES)).base_offset
                self.holes.append(
                    Hole(position, end, self.next_offset, after, defect or "no batch begins here")
                )
                position, self.next_offset = end, after
            if position - reported >= PIECE_BYTES:
                self.checked_bytes += position - reported
                yield position - reported
                reported = position
        self.checked_bytes += position - reported
        yield position - reported
        self.end = position
        if size < wanted:
            self._note_missing(size, wanted)
        if indexes is not None and not self.holes:
            self.index_defects = indexes.finish()
        if transactions is not None and not self.holes:
            defect = transactions.finish()
            if defect is not None:
                self.has_bad_transactions = True
                self.index_defects.append(defect)

    def _check_transaction(
        self, transactions: TransactionChecks, position: int, header: BatchHeader
    ) -> None:
        if transactions.reads(header):
            transactions.on_batch(header, self._read(position, header.size_bytes))
        else:
            transactions.on_batch(header)

    def _note_missing(self, size: int, wanted: int) -> None:
        """Record that the file ends before the batches that its owner wrote."""
        defect = f"the file ends there, {wanted - size} bytes are missing"
        if self.holes and self.holes[-1].end == size:
            last = self.holes.pop()
            self.holes.append(last._replace(end=wanted, defect=defect))
        else:
            limit = self.file.offset_limit
            self.holes.append(Hole(size, wanted, self.next_offset, limit, defect))

    def _batch_at(
        self, position: int, next_offset: int, size: int
    ) -> tuple[BatchHeader | None, str | None]:
        """The header at a position, if any, and the defect of its batch, if any."""
        left = size - position
        if left < HEADER_BYTES:
            return self._old_message(position, next_offset, left) or (
                None,
                f"{left} bytes are not a batch",
            )
        header = read_header(self._read(position, HEADER_BYTES))
        if header.magic != MAGIC_V2:
            return self._old_message(position, next_offset, left) or (None, "no batch begins here")
        if not HEADER_BYTES <= header.size_bytes <= left:
            return None, "no batch begins here"
        if not next_offset <= header.base_offset <= header.last_offset < self.file.offset_limit:
            return header, f"offset {header.base_offset} cannot be here"
        if header.base_offset > next_offset and left >= header.size_bytes + HEADER_BYTES:
            # One of two overlapping batches is wrong: this one, because it follows a gap.
            following = read_header(self._read(position + header.size_bytes, HEADER_BYTES))
            if next_offset <= following.base_offset <= header.last_offset:
                return header, f"offset {header.base_offset} cannot be here"
        start, end = position + ATTRIBUTES_POSITION, position + header.size_bytes
        if self._checksum(start, end) != header.crc:
            return header, "checksum does not match"
        return header, None

    def _old_message(
        self, position: int, next_offset: int, left: int
    ) -> tuple[BatchHeader, None] | None:
        """A message of format v0 or v1 with a valid checksum, as if it were a batch of one
        record."""
        if left < LENGTH_OVERHEAD_BYTES + _OLD_LENGTH_MIN:
            return None
        head = self._read(position, MAGIC_POSITION + 1)
        offset, length = int.from_bytes(head[:8], "big"), int.from_bytes(head[8:12], "big")
        size = length + LENGTH_OVERHEAD_BYTES
        if head[MAGIC_POSITION] > 1 or not _OLD_LENGTH_MIN <= length <= left or size > left:
            return None
        if not next_offset <= offset < self.file.offset_limit:
            return None
        content = self._read(position, size)
        stored = int.from_bytes(content[_OLD_CHECKSUM_POSITION:MAGIC_POSITION], "big")
        if zlib.crc32(content[MAGIC_POSITION:]) != stored:
            return None
        magic = head[MAGIC_POSITION]
        zeros = (0,) * 3
        return BatchHeader(
            offset, length, -1, magic, stored, 0, 0, NO_TIMESTAMP, NO_TIMESTAMP, *zeros, 1
        ), None

    def _next_good(
        self, position: int, header: BatchHeader | None, size: int
    ) -> Generator[int, None, int]:
        """The position of the first good batch after a damaged one, or the end; yields like
        `steps`."""
        if header is not None and HEADER_BYTES <= header.size_bytes <= size - position:
            after = position + header.size_bytes
            if after == size or self._batch_at(after, self.next_offset, size)[1] is None:
                return after
        start = position + 1
        while start < size - HEADER_BYTES:
            piece = self._files.pread(self._descriptor, PIECE_BYTES + HEADER_BYTES, start)
            for place in _places_of_batches(piece, self.next_offset, self.file.offset_limit):
                if self._batch_at(start + place, self.next_offset, size)[1] is None:
                    return start + place
            if len(piece) <= HEADER_BYTES:
                break
            start += len(piece) - HEADER_BYTES
            yield 0
        return size

    def _read(self, position: int, size: int) -> memoryview:
        start = position - self._window_at
        if start < 0 or start + size > len(self._window):
            self._window = self._files.pread(self._descriptor, max(size, PIECE_BYTES), position)
            self._window_at, start = position, 0
            if len(self._window) < size:
                # The next reader reports the missing bytes; the disk has not failed.
                raise OSError(errno.EAGAIN, "the file was truncated while it was read")
        return memoryview(self._window)[start : start + size]

    def _checksum(self, start: int, end: int) -> int:
        """The checksum of a range that may not fit into memory."""
        value = 0
        while start < end:
            piece = self._read(start, min(end - start, PIECE_BYTES))
            value = crc32c(piece, value)
            start += len(piece)
        return value

    def _is_zero(self, position: int, size: int) -> bool:
        while position < size:
            piece = self._read(position, min(size - position, PIECE_BYTES))
            if any(piece):
                return False
            position += len(piece)
        return True


def _places_of_batches(piece: bytes, offset: int, offset_limit: int) -> Iterator[int]:
    """Positions in some bytes where a header with an offset in [offset, limit) may begin."""
    found = piece.find(_MAGIC_V2_BYTE, MAGIC_POSITION)
    while found >= 0:
        place = found - MAGIC_POSITION
        if len(piece) - place < HEADER_BYTES:
            return
        header = read_header(piece, place)
        if header.batch_length >= _SHORTEST and offset <= header.base_offset < offset_limit:
            yield place
        found = piece.find(_MAGIC_V2_BYTE, found + 1)
