"""Rebuilds all closed segments of a compacted log from the batches of another replica.

Each replica compacts its log independently, so a single batch of another replica may not fit
between the local batches: it could bring back a deleted key, or lack a tombstone that an older
local record needs. All closed segments of one replica do fit together, because the local records
after them have never been compacted. They are written and swapped in like cleaned segments, and a
crash may interrupt the swap.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cluster.log.cleaner.cleaned_segment import CleanedSegment
from cluster.log.partition_log import PartitionLog
from cluster.log.replicated import check_replicated
from cluster.log.segment import modified_ms
from cluster.log.segment_patch import check_epoch
from cluster.log.transaction_index import AbortedTransaction
from cluster.log.transaction_rebuild import replay_from_segment
from cluster.model.errors import ErrorCode, Refused, StorageFailed
from cluster.model.ids import Offset
from cluster.records.batch import MAX_INT32, batches_of

_BYTES_MAX: Final = 1 << 30
_BUFFER_BYTES: Final = 1 << 20


class ClosedRebuild:
    """One attempt to rebuild from one other replica. Owned by the log's thread.

    Lifecycle: `add` until `end_offset` is reached, `finish` on any thread, then `swap`; or
    `abandon` at any earlier time.
    """

    def __init__(self, log: PartitionLog) -> None:
        """Raises Refused if this log cannot be rebuilt this way, and StorageFailed."""
        self._log = log
        self._gone = log.segments[:-1]
        self._cuts = log.durability.cuts
        self.offset = Offset(self._gone[0].base_offset)
        """The next one that is wanted."""
        self.end_offset = Offset(log.segments[-1].base_offset)
        """Where the active segment begins, which stays."""
        self._size_bytes = 0
        if self.end_offset - self.offset > MAX_INT32:
            raise Refused(ErrorCode.corrupt_message, "the log has too many offsets for one segment")
        self._transactions = replay_from_segment(log.segments, 0)
        self._aborted: list[AbortedTransaction] = []
        self._modified_ns = modified_ms(self._gone[-1]) * 1_000_000
        options = log.options
        with _writing(log.directory):
            self._cleaned = CleanedSegment(
                log.directory,
                self._gone[0].base_offset,
                index_interval_bytes=options.index_interval_bytes,
                segment_index_bytes=options.segment_index_bytes,
                buffer_bytes=_BUFFER_BYTES,
            )

    @property
    def is_current(self) -> bool:
        """Whether the log still begins with the segments to be replaced."""
        log = self._log
        return log.durability.cuts == self._cuts and log.segments[: len(self._gone)] == self._gone

    def add(self, records: bytes) -> None:
        """Add the next batches. Raises Refused for batches that do not belong here, and
        StorageFailed."""
        with memoryview(records) as content:
            for header in check_replicated(content, self.offset):
                if header.last_offset >= self.end_offset:
                    raise Refused(
                        ErrorCode.corrupt_message,
                        f"offset {header.last_offset} of a batch is beyond {self.end_offset}",
                    )
                check_epoch(header, self._log.epochs)
            self._size_bytes += len(records)
            if self._size_bytes > _BYTES_MAX:
                raise Refused(ErrorCode.corrupt_message, "the result is too large for one segment")
            with _writing(self._log.directory):
                for header, batch in batches_of(content):
                    aborted = self._transactions.on_batch(header, batch)
                    if aborted is not None:
                        self._aborted.append(aborted)
                    self._cleaned.append(bytes(batch), header.last_offset, header.max_timestamp)
                    self.offset = Offset(header.last_offset + 1)

    def finish(self) -> None:
        """Write everything and sync it, on any thread. Raises StorageFailed."""
        with _writing(self._log.directory):
            self._cleaned.finish(self._aborted, self._modified_ns)

    def swap(self) -> None:
        """Replace the old segments with the new one. Raises StorageFailed."""
        log = self._log
        log.files.replace(self._gone)
        # The new segment may hold records that were compacted here before, so the next cleaning
        # reads all of it.
        log.cleaned_to = min(log.cleaned_to, Offset(1))

    def abandon(self) -> None:
        """Remove the files written so far."""
        try:
            self._cleaned.abandon()
        except OSError:
            return  # the next start removes it


@contextmanager
def _writing(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageFailed(f"cannot write into {directory}: {error.strerror}") from error
