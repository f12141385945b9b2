"""One cleaning of one log, file by file, in the helper process.

It takes two passes, as Kafka's `Cleaner` does. The first collects the newest offset of each key in
the dirty part in a map of bounded memory. The second copies every segment from the first one on,
without the records that the map, or the rules of `batch_rules`, remove. If the map fills up, the
cleaning covers only the keys in it.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from cluster.log.cleaner.batch_filter import Horizon, check_batch, index_batch
from cluster.log.cleaner.batch_rules import BatchRules
from cluster.log.cleaner.cleaned_segment import CleanedSegment
from cluster.log.cleaner.io_pace import IoPace
from cluster.log.cleaner.offset_map import OffsetMap
from cluster.log.cleaner.order import (
    DAMAGED,
    FAILED,
    CleanedGroup,
    CleaningDone,
    CleaningOrder,
    CleaningStats,
    SourceSegment,
)
from cluster.log.cleaner.segment_groups import group_segments
from cluster.log.cleaner.transactions import OpenTransactions
from cluster.log.files import files_of
from cluster.log.segment_paths import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_path,
)
from cluster.log.segment_swap import remove_cleaned
from cluster.log.transaction_index import (
    AbortedTransaction,
    DamagedTransactionIndex,
    read_transactions,
)
from cluster.model.errors import Refused, StorageFailed
from cluster.model.ids import Offset
from cluster.records.batch import HEADER_BYTES, MAGIC_V2, BatchHeader, read_header

_PACE_BYTES: Final = 256 * 1024
"""Input and output are counted in steps of so much."""

Send = Callable[[Mapping[str, Any]], None]


class CannotClean(Exception):
    """The log cannot be cleaned in its current state; the text gives the reason in one line."""


def work(message: Mapping[str, Any], send: Send) -> None:
    """Carry out a `CleaningOrder`; report each group of segments and the end."""
    order = CleaningOrder.of_message(message)
    try:
        cleaning = Cleaning(order)
        for group in cleaning.run():
            send(group.to_message())
    except (CannotClean, Refused) as problem:
        send({"kind": DAMAGED, "reason": str(problem)})
    except DamagedTransactionIndex as damage:  # the broker rebuilds it
        send({"kind": FAILED, "reason": f"an index of aborted transactions is damaged: {damage}"})
    except StorageFailed as failure:
        send({"kind": FAILED, "reason": str(failure)})
    except OSError as error:
        file = f" {error.filename}" if error.filename else ""
        send({"kind": FAILED, "reason": f"{error.strerror}{file}"})
    else:
        send(cleaning.result().to_message())


class Cleaning:
    """One cleaning. Lifecycle: exhaust `run`, then call `result`."""

    def __init__(self, order: CleaningOrder) -> None:
        self._order = order
        self._directory = Path(order.directory)
        self._stats = CleaningStats()
        self._pace = IoPace(order.io_bytes_per_second)
        self._unpaced_bytes = 0
        self._keys = OffsetMap(
            order.map_bytes, order.load_factor, order.upper_offset - order.first_dirty_offset
        )
        self._aborted = self._read_aborted()

    def run(self) -> Iterator[CleanedGroup]:
        """Yield each group of segments when its files are on disk under their temporary names.

        Raises CannotClean, Refused for damaged batches, StorageFailed and OSError; then the files
        of the current group are removed.
        """
        began_s = time.monotonic()
        remove_cleaned(self._directory)
        self._index()
        order, keys, stats = self._order, self._keys, self._stats
        if keys.latest_offset < order.first_dirty_offset:
            raise CannotClean(
                f"the batch at offset {order.first_dirty_offset} has more than {keys.capacity} "
                "keys, for which log.cleaner.dedupe.buffer.size leaves no room"
            )
        stats.map_slots, stats.map_keys = keys.capacity, keys.size
        indexed_s = time.monotonic()
        stats.index_ms = round((indexed_s - began_s) * 1_000)
        rules = BatchRules(
            keys,
            transactions := OpenTransactions(self._aborted),
            order.producers,
            order.upper_offset,
            Horizon(order.now_ms, order.delete_retention_ms),
        )
        covered = [
            self._with_indexes(segment)
            for segment in order.segments
            if segment.base_offset <= keys.latest_offset
        ]
        for group in group_segments(
            covered, order.upper_offset, order.segment_bytes, order.segment_index_bytes
        ):
            self._clean(group, rules, transactions)
            stats.groups += 1
            stats.clean_ms = round((time.monotonic() - indexed_s) * 1_000)
            yield CleanedGroup([segment.base_offset for segment in group])

    def result(self) -> CleaningDone:
        """The statistics of the cleaning and the end of the clean part."""
        return CleaningDone(Offset(self._keys.latest_offset + 1), self._stats)

    # The first pass

    def _index(self) -> None:
        order, keys, stats = self._order, self._keys, self._stats
        transactions = OpenTransactions(self._aborted)
        first_dirty = order.first_dirty_offset
        for slot, segment in enumerate(order.segments):
            following = self._offset_after(slot)
            if following <= first_dirty:
                continue
            for header, batch in self._batches(segment):
                stats.indexed_bytes += len(batch)
                if header.last_offset < first_dirty:
                    continue
                if header.is_control:
                    transactions.on_control_batch(header, memoryview(batch))
                elif not transactions.on_batch(header) and not index_batch(
                    header, batch, first_dirty, keys
                ):
                    return
                keys.note_seen(header.last_offset)
            keys.note_seen(following - 1)  # the segment may end without a record

    def _offset_after(self, slot: int) -> int:
        segments = self._order.segments
        return (
            segments[slot + 1].base_offset if slot + 1 < len(segments) else self._order.upper_offset
        )

    def _read_aborted(self) -> list[AbortedTransaction]:
        offsets = [segment.base_offset for segment in self._order.segments]
        return [
            transaction
            for offset in (*offsets, *self._order.later_segments)
            for transaction in read_transactions(
                segment_path(self._directory, offset, TRANSACTION_INDEX_SUFFIX)
            )
        ]

    # The second pass

    def _clean(
        self, group: Sequence[SourceSegment], rules: BatchRules, transactions: OpenTransactions
    ) -> None:
        order, stats = self._order, self._stats
        target = CleanedSegment(
            self._directory,
            group[0].base_offset,
            index_interval_bytes=order.index_interval_bytes,
            segment_index_bytes=order.segment_index_bytes,
            buffer_bytes=order.io_buffer_bytes,
        )
        try:
            for segment in group:
                for header, batch in self._batches(segment):
                    stats.read_bytes += len(batch)
                    stats.read_records += header.record_count
                    kept = rules.clean(header, batch)
                    if kept.content is not None:
                        target.append(kept.content, header.last_offset, kept.max_timestamp)
                        stats.kept_records += kept.records
                        self._moved(len(kept.content))
            stats.kept_bytes += target.size_bytes
            modified_ns = self._path(group[-1]).stat().st_mtime_ns
            target.finish(transactions.kept, modified_ns)
            transactions.kept.clear()
        except BaseException:
            target.abandon()
            raise

    # Input

    def _path(self, segment: SourceSegment, suffix: str = LOG_SUFFIX) -> Path:
        return segment_path(self._directory, segment.base_offset, suffix)

    def _with_indexes(self, segment: SourceSegment) -> SourceSegment:
        return segment._replace(
            index_bytes=_size_of(self._path(segment, INDEX_SUFFIX)),
            time_index_bytes=_size_of(self._path(segment, TIME_INDEX_SUFFIX)),
        )

    def _batches(self, segment: SourceSegment) -> Iterator[tuple[BatchHeader, bytes]]:
        """Copies of all batches of a closed segment. Raises Refused(corrupt_message), OSError."""
        if not segment.size_bytes:
            return
        path = self._path(segment)
        files, size = files_of(path), segment.size_bytes
        descriptor = files.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if os.fstat(descriptor).st_size != size:
                raise CannotClean(f"{path} changed during the cleaning")
            # The file is read, not mapped, because reading a truncated mapping would kill the
            # process.
            position, wanted = 0, self._order.io_buffer_bytes
            while position < size:
                chunk = files.pread(descriptor, wanted, position)
                at, end = 0, len(chunk)
                while at + HEADER_BYTES <= end:
                    header = read_header(chunk, at)
                    after = at + header.size_bytes
                    if header.magic != MAGIC_V2 or after < at + HEADER_BYTES:
                        raise CannotClean(f"{path} has no batch at position {position + at}")
                    if after > end:
                        break
                    batch = chunk[at:after]
                    check_batch(header, batch)
                    yield header, batch
                    at = after
                self._moved(at)
                position += at
                if not at:
                    # A batch larger than the buffer, or the rest of one.
                    if position + end >= size:
                        raise CannotClean(f"{path} ends inside the batch at position {position}")
                    wanted *= 2
        finally:
            os.close(descriptor)

    def _moved(self, size_bytes: int) -> None:
        """Sleep if input and output exceed their rate."""
        self._unpaced_bytes += size_bytes
        if self._unpaced_bytes >= _PACE_BYTES:
            rest_s = self._pace.rest_s(self._unpaced_bytes, time.monotonic())
            self._unpaced_bytes = 0
            if rest_s > 0:
                self._stats.waited_ms += round(rest_s * 1_000)
                time.sleep(rest_s)


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
