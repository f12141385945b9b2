"""Determines which records of a log are committed, for consumers with `read_committed`.

A broker takes no transactions from clients, but a log directory that Kafka wrote may hold some. The
first open transaction limits the last stable offset. Aborted transactions are reported to consumers
from the `.txnindex` files, and the consumers skip their records. Kafka: `ProducerStateManager`,
`TransactionIndex`.
"""

import logging
import os
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from pathlib import Path

from cluster.log.log_reads import segment_slot
from cluster.log.producer_state import EndedTransaction, ProducerState
from cluster.log.segment_list import SegmentList
from cluster.log.segment_paths import TRANSACTION_INDEX_SUFFIX, segment_path
from cluster.log.transaction_index import (
    AbortedTransaction,
    DamagedTransactionIndex,
    read_transactions,
    write_transactions,
)
from cluster.model.ids import Offset

_log = logging.getLogger(__name__)


class LogTransactions:
    """The transactions of one log. Owned by the log's thread; index files are read on first use.

    Invariant: every replayed aborted transaction is in the index of the segment that holds its
    marker.
    """

    def __init__(self, files: SegmentList) -> None:
        self.first_open: int | None = None
        """Where the oldest transaction begins that has not ended."""
        self.are_none = False
        """Known to be so: nothing is open, nothing was aborted."""
        self._undecided: list[tuple[int, int]] = []
        """First offset and that of the marker, of transactions that have ended: a heap. The first
        one's marker may be above the high watermark, so that another leader may lack it."""
        self._files = files
        self._changes_seen = files.changes
        self._aborted: list[AbortedTransaction] | None = None
        self._is_uncertain = False

    def on_replayed(self, producers: ProducerState) -> None:
        """Record the transactions that began or ended according to the producer state.

        Raises StorageFailed; the next call retries.
        """
        self.first_open = producers.first_undecided_offset
        self.are_none = False
        if producers.ended:
            for ended in producers.ended:
                heappush(self._undecided, (ended.first_offset, ended.last_offset))
            aborted = [each for each in producers.ended if each.is_abort]
            if aborted:
                self._keep(map(_indexed, aborted))
            producers.ended = []

    def warn_of_open(self, name: object) -> None:
        """Log one line if `read_committed` consumers do not get all records."""
        if self.first_open is not None:
            _log.warning(
                "%s: consumers with isolation.level=read_committed get the records below offset %d"
                " only: a transaction that begins there has neither commit nor abort marker, and"
                " none can be written here. `import-log` of a copy of the directory leaves it out",
                name,
                self.first_open,
            )

    def cut(self, end: Offset) -> None:
        """Forget what ended at or beyond the new log end. Raises StorageFailed."""
        self._undecided = [each for each in self._undecided if each[1] < end]
        heapify(self._undecided)
        path = self._index_of(self._files.active.base_offset)
        try:
            found = read_transactions(path)
        except DamagedTransactionIndex:
            return
        kept = [each for each in found if each.last_offset < end]
        if len(kept) < len(found):
            write_transactions(path, kept)

    def stable_offset(self, high_watermark: Offset, log_start_offset: Offset) -> Offset:
        """The last stable offset: every transaction below it is committed or aborted."""
        if self.are_none:
            return high_watermark
        undecided = self._undecided
        while undecided and undecided[0][1] < high_watermark:
            heappop(undecided)
        self._known()
        if self._is_uncertain:
            return min(high_watermark, log_start_offset)
        stable = int(high_watermark)
        if self.first_open is not None and self.first_open < stable:
            stable = self.first_open
        if undecided and undecided[0][0] < stable:
            stable = undecided[0][0]
        return Offset(stable)

    def aborted_in(self, first_offset: int, end_offset: int) -> list[tuple[int, int]]:
        """Producer id and first offset of each aborted transaction with records in a range."""
        return [
            (each.producer_id, each.first_offset)
            for each in self._known()
            if each.last_offset >= first_offset and each.first_offset < end_offset
        ]

    def _known(self) -> list[AbortedTransaction]:
        if self._changes_seen != self._files.changes:
            self._changes_seen = self._files.changes
            self._aborted = None
            self._is_uncertain = False
        aborted = self._aborted
        if aborted is None:
            aborted = self._aborted = self._read()
        self.are_none = not (
            aborted or self._undecided or self._is_uncertain or self.first_open is not None
        )
        return aborted

    def _read(self) -> list[AbortedTransaction]:
        found: list[AbortedTransaction] = []
        try:
            with os.scandir(self._files.directory) as entries:
                names = {entry.name for entry in entries}
            for segment in self._files.segments:
                path = self._index_of(segment.base_offset)
                if path.name in names:
                    found += read_transactions(path)
        except FileNotFoundError:
            return []  # a new log has no directory yet
        except (OSError, DamagedTransactionIndex) as problem:
            self._is_uncertain = True
            _log.warning(
                "%s: consumers with isolation.level=read_committed get none of its records, since"
                " the aborted transactions are unknown: %s",
                self._files.directory,
                problem,
            )
        return found

    def _keep(self, aborted: Iterable[AbortedTransaction]) -> None:
        known = self._known()
        self.are_none = False
        ends = {each.last_offset for each in known}  # a marker ends one transaction
        segments = self._files.segments
        for transaction in aborted:
            if transaction.last_offset in ends:
                continue
            slot = segment_slot(segments, transaction.last_offset)
            path = self._index_of(segments[slot].base_offset)
            try:
                entries = read_transactions(path)
            except DamagedTransactionIndex:
                self._is_uncertain = True  # the next reader logs it
                self._aborted = None
                continue
            entries.append(transaction)
            write_transactions(path, sorted(entries, key=lambda each: each.last_offset))
            known.append(transaction)

    def _index_of(self, base_offset: int) -> Path:
        return segment_path(self._files.directory, base_offset, TRANSACTION_INDEX_SUFFIX)


def _indexed(ended: EndedTransaction) -> AbortedTransaction:
    """The entry of the index: without `is_abort`, which all have in common."""
    return AbortedTransaction(*ended[:-1])
