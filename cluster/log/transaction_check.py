"""Compares the `.txnindex` of a closed segment with its batches.

An entry must name an abort marker. An aborted transaction must have an entry if records of it are
in the segment; whether earlier segments have any is not known here. Compaction marks the markers
of transactions without records, and they need no entry.
"""

from pathlib import Path
from typing import Final

from cluster.log.transaction_index import (
    ENTRY_BYTES,
    SUFFIX,
    VERSION,
    DamagedTransactionIndex,
    raw_entries,
    read_content,
)
from cluster.log.transaction_replay import TransactionReplay
from cluster.records.batch import CONTROL_BIT, BatchHeader
from cluster.records.markers import read_marker

_NO_BYTES: Final = memoryview(b"")


class TransactionChecks:
    """Checks the index of a segment while its batches are read in order."""

    def __init__(self, log_path: Path) -> None:
        self._path = log_path.with_suffix(SUFFIX)
        self._replay = TransactionReplay()
        self._defect: str | None = None
        content = b""
        try:
            content = read_content(self._path)
        except DamagedTransactionIndex as damage:
            self._defect = str(damage)
        if len(content) % ENTRY_BYTES:
            self._defect = f"{len(content)} bytes are not whole entries"
        self._entries = enumerate(raw_entries(content))
        self._entry = next(self._entries, None)

    @staticmethod
    def reads(header: BatchHeader) -> bool:
        """Whether `on_batch` needs the bytes of a batch."""
        return header.producer_id >= 0 and bool(header.attributes & CONTROL_BIT)

    def on_batch(self, header: BatchHeader, batch: memoryview = _NO_BYTES) -> None:
        """Process the next batch of the segment. Raises Refused if a marker does not decode."""
        last_offset = header.last_offset
        self._pass_entries(last_offset)
        aborted = self._replay.on_batch(header, batch)
        if not self.reads(header):
            return
        if self._entry is not None and self._entry[1][3] == last_offset:
            number, (_, producer_id, first, _, _) = self._entry
            marker = read_marker(header, batch)
            if (marker is not None and marker.is_commit) or producer_id != header.producer_id:
                self._defect = f"entry {number} names no abort marker"
            elif aborted is not None and first > aborted.first_offset:
                self._defect = f"entry {number} begins after the first record of its transaction"
            self._entry = next(self._entries, None)
        elif aborted is not None and header.delete_horizon_ms is None:
            self._defect = f"it lacks the transaction that ends at offset {last_offset}"

    def _pass_entries(self, offset: int) -> None:
        """Refuse entries before an offset, which name no marker."""
        while self._entry is not None:
            number, (version, _, first, last, _) = self._entry
            if version == VERSION and 0 <= first < last and last >= offset:
                return
            self._defect = f"entry {number} names no abort marker"
            self._entry = next(self._entries, None)

    def finish(self) -> str | None:
        """Return the defect after the last batch, if there is one."""
        if self._entry is not None:
            self._defect = f"entry {self._entry[0]} lies behind the last batch"
        return None if self._defect is None else f"{self._path}: {self._defect}"
