"""Makes all closed segments of a compacted log anew, from the batches of another replica.

Replicas are compacted each on its own, so a batch of another one may not fit between the batches
here: it could bring a deleted key back, or lack the tombstone that an older record here needs. All
closed segments together, of one replica, fit: what follows them here was never compacted. They are
written as a cleaning writes them and take their place by the same swap, which a kill may interrupt.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cluster.log.cleaner.cleaned_segment import CleanedSegment
from cluster.log.partition_log import PartitionLog
from cluster.log.replicated import check_replicated
from cluster.log.segment import Segment, modified_ms
from cluster.log.segment_patch import check_epoch
from cluster.log.segment_paths import TRANSACTION_INDEX_SUFFIX
from cluster.model.errors import ErrorCode, Refused, StorageFailed
from cluster.model.ids import Offset
from cluster.records.batch import MAX_INT32, batches_of

_BYTES_MAX: Final = 1 << 30
_BUFFER_BYTES: Final = 1 << 20


class ClosedRebuild:
    """One attempt with one other replica. Owned by the log's thread.

    Lifecycle: `add` until `end_offset` is reached, `finish` on any thread, then `swap`; or
    `abandon` at any time before.
    """

    def __init__(self, log: PartitionLog) -> None:
        """Raises Refused where the log is none that can be made anew so, StorageFailed."""
        self._log = log
        self._gone = log.segments[:-1]
        self._cuts = log.durability.cuts
        self.offset = Offset(self._gone[0].base_offset)
        """The next one that is wanted."""
        self.end_offset = Offset(log.segments[-1].base_offset)
        """Where the active segment begins, which stays."""
        self._size_bytes = 0
        if self.end_offset - self.offset > MAX_INT32:
            raise Refused(ErrorCode.corrupt_message, "it has too many offsets for one segment")
        if any(_has_transactions(one) for one in self._gone):
            raise Refused(ErrorCode.corrupt_message, "it has aborted transactions")
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
        """Whether the log still begins with the segments that are to be replaced."""
        log = self._log
        return log.durability.cuts == self._cuts and log.segments[: len(self._gone)] == self._gone

    def add(self, records: bytes) -> None:
        """The next batches. Raises Refused for what cannot be there, StorageFailed."""
        with memoryview(records) as content:
            for header in check_replicated(content, self.offset):
                if header.last_offset >= self.end_offset:
                    raise Refused(
                        ErrorCode.corrupt_message,
                        f"offset {header.last_offset} of a batch lies behind {self.end_offset}",
                    )
                check_epoch(header, self._log.epochs)
            self._size_bytes += len(records)
            if self._size_bytes > _BYTES_MAX:
                raise Refused(ErrorCode.corrupt_message, "it is too large for one segment")
            with _writing(self._log.directory):
                for header, batch in batches_of(content):
                    self._cleaned.append(bytes(batch), header.last_offset, header.max_timestamp)
                    self.offset = Offset(header.last_offset + 1)

    def finish(self) -> None:
        """Write everything and wait for the disk, on any thread. Raises StorageFailed."""
        with _writing(self._log.directory):
            self._cleaned.finish((), self._modified_ns)

    def swap(self) -> None:
        """Put the new segment in place of the old ones. Raises StorageFailed."""
        log = self._log
        log.files.replace(self._gone)
        # It may hold what was compacted here before: all of it is looked at by the next cleaning.
        log.cleaned_to = min(log.cleaned_to, Offset(1))

    def abandon(self) -> None:
        """Remove what was written."""
        try:
            self._cleaned.abandon()
        except OSError:
            return  # a start removes it


def _has_transactions(segment: Segment) -> bool:
    path = segment.file.path.with_suffix(TRANSACTION_INDEX_SUFFIX)
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False


@contextmanager
def _writing(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageFailed(f"cannot write into {directory}: {error.strerror}") from error
