"""Writes and syncs the files of a cleaned segment: `.log.cleaned` and its indexes.

The files become valid only when the broker renames them; a start removes leftovers.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from cluster.log.files import files_of
from cluster.log.mmap_segment import MAX_POSITION
from cluster.log.offset_index import ActiveOffsetIndex
from cluster.log.segment_paths import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_path,
)
from cluster.log.segment_swap import CLEANED_SUFFIX
from cluster.log.time_index import TimeIndex
from cluster.log.transaction_index import AbortedTransaction, encode_transactions
from cluster.model.errors import StorageFailed
from cluster.records.batch import NO_TIMESTAMP


class CleanedSegment:
    """A new segment file, with its batches in offset order and the usual indexes.

    Lifecycle: `append`, then `finish`, or `abandon` at any time. All raise OSError; the writing
    methods also raise StorageFailed for a file that is too large.
    """

    def __init__(
        self,
        directory: Path,
        base_offset: int,
        *,
        index_interval_bytes: int,
        segment_index_bytes: int,
        buffer_bytes: int,
    ) -> None:
        self._directory = directory
        self._base_offset = base_offset
        self._interval_bytes = index_interval_bytes
        self._buffer_bytes = buffer_bytes
        self._index = ActiveOffsetIndex(segment_index_bytes)
        self._times = TimeIndex(segment_index_bytes)
        self._max_timestamp_ms = NO_TIMESTAMP
        self._max_timestamp_offset = base_offset
        self._bytes_since_index = 0
        self._pieces: list[bytes | bytearray] = []
        self._unwritten = 0
        self.size_bytes = 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._files = files_of(directory)
        self._descriptor = self._files.open(self._path(LOG_SUFFIX), flags, 0o644)

    def append(self, batch: bytes | bytearray, last_offset: int, max_timestamp_ms: int) -> None:
        """Add a batch at the end."""
        if max_timestamp_ms > self._max_timestamp_ms:
            self._max_timestamp_ms = max_timestamp_ms
            self._max_timestamp_offset = last_offset
        if self._bytes_since_index > self._interval_bytes:
            self._add_index_entry(last_offset)
        size = len(batch)
        self._bytes_since_index += size
        self._pieces.append(batch)
        self._unwritten += size
        self.size_bytes += size
        if self._unwritten >= self._buffer_bytes:
            self._write()

    def _add_index_entry(self, last_offset: int) -> None:
        index, times = self._index, self._times
        # A sparse index may lack entries but must not exceed the configured size.
        if len(index) < index.max_entries and len(times) < times.max_entries:
            index.append(last_offset - self._base_offset, self.size_bytes)
            times.append_if_newer(
                self._max_timestamp_ms, self._max_timestamp_offset - self._base_offset
            )
            self._bytes_since_index = 0

    def _write(self) -> None:
        if self.size_bytes > MAX_POSITION:
            raise StorageFailed(f"{self._path(LOG_SUFFIX)} would exceed 2 GiB")
        unwritten = memoryview(b"".join(self._pieces))
        while unwritten:
            unwritten = unwritten[self._files.write(self._descriptor, unwritten) :]
        self._pieces.clear()
        self._unwritten = 0

    def finish(self, aborted: Iterable[AbortedTransaction], modified_ns: int) -> None:
        """Write and sync everything; the file gets this modification time."""
        self._write()
        if self._max_timestamp_ms != NO_TIMESTAMP:
            self._times.append_if_newer(
                self._max_timestamp_ms, self._max_timestamp_offset - self._base_offset
            )
        self._index.write(self._path(INDEX_SUFFIX))
        self._times.write(self._path(TIME_INDEX_SUFFIX))
        transactions = encode_transactions(aborted)
        if transactions:
            self._files.write_file(self._path(TRANSACTION_INDEX_SUFFIX), transactions)
        self._files.sync(self._descriptor)
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX):
            self._files.sync_path(self._path(suffix))
        os.utime(self._path(LOG_SUFFIX), ns=(modified_ns, modified_ns))
        self._files.sync_path(self._directory)
        self._close()

    def abandon(self) -> None:
        """Remove the files written so far."""
        self._close()
        for suffix in SEGMENT_SUFFIXES:
            self._files.unlink_if_there(self._path(suffix))

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _path(self, suffix: str) -> Path:
        return segment_path(self._directory, self._base_offset, suffix + CLEANED_SUFFIX)
