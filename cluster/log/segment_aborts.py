"""The aborted transactions that ended in one segment: its `.txnindex` file, read in blocks.

The file may have a million entries. Kept in memory are three numbers for each block of 512, once
it was read: a search goes to the first block that matters, skips blocks whose transactions all
begin too late, and ends as early as the last stable offsets of the entries allow. Kafka:
`TransactionIndex.collectAbortedTxns`, which reads all entries up to there.
"""

import os
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cluster.log.files import files_of
from cluster.log.transaction_index import (
    ENTRY_BYTES,
    VERSION,
    AbortedTransaction,
    DamagedTransactionIndex,
    encode_transactions,
    first_since,
    raw_entries,
)
from cluster.model.errors import StorageFailed

BLOCK_ENTRIES: Final = 512
_UNKNOWN: Final = -1


class SegmentAborts:
    """Owned by the log's thread.

    Invariant: the file begins with `count` entries, in the order in which their transactions ended.
    """

    def __init__(self, path: Path, count: int) -> None:
        """The file has `count` entries; a failed write may have left bytes after them."""
        self._path = path
        self.count = count
        blocks = -(-count // BLOCK_ENTRIES)
        self._lowest = array("q", [_UNKNOWN]) * blocks
        """The smallest first offset of each block's entries."""
        self._last = array("q", [_UNKNOWN]) * blocks
        """The last offset of each block's last entry."""
        self._stable = array("q", [_UNKNOWN]) * blocks
        """The last stable offset of each block's last entry; no other one of a block is higher."""

    def add(self, transaction: AbortedTransaction) -> None:
        """Add the transaction that ended last; one that is there already is ignored.

        Raises StorageFailed, and DamagedTransactionIndex.
        """
        if self.count and self._last_of(len(self._last) - 1) >= transaction.last_offset:
            return
        self._write(encode_transactions([transaction]), self.count * ENTRY_BYTES)
        _, first, last, stable = transaction
        block, place = divmod(self.count, BLOCK_ENTRIES)
        self.count += 1
        if not place:
            self._lowest.append(first)
            self._last.append(last)
            self._stable.append(stable)
            return
        self._lowest[block] = min(self._lowest[block], first)  # an unknown one stays unknown
        self._last[block], self._stable[block] = last, stable

    def collect(self, first_offset: int, end_offset: int, found: list[tuple[int, int]]) -> bool:
        """Add producer id and first offset of each transaction with records in a range.

        Returns whether no transaction that ended later has any in it. Raises
        DamagedTransactionIndex.
        """
        first_block, blocks = self._block_since(first_offset), len(self._last)
        if first_block == blocks:
            return False
        with self._reading() as descriptor:
            for block in range(first_block, blocks):
                content = b""
                if self._lowest[block] == _UNKNOWN:
                    content = self._summarize(descriptor, block)
                if self._lowest[block] < end_offset:
                    content = content or self._block(descriptor, block)
                    for version, producer_id, first, last, stable in raw_entries(
                        content, first_since(content, first_offset)
                    ):
                        if version != VERSION or last < first_offset:
                            raise self._damage(block)
                        if first < end_offset:
                            found.append((producer_id, first))
                        if stable >= end_offset:
                            return True
                elif self._stable[block] >= end_offset:
                    return True
        return False

    def cut(self, end: int) -> None:
        """Remove the transactions that ended at or after an offset.

        Raises StorageFailed, and DamagedTransactionIndex.
        """
        block = self._block_since(end)
        if block == len(self._last):
            return
        with self._reading() as descriptor:
            kept = first_since(self._block(descriptor, block), end) // ENTRY_BYTES
        self.count = block * BLOCK_ENTRIES + kept
        self._truncate(self.count * ENTRY_BYTES)
        for each in (self._lowest, self._last, self._stable):
            del each[block:]
            if kept:
                each.append(_UNKNOWN)

    # -- the file ----------------------------------------------------------------------------------

    def _block_since(self, offset: int) -> int:
        """The first block with a transaction that ended at or after an offset."""
        low, high = 0, len(self._last)
        while low < high:
            middle = (low + high) // 2
            if self._last_of(middle) < offset:
                low = middle + 1
            else:
                high = middle
        return low

    def _last_of(self, block: int) -> int:
        if self._last[block] == _UNKNOWN:
            last = min((block + 1) * BLOCK_ENTRIES, self.count) - 1
            with self._reading() as descriptor:
                content = self._read(descriptor, last * ENTRY_BYTES, ENTRY_BYTES)
            for version, _, first, last, stable in raw_entries(content):
                if version != VERSION or not 0 <= first < last:
                    raise self._damage(block)
                self._last[block], self._stable[block] = last, stable
        return self._last[block]

    def _block(self, descriptor: int, block: int) -> bytes:
        first = block * BLOCK_ENTRIES
        count = min(BLOCK_ENTRIES, self.count - first)
        content = self._read(descriptor, first * ENTRY_BYTES, count * ENTRY_BYTES)
        for _, _, _, last, _ in raw_entries(content, (count - 1) * ENTRY_BYTES):
            if last != self._last[block] != _UNKNOWN:
                raise self._damage(block)  # it has changed
        return content

    def _summarize(self, descriptor: int, block: int) -> bytes:
        """Check a block that is read for the first time; returns its bytes."""
        content = self._block(descriptor, block)
        before = self._last[block - 1] if block else _UNKNOWN
        lowest = highest = -1
        for version, _, first, last, stable in raw_entries(content):
            if version != VERSION or not before < last > first >= 0:
                raise self._damage(block)
            before, highest = last, stable
            if lowest < 0 or first < lowest:
                lowest = first
        self._lowest[block], self._last[block], self._stable[block] = lowest, before, highest
        return content

    def _damage(self, block: int) -> DamagedTransactionIndex:
        return DamagedTransactionIndex(f"damaged from entry {block * BLOCK_ENTRIES} on")

    @contextmanager
    def _reading(self) -> Iterator[int]:
        try:
            descriptor = files_of(self._path).open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as problem:
            raise DamagedTransactionIndex(f"cannot be read: {problem.strerror}") from problem
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _read(self, descriptor: int, position: int, size_bytes: int) -> bytes:
        try:
            content = files_of(self._path).pread(descriptor, size_bytes, position)
        except OSError as problem:
            raise DamagedTransactionIndex(f"cannot be read: {problem.strerror}") from problem
        if len(content) < size_bytes:
            raise DamagedTransactionIndex("shorter than it was")
        return content

    def _write(self, entry: bytes, position: int) -> None:
        """Write at a position: the next attempt overwrites what a failed one has written."""
        with self._writing() as descriptor:
            left = memoryview(entry)
            while left:
                written = files_of(self._path).pwrite(descriptor, left, position)
                left, position = left[written:], position + written

    def _truncate(self, size_bytes: int) -> None:
        with self._writing() as descriptor:
            files_of(self._path).truncate(descriptor, size_bytes)

    @contextmanager
    def _writing(self) -> Iterator[int]:
        try:
            descriptor = files_of(self._path).open(
                self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644
            )
            try:
                yield descriptor
            finally:
                os.close(descriptor)
        except OSError as error:
            raise StorageFailed(f"cannot write {self._path}: {error.strerror}") from error
