"""The log of one partition: append, read, truncate, flush. One thread owns it and calls it.

It knows nothing of replication: the caller passes the leader epoch of an append and the offset up
to which a reader may read. A batch costs constant work, however many records it has.

Callers reach the parts of a log directly: `files` (its segments), `epochs` (leader epochs),
`durability` (synced offsets), `transactions`, `producers`, `damage`.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from cluster.log.damage import Damage
from cluster.log.deleted_files import DeletedFiles
from cluster.log.durability import Durability
from cluster.log.earlier_batches import check_again
from cluster.log.flushing import FlushTarget
from cluster.log.inner_snapshots import InnerSnapshots
from cluster.log.leader_epochs import LeaderEpochs
from cluster.log.log_reads import LogSlice, read_slice
from cluster.log.log_transactions import LogTransactions
from cluster.log.mmap_segment import Located
from cluster.log.options import LogOptions
from cluster.log.producer_loading import load_after_cut
from cluster.log.producer_snapshots import snapshot_path, write_snapshot
from cluster.log.producer_state import AppendedBatch, Verification
from cluster.log.recovery import (
    FilesState,
    LastStop,
    RecoveredLog,
    empty_log,
    recover,
)
from cluster.log.replicated import check_replicated, first_replicated
from cluster.log.segment import Segment
from cluster.log.segment_list import SegmentList
from cluster.log.segment_paths import segment_paths
from cluster.log.segment_tail import SegmentTail
from cluster.model.clocks import WallMs
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import LeaderEpoch, Offset, TopicPartition
from cluster.records.batch import (
    CONTROL_BIT,
    LENGTH_OVERHEAD_BYTES,
    LOG_APPEND_TIME_BIT,
    MAX_INT32,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
    pack_head,
)
from cluster.records.checked_batch import Produced
from cluster.records.markers import EndMarker, produced_marker

_log = logging.getLogger(__name__)
_NOTHING_COMMITTED: Final = Offset(0)
_new: Final = tuple.__new__  # skips the Python-level constructor of a NamedTuple


class Appended(NamedTuple):
    """The offsets of a produced batch; `is_duplicate` if the log already had it."""

    base_offset: Offset
    last_offset: Offset
    log_append_time_ms: int
    log_start_offset: Offset
    is_duplicate: bool = False


OnDamage = Callable[[TopicPartition, Damage], None]


class PartitionLog:
    """The batches of one partition, from the log start to the log end offset.

    Invariants: offsets grow; `log_start_offset <= log_end_offset`; everything below
    `durability.recovery_point` is on disk; only the last segment is written.
    """

    def __init__(
        self,
        directory: Path,
        partition: TopicPartition,
        options: LogOptions,
        recovered: RecoveredLog,
        recovery_point: Offset,
        wall_ms: WallMs,
        deleted_files: DeletedFiles | None,
        on_damage: OnDamage | None = None,
    ) -> None:
        """Use `open` or `create` instead."""
        self.directory = directory
        self.partition = partition
        self.epochs: LeaderEpochs = recovered.epochs
        self.producers = recovered.producers
        self.log_start_offset = recovered.log_start_offset
        self.log_end_offset = recovered.log_end_offset
        self.durability = Durability(
            Offset(max(recovered.log_start_offset, min(recovery_point, recovered.log_end_offset)))
        )
        self.cleaned_to = Offset(0)
        """The offset up to which the log is compacted; the cleaner reads and sets it."""
        self._wall_ms = wall_ms
        self._files_state = recovered.files_state
        self._make_files: Callable[[], None] | None = None
        self.files = SegmentList(
            directory,
            recovered.segments,
            deleted_files or DeletedFiles(),
            None if on_damage is None else partial(on_damage, partition),
        )
        self.damage = self.files.damage
        """The damaged places of the files, which are not served."""
        self._snapshots = InnerSnapshots(
            recovered.segments, recovered.snapshots, self.log_end_offset
        )
        self.update_options(options)
        self.transactions = LogTransactions(self.files, recovered.undecided)
        self.transactions.on_replayed(self.producers)
        self.transactions.tell_of_open(partition)

    @classmethod
    def open(
        cls,
        directory: Path,
        partition: TopicPartition,
        options: LogOptions,
        wall_ms: WallMs,
        *,
        clean_shutdown: bool,
        recovery_point: Offset,
        log_start_offset: Offset,
        high_watermark: Offset = _NOTHING_COMMITTED,
        deleted_files: DeletedFiles | None = None,
        was_repaired: bool = False,
        lacks_unsynced: bool = False,
        on_damage: OnDamage | None = None,
    ) -> "PartitionLog":
        """Open or create a partition directory.

        After an unclean stop the end of the log is checked, unless `repair` did that before. With
        `lacks_unsynced` the machine went down: what was not synced may be lost.
        `deleted_files` removes deleted segments, by default at once. `on_damage` is called with
        each damage that a read finds. Raises StorageFailed.
        """
        stop = LastStop(
            *(clean_shutdown, recovery_point, log_start_offset),
            *(was_repaired, high_watermark, lacks_unsynced),
        )
        recovered = recover(directory, options, stop, wall_ms)
        return cls(
            directory,
            partition,
            options,
            recovered,
            recovery_point,
            wall_ms,
            deleted_files,
            on_damage,
        )

    @classmethod
    def create(
        cls,
        directory: Path,
        partition: TopicPartition,
        options: LogOptions,
        wall_ms: WallMs,
        make_files: Callable[[], None],
        deleted_files: DeletedFiles | None = None,
        on_damage: OnDamage | None = None,
    ) -> "PartitionLog":
        """Create a log without files or descriptors before its first record.

        `make_files` creates the directory and its first files, or waits until they exist. It is
        called before the first record is written and may raise StorageFailed.
        """
        recovered = empty_log(directory, options, wall_ms)
        log = cls(
            directory, partition, options, recovered, Offset(0), wall_ms, deleted_files, on_damage
        )
        log._make_files = make_files
        return log

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches on disk, without preallocated space."""
        return self.files.size_bytes

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments, oldest first; the last one is active. Each change makes a new tuple."""
        return self.files.segments

    def update_options(self, options: LogOptions) -> None:
        """Use new options from the next append on."""
        self.options = options
        self.room = options.room
        self.limits = options.limits(self.partition)
        """What `validate_produced` checks a produced batch against."""
        self.durability.take_options(options)
        self.files.active.take_options(options)
        self.producers.expiration_ms = options.producer_id_expiration_ms

    # Append

    def append(
        self,
        produced: Produced,
        leader_epoch: LeaderEpoch,
        wall_ms: WallMs,
        verification: Verification | None = None,
    ) -> Appended:
        """Append a batch that `validate_produced` has checked, with new offsets and this epoch.

        `verification` is that of a transactional batch which had to be verified first. Raises
        Refused (see `ProducerState.check`; record_list_too_large) and StorageFailed; then nothing
        is appended. The caller flushes if the log end reaches `durability.flush_at`.
        """
        header = produced.header
        has_producer = header.producer_id >= 0
        repeated = None
        if has_producer:
            try:
                repeated = self.producers.check(header, verification)
            except Refused as refused:
                repeated = check_again(self.segments, self.producers, refused, header, verification)
        if repeated is not None:
            return _duplicate(repeated, self)
        base_offset = self._store(produced, leader_epoch, wall_ms)
        timestamp_ms, attributes = header.max_timestamp, header.attributes
        if has_producer:
            self.producers.record(header, base_offset, timestamp_ms)
            if attributes & TRANSACTIONAL_BIT:
                self.transactions.on_replayed(self.producers)
        append_time_ms = timestamp_ms if attributes & LOG_APPEND_TIME_BIT else NO_TIMESTAMP
        last = base_offset + header.last_offset_delta
        appended = (base_offset, last, append_time_ms, self.log_start_offset, False)
        return _new(Appended, appended)

    def append_marker(
        self, marker: EndMarker, leader_epoch: LeaderEpoch, wall_ms: WallMs
    ) -> Appended:
        """Append the marker that ends a producer's transaction, if one is open or not.

        Raises Refused (see `ProducerState.check_marker`) and StorageFailed; then nothing is
        appended, unless only the index of aborted transactions could not be written.
        """
        self.producers.check_marker(marker)
        produced = produced_marker(marker, wall_ms)
        base_offset = self._store(produced, leader_epoch, wall_ms)
        self.producers.record_marker(*marker[:2], base_offset, wall_ms, marker)
        self.transactions.on_replayed(self.producers)
        return Appended(base_offset, base_offset, NO_TIMESTAMP, self.log_start_offset)

    def _store(self, produced: Produced, leader_epoch: LeaderEpoch, wall_ms: WallMs) -> Offset:
        """Write a batch at the end; returns its base offset."""
        header, records, from_magic = produced
        size = len(records)
        if size > self.options.segment_bytes:
            raise Refused(
                ErrorCode.record_list_too_large,
                f"{size} bytes; a segment has {self.options.segment_bytes}",
            )
        base_offset = self.log_end_offset
        last_offset = Offset(base_offset + header.last_offset_delta)
        timestamp_ms = header.max_timestamp
        tail = self.files.active.tail
        if tail.must_roll(size, last_offset, timestamp_ms, wall_ms):
            tail = self._roll(base_offset, wall_ms).tail
        if leader_epoch != self.epochs.written:
            self.make_files()
            self.epochs.begin(leader_epoch, base_offset)  # may fail, so it precedes the batch
        if tail.file.size_bytes >= self._snapshots.due_at:
            self._snapshots.on_due(self.files.active, base_offset, self.producers.entries)
        head = pack_head(base_offset, header.batch_length, leader_epoch)
        position = tail.file.append(records, head + from_magic if from_magic else head)
        tail.note_batch(base_offset, last_offset, timestamp_ms, position, size)
        self.log_end_offset = Offset(last_offset + 1)
        self._wall_ms = wall_ms
        self._files_state = FilesState.CHANGED
        return base_offset

    def append_as_follower(self, records: memoryview, wall_ms: WallMs) -> None:
        """Append whole batches as the leader sent them.

        Raises Refused(corrupt_message) for damaged batches or offsets that do not continue the log,
        and StorageFailed. Then nothing is appended, unless only the index of aborted transactions
        could not be written; in that case all batches are appended.
        """
        log_start_offset, log_end_offset = self.log_start_offset, self.log_end_offset
        first_offset = log_end_offset
        if log_start_offset == log_end_offset:
            first_offset = first_replicated(records, log_end_offset)
        headers = check_replicated(records, first_offset)
        if not headers:
            return
        if first_offset < log_end_offset:
            self.truncate_fully_and_start_at(first_offset)
        if self._make_files is not None:
            self.make_files()
        tail = self.files.active.tail
        last = Offset(headers[-1].base_offset + headers[-1].last_offset_delta)
        if tail.must_roll(len(records), last, tail.max_timestamp_ms, self._wall_ms):
            # After an offset gap, the first batch may be too far from the log end.
            is_near = last - self.log_end_offset <= MAX_INT32
            base_offset = self.log_end_offset if is_near else Offset(headers[0].base_offset)
            tail = self._roll(base_offset, wall_ms).tail
        if tail.file.size_bytes >= self._snapshots.due_at:
            self._snapshots.on_due(self.files.active, log_end_offset, self.producers.entries)
        epochs = self.epochs
        for header in headers:
            if header.partition_leader_epoch != epochs.written:
                epochs.follow(
                    LeaderEpoch(header.partition_leader_epoch), Offset(header.base_offset)
                )
        attributes = self._note_replicated(tail, headers, tail.file.append(records))
        self.log_end_offset = Offset(last + 1)
        self._wall_ms = wall_ms
        self._files_state = FilesState.CHANGED
        if log_start_offset > self.log_start_offset:
            self.advance_log_start_offset(log_start_offset)
        if self.producers.ended or attributes & TRANSACTIONAL_BIT:
            self.transactions.on_replayed(self.producers)  # may fail, so it follows the batch
        if self.log_end_offset >= self.durability.flush_at:
            self.flush()

    def _note_replicated(self, tail: SegmentTail, headers: list[BatchHeader], position: int) -> int:
        """Note batches that are in the file from a position on.

        Returns the attributes of all that have a producer id.
        """
        producers = self.producers
        seen = 0
        for header in headers:
            base_offset, timestamp_ms = header.base_offset, header.max_timestamp
            last_offset = base_offset + header.last_offset_delta
            size = LENGTH_OVERHEAD_BYTES + header.batch_length
            tail.note_batch(base_offset, last_offset, timestamp_ms, position, size)
            if header.producer_id >= 0:
                seen |= header.attributes
                if header.attributes & CONTROL_BIT:
                    producers.replay(header, tail.file.view(position, size))
                else:
                    producers.record(header, base_offset, timestamp_ms)
            position += size
        return seen

    def make_files(self) -> None:
        """Wait until a new log has its directory and first files. Raises StorageFailed."""
        if self._make_files is not None:
            self._make_files()
            self._make_files = None

    def _roll(self, base_offset: Offset, wall_ms: WallMs) -> Segment:
        segment = self.files.roll(base_offset, self.producers.entries, wall_ms)
        self._snapshots.on_rolled(base_offset)
        return segment

    # Read

    def read(
        self, offset: Offset, max_bytes: int, *, upper_offset: Offset, at_least_one_batch: bool
    ) -> LogSlice:
        """Whole batches of one segment: from the one that holds `offset`, below `upper_offset`.

        Returns at most `max_bytes`, unless the first batch is larger and `at_least_one_batch` is
        set. Raises Refused(offset_out_of_range) outside [log start, log end].
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise Refused(
                ErrorCode.offset_out_of_range,
                f"{offset} is not in [{self.log_start_offset}, {self.log_end_offset}]",
            )
        if offset >= upper_offset:
            file = self.files.active.file
            return LogSlice(file, file.size_bytes, 0, offset)
        return read_slice(
            self.files.segments,
            offset,
            max_bytes,
            (upper_offset, self.log_end_offset),
            at_least_one_batch=at_least_one_batch,
        )

    def locate(self, offset: Offset, max_bytes: int) -> Located | None:
        """Where the batches from the one that holds `offset` to the log end are; None at the end.

        At least one batch, otherwise at most `max_bytes`, and all of one segment: for a follower on
        this machine. Raises what `read` raises.
        """
        active = self.files.active
        if self.log_start_offset <= offset < self.log_end_offset:
            found = active.tail.locate_rest(offset, self.log_end_offset, max_bytes)
            if found is not None:
                unchecked = active.unchecked
                if unchecked is None or found.position >= unchecked.end:
                    return found
        part = self.read(
            offset, max_bytes, upper_offset=self.log_end_offset, at_least_one_batch=True
        )
        if not part.size_bytes:
            return None
        identity, end = part.identity(), part.position + part.size_bytes
        file = active.file
        if end == file.size_bytes and identity is file.identity():
            active.tail.note_read_to_end(self.log_end_offset)
        return Located(identity, part.position, part.size_bytes)

    # Truncation and deletion

    def truncate_to(self, offset: Offset) -> None:
        """Make `offset` the log end; a batch that contains it is removed entirely.

        Raises StorageFailed.
        """
        self.make_files()
        if offset >= self.log_end_offset:
            # An epoch without records is not history: the leader may never have had it.
            self.epochs.truncate_from_end(self.log_end_offset)
            return
        if offset < self.files.segments[0].base_offset:
            self.truncate_fully_and_start_at(offset)
            return
        end = self.files.truncate(offset, self.options)
        self.cleaned_to = min(self.cleaned_to, end)
        self.durability.on_cut(end)
        self._files_state = FilesState.CHANGED
        self.log_end_offset = end
        self.log_start_offset = min(self.log_start_offset, end)
        self.epochs.truncate_from_end(end)
        self.transactions.cut(end)
        self.producers.clear()
        loaded = load_after_cut(self.files.segments, end, self.options, self._wall_ms)
        self.producers = loaded.producers
        self._snapshots = InnerSnapshots(self.files.segments, loaded.snapshots, end)
        self.transactions.on_replayed(self.producers)
        _log.info("%s truncated to offset %d", self.partition, end)

    def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """Empty the log; the next record gets this offset. Raises StorageFailed."""
        self.make_files()
        self.files.restart(offset, self._wall_ms)
        self.durability.restart_at(offset)
        self.cleaned_to = min(self.cleaned_to, offset)
        self._files_state = FilesState.CHANGED
        self.log_start_offset = self.log_end_offset = offset
        self.epochs.clear()
        self.producers.clear()
        self._snapshots = InnerSnapshots(self.files.segments, (), offset)
        self.transactions.clear()
        _log.info("%s emptied, starts at offset %d", self.partition, offset)

    def advance_log_start_offset(self, offset: Offset) -> None:
        """Hide records before an offset. The log start never moves back or past the log end."""
        offset = min(offset, self.log_end_offset)
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.durability.on_start_moved(offset)
            self.epochs.truncate_from_start(offset)

    def roll(self, wall_ms: WallMs) -> None:
        """Close the active segment and start a new one. Raises StorageFailed."""
        self.make_files()
        self._roll(self.log_end_offset, wall_ms)

    def drop_segments(self, count: int) -> None:
        """Delete the oldest segments, never the active one, and move the log start accordingly.

        Existing slices stay readable. Raises StorageFailed.
        """
        self.advance_log_start_offset(Offset(self.files.segments[count].base_offset))
        self.files.remove_first(count)
        self._snapshots.on_first_segments_gone(self.files.segments[0].base_offset)

    # Durability

    def flush_target(self) -> FlushTarget:
        """The files to sync so that all appended records survive a crash of the machine.

        `FlushTarget.sync` may run on another thread; call `durability.on_synced(target)` on this
        one afterwards. Raises StorageFailed.
        """
        segments = self.files.since(self.durability.recovery_point)
        closed = [path for segment in segments[:-1] for path in _paths(segment)[1:]]
        snapshots = [snapshot_path(self.directory, one.base_offset) for one in segments]
        for segment in segments:
            segment.file.fileno()  # opened here, not on the syncing thread
        return FlushTarget(
            self.log_end_offset,
            tuple(segment.file for segment in segments),
            (*closed, *snapshots, self.epochs.path, self.directory),
            self.durability.cuts,
        )

    def flush(self) -> None:
        """Sync all appended records and wait. Raises StorageFailed."""
        if self._files_state is not FilesState.CHANGED:
            return
        target = self.flush_target()
        target.sync()
        self.durability.on_synced(target)

    def close(self, *, flush: bool) -> None:
        """Close the log so that it opens without recovery; `flush` also waits for the disk.

        A log without records writes nothing, and missing files are not created: the controller's
        next full update does that. The log must not be used afterwards. If this raises
        StorageFailed, the stop is not clean.
        """
        if self._files_state is not FilesState.CHANGED:
            return  # an epoch announced since has no record, so it is not history
        active = self.files.active
        active.file.seal()
        active.write_indexes()
        self.epochs.write_if_behind()
        snapshot = write_snapshot(self.directory, self.log_end_offset, self.producers.entries)
        self._snapshots.on_stopped(self.log_end_offset)
        if flush:
            target = self.flush_target()
            replace(target, paths=(*_paths(active)[1:], snapshot, *target.paths)).sync()
            self.durability.on_synced(target)


def _duplicate(repeated: AppendedBatch, log: PartitionLog) -> Appended:
    stamp = repeated.timestamp_ms if log.limits.is_log_append_time else NO_TIMESTAMP
    first, last = Offset(repeated.base_offset), Offset(repeated.last_offset)
    return Appended(first, last, stamp, log.log_start_offset, is_duplicate=True)


def _paths(segment: Segment) -> list[Path]:
    return segment_paths(segment.directory, segment.base_offset)
