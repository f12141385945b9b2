"""The aborted transactions of one log, from the `.txnindex` files of its segments.

A file is read when records of its segment, or of an earlier one, are read by a consumer with
`read_committed`. Its bytes are kept as they are, 34 for each transaction, and searched by halves:
there may be a million of them. Kafka: `TransactionIndex`, `LocalLog.collectAbortedTransactions`.
"""

import logging
import os
from bisect import bisect_left, insort
from collections import OrderedDict
from pathlib import Path
from typing import Final

from cluster.log.files import files_of
from cluster.log.log_reads import segment_slot
from cluster.log.segment_list import SegmentList
from cluster.log.segment_paths import TRANSACTION_INDEX_SUFFIX, segment_path
from cluster.log.transaction_index import (
    ENTRY_BYTES,
    AbortedTransaction,
    DamagedTransactionIndex,
    decode_transactions,
    encode_transactions,
    entry_at,
    read_content,
)
from cluster.model.errors import StorageFailed
from cluster.model.ids import Offset

_log = logging.getLogger(__name__)

_KEPT_BYTES: Final = 8 << 20
"""Of files that are kept in memory, beside the one read last."""


class AbortedTransactions:
    """Owned by the log's thread.

    Invariant: every transaction is in the file of the segment that holds its marker.
    """

    def __init__(self, files: SegmentList) -> None:
        self._files = files
        self._changes_seen = -1
        self._bases: list[int] = []
        """Base offsets of the segments whose files have entries, ascending."""
        self._contents: OrderedDict[int, bytearray] = OrderedDict()
        """By base offset; what was used last is at the end."""
        self._kept_bytes = 0
        self._is_damaged = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing was aborted, as far as that can be known."""
        self._refresh()
        return not self._bases and not self._is_damaged

    @property
    def is_damaged(self) -> bool:
        """Whether some file was found to be damaged: which transactions were aborted is unknown."""
        self._refresh()
        return self._is_damaged

    def add(self, transaction: AbortedTransaction) -> None:
        """Add one, which ended after all others; one that is known already is ignored.

        Raises StorageFailed.
        """
        self._refresh()
        segments = self._files.segments
        base = segments[segment_slot(segments, transaction.last_offset)].base_offset
        try:
            content = self._content(base) if base in self._bases else bytearray()
        except DamagedTransactionIndex as damage:
            self._on_damage(damage)
            return
        if content:
            last = entry_at(content, len(content) - ENTRY_BYTES)
            if last.last_offset >= transaction.last_offset:
                return
        entry = encode_transactions([transaction])
        _append(self._path(base), entry)
        if base in self._bases:
            content += entry
            self._kept_bytes += ENTRY_BYTES
        else:
            insort(self._bases, base)

    def overlapping(self, first_offset: int, end_offset: int) -> list[tuple[int, int]]:
        """Producer id and first offset of each aborted transaction with records in a range.

        Raises DamagedTransactionIndex; from then on `is_damaged`.
        """
        self._refresh()
        if not self._bases:
            return []
        segments = self._files.segments
        first_base = segments[segment_slot(segments, first_offset)].base_offset
        found: list[tuple[int, int]] = []
        for base in self._bases[bisect_left(self._bases, first_base) :]:
            try:
                content = self._content(base)
            except DamagedTransactionIndex as damage:
                self._on_damage(damage)
                raise
            for position in range(_first_since(content, first_offset), len(content), ENTRY_BYTES):
                entry = entry_at(content, position)
                if entry.first_offset < end_offset:
                    found.append((entry.producer_id, entry.first_offset))
                if entry.last_stable_offset >= end_offset:
                    return found  # all later ones begin at or after that offset
        return found

    def cut(self, end: Offset) -> None:
        """Forget transactions that ended at or beyond the new log end. Raises StorageFailed."""
        path = self._path(self._files.active.base_offset)
        try:
            content = bytearray(read_content(path))
            decode_transactions(bytes(content))
        except DamagedTransactionIndex:
            return  # the next reader finds it
        kept = _first_since(content, end)
        if kept < len(content):
            try:
                files_of(path).write_file(path, bytes(content[:kept]))
            except OSError as error:
                raise StorageFailed(f"cannot write {path}: {error.strerror}") from error

    # -- files -------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        """Look for files again if segments were removed, cut or replaced."""
        if self._changes_seen == self._files.changes:
            return
        self._changes_seen = self._files.changes
        self._contents.clear()
        self._kept_bytes = 0
        self._is_damaged = False
        known = {segment.base_offset for segment in self._files.segments}
        self._bases = []
        try:
            with os.scandir(self._files.directory) as entries:
                for entry in entries:
                    stem, dot, ending = entry.name.rpartition(".")
                    if dot + ending != TRANSACTION_INDEX_SUFFIX or not stem.isdigit():
                        continue
                    if int(stem) in known and entry.stat().st_size:
                        self._bases.append(int(stem))
        except FileNotFoundError:
            pass  # a new log has no directory yet
        except OSError as problem:
            self._on_damage(problem)
        self._bases.sort()

    def _content(self, base: int) -> bytearray:
        content = self._contents.get(base)
        if content is not None:
            self._contents.move_to_end(base)
            return content
        raw = read_content(self._path(base))
        decode_transactions(raw)
        content = self._contents[base] = bytearray(raw)
        self._kept_bytes += len(content)
        while self._kept_bytes > _KEPT_BYTES and len(self._contents) > 1:
            _, dropped = self._contents.popitem(last=False)
            self._kept_bytes -= len(dropped)
        return content

    def _on_damage(self, problem: Exception) -> None:
        if not self._is_damaged:
            self._is_damaged = True
            _log.warning(
                "%s: consumers with isolation.level=read_committed get none of its records, since"
                " the aborted transactions are unknown: %s",
                self._files.directory,
                problem,
            )

    def _path(self, base_offset: int) -> Path:
        return segment_path(self._files.directory, base_offset, TRANSACTION_INDEX_SUFFIX)


def _first_since(content: bytearray, offset: int) -> int:
    """The position of the first entry that ended at or after an offset."""
    low, high = 0, len(content) // ENTRY_BYTES
    while low < high:
        middle = (low + high) // 2
        if entry_at(content, middle * ENTRY_BYTES).last_offset < offset:
            low = middle + 1
        else:
            high = middle
    return low * ENTRY_BYTES


def _append(path: Path, entry: bytes) -> None:
    files = files_of(path)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        descriptor = files.open(path, flags, 0o666)
        try:
            left = memoryview(entry)
            while left:
                left = left[files.write(descriptor, left) :]
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StorageFailed(f"cannot write {path}: {error.strerror}") from error
