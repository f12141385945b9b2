"""Opens a partition directory: trusts it after a clean stop, otherwise checks and repairs it.

After an unclean stop every batch from the recovery point's segment on is checked (size, magic,
offsets, CRC-32C), and the log ends at the first bad byte. Indexes, epochs and producer state are
rebuilt from the batches if their files are missing or ahead of the batches.
"""

import enum
import logging
import os
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from crc32c import crc32c

from cluster.log.checkpoints import DamagedCheckpoint
from cluster.log.deleted_files import DELETED_SUFFIX
from cluster.log.files import files_of
from cluster.log.leader_epochs import LeaderEpochs
from cluster.log.log_reads import segment_slot
from cluster.log.offset_index import last_position
from cluster.log.old_formats import convert_old_segments
from cluster.log.options import LogOptions
from cluster.log.producer_loading import Trust, files_among, load_producers
from cluster.log.producer_state import ProducerState
from cluster.log.segment import Segment
from cluster.log.segment_paths import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    create_segment_file,
    remove_segment_files,
    segment_path,
)
from cluster.log.segment_swap import CLEANED_SUFFIX, finish_interrupted
from cluster.log.unchecked import UncheckedBytes
from cluster.model.clocks import WallMs
from cluster.model.errors import Refused, StorageFailed
from cluster.model.ids import LeaderEpoch, Offset
from cluster.records.batch import (
    ATTRIBUTES_POSITION,
    HEADER_BYTES,
    MAGIC_V2,
    MAX_INT32,
    NO_TIMESTAMP,
    BatchHeader,
    read_header,
)

_log = logging.getLogger(__name__)

PREALLOCATED: Final = "preallocated space"
_REPORT_EVERY_BYTES: Final = 16 << 20
_LEFTOVERS: Final = (DELETED_SUFFIX, CLEANED_SUFFIX, ".tmp")
_NO_LIMIT: Final = 2**63 - 1


class FilesState(enum.Enum):
    """The state of a log's files, compared with what a clean stop leaves."""

    NEW = "just made, without a record"
    AS_CLOSED = "as the last clean stop has left them"
    CHANGED = "written or repaired since"


@dataclass(slots=True)
class RecoveredLog:
    """The initial state of a PartitionLog."""

    segments: tuple[Segment, ...]
    log_start_offset: Offset
    log_end_offset: Offset
    epochs: LeaderEpochs
    producers: ProducerState
    files_state: FilesState
    undecided: Sequence[tuple[int, int]] = ()
    """First offset and that of the marker, of transactions that have ended at or after the high
    watermark, as far as that is known."""
    snapshots: Sequence[int] = ()
    """The offsets of the producer snapshots, ascending."""


class Scan(NamedTuple):
    """The end of the valid part of a segment file; `defect` describes the first bad batch, if
    any."""

    valid_bytes: int
    next_offset: int
    defect: str | None


@dataclass(frozen=True, slots=True)
class LastStop:
    """The last stop of a log, according to the checkpoints of its directory."""

    is_clean: bool
    recovery_point: Offset
    log_start_offset: Offset
    was_repaired: bool = False
    """Whether `repair` has left it since then as a clean stop does, only not synced."""
    high_watermark: Offset = Offset(0)
    lacks_unsynced: bool = False
    """Whether the machine went down: what was not synced may be lost."""


def _nobody(_checked_bytes: int) -> None:
    """Ignores progress."""


def recover(
    directory: Path,
    options: LogOptions,
    stop: LastStop,
    wall_ms: WallMs,
    on_checked: Callable[[int], None] = _nobody,
) -> RecoveredLog:
    """Load every segment of a directory, which is created if missing. Raises StorageFailed.

    `on_checked` gets the number of bytes checked since its last call.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with os.scandir(directory) as entries:  # one scan: there may be thousands of directories
            names = [entry.name for entry in entries]
        names = finish_interrupted(directory, names)
        segments = _find_segments(directory, names, options, wall_ms)
    except OSError as error:
        raise StorageFailed(f"cannot open log {directory}: {error.strerror}") from error
    if not segments:
        segments = [new_segment(directory, stop.log_start_offset, options, wall_ms)]
    _complete_empty(directory, segments[-1], names)
    has_records = any(segment.file.size_bytes for segment in segments)
    epochs, epochs_are_whole = _load_epochs(directory, is_expected=has_records)
    first_checked = len(segments) if stop.is_clean else segment_slot(segments, stop.recovery_point)
    first_scanned = 0
    if epochs_are_whole:
        first_scanned = len(segments) if stop.was_repaired else first_checked
    is_as_closed = stop.is_clean or stop.was_repaired
    synced_to = _NO_LIMIT if is_as_closed else segments[first_checked].base_offset
    first_unsynced = len(segments)
    if stop.lacks_unsynced and not is_as_closed:
        first_unsynced = first_checked
    segments, log_end, are_trusted = _load_segments(
        segments, first_scanned, first_unsynced, epochs, on_checked
    )
    log_start = max(stop.log_start_offset, Offset(segments[0].base_offset))
    if log_end < log_start and stop.is_clean:
        _log.warning(
            "%s ends at offset %d: ignored the log start %d of its checkpoint",
            directory,
            log_end,
            log_start,
        )
        log_start = Offset(segments[0].base_offset)
    if log_end < log_start:
        _log.warning(
            "%s ends at offset %d, before its start %d: emptied", directory, log_end, log_start
        )
        for segment in segments:
            remove_segment_files(directory, segment.base_offset)
        segments = [new_segment(directory, log_start, options, wall_ms)]
        log_end = log_start
        are_trusted = False
    epochs.forget_from(log_end)  # the next append writes the file
    epochs.truncate_from_start(log_start)
    producers, undecided, snapshots = load_producers(
        segments,
        log_end,
        files_among(names),
        Trust(Offset(synced_to), stop.high_watermark),
        options,
        wall_ms,
    )
    ends = [*(segment.base_offset for segment in segments[1:]), log_end]
    for slot, segment in enumerate(segments):
        if slot < len(segments) - 1:
            if segment.unchecked is None:
                segment.unchecked = UncheckedBytes(segment.file.size_bytes)
        elif slot >= first_checked:
            segment.unchecked = None
        if segment.unchecked is not None:
            segment.unchecked.offset_limit = ends[slot]
    for segment in segments:
        if segment.file.is_open:  # most logs are not used soon
            segment.release()
    are_as_closed = are_trusted and not stop.was_repaired
    files_state = FilesState.AS_CLOSED if are_as_closed else FilesState.CHANGED
    return RecoveredLog(
        tuple(segments), log_start, log_end, epochs, producers, files_state, undecided, snapshots
    )


def _complete_empty(directory: Path, segment: Segment, names: list[str]) -> None:
    """Create the index files that a crash left missing, if the segment has no records yet."""
    if segment.file.size_bytes == 0:
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            if segment_path(directory, segment.base_offset, suffix).name not in names:
                create_segment_file(directory, segment.base_offset, suffix)


def empty_log(directory: Path, options: LogOptions, wall_ms: WallMs) -> RecoveredLog:
    """The initial state of a new log without files."""
    return RecoveredLog(
        (Segment(directory, 0, options, wall_ms, is_new=True),),
        Offset(0),
        Offset(0),
        LeaderEpochs(directory),
        ProducerState(options.producer_id_expiration_ms),
        FilesState.NEW,
    )


def new_segment(directory: Path, base_offset: int, options: LogOptions, wall_ms: WallMs) -> Segment:
    """Create the file of an empty active segment. Raises StorageFailed."""
    create_segment_file(directory, base_offset)
    return Segment(directory, base_offset, options, wall_ms)


def _find_segments(
    directory: Path, names: list[str], options: LogOptions, wall_ms: WallMs
) -> list[Segment]:
    offsets = []
    for name in names:
        stem, dot, ending = name.rpartition(".")
        suffix = dot + ending
        if suffix in _LEFTOVERS:
            files_of(directory).unlink(directory / name)
        elif suffix == LOG_SUFFIX and stem.isdigit():
            offsets.append(int(stem))
    convert_old_segments(directory, sorted(offsets))
    return [Segment(directory, offset, options, wall_ms) for offset in sorted(offsets)]


def _load_epochs(directory: Path, *, is_expected: bool) -> tuple[LeaderEpochs, bool]:
    """Load the epochs. Returns them and whether the file is sound; if not, all segments are
    scanned."""
    try:
        epochs = LeaderEpochs.load(directory)
    except DamagedCheckpoint as error:
        _log.warning("%s; rebuilding it from the log", error)
        return LeaderEpochs(directory), False
    if is_expected and epochs.written is None:
        _log.info("%s is missing; rebuilding it from the log", epochs.path)
        return epochs, False
    return epochs, True


def _load_segments(
    segments: list[Segment],
    first_scanned: int,
    first_unsynced: int,
    epochs: LeaderEpochs,
    on_checked: Callable[[int], None],
) -> tuple[list[Segment], Offset, bool]:
    """Trust segments before `first_scanned` and scan the others.

    Those from `first_unsynced` on may have lost everything. Returns the remaining segments, the log
    end, and whether all segments were used unchanged.
    """
    are_trusted = True
    log_end = Offset(segments[0].base_offset)
    last = len(segments) - 1
    if first_scanned <= last:
        epochs.forget_from(Offset(segments[first_scanned].base_offset))
    for slot, segment in enumerate(segments):
        active = slot == last
        if segment.base_offset < log_end:
            _remove(segments[slot:], f"begins before the end {log_end} of the segment before it")
            segments[slot - 1].trust_indexes(active=True)
            epochs.write()
            return segments[:slot], log_end, False
        limit = _NO_LIMIT if active else segments[slot + 1].base_offset
        if slot < first_scanned and _trust(segment, active=active, offset_limit=limit):
            if active:
                end = _last_offset(segment)
                log_end = Offset(segment.base_offset if end is None else end + 1)
            continue
        are_trusted = False
        segment.unchecked = None
        is_lost = slot >= first_unsynced or not _was_emptied(segment)
        if not active and not segment.file.size_bytes and is_lost:
            _log.warning("%s is empty: its records are lost on this broker", segment.file.path)
            if slot >= first_scanned and (
                segments[slot + 1].base_offset - segment.base_offset <= MAX_INT32
            ):
                # Only other replicas may have the lost records, so the log ends before the gap.
                _remove(segments[slot + 1 :], "follows a lost segment")
                segment.start_indexing()
                epochs.write()
                return segments[: slot + 1], Offset(segment.base_offset), False
        scan = scan_segment(segment, epochs, on_checked, offset_limit=limit)
        log_end = Offset(scan.next_offset)
        if scan.defect is not None:
            _cut(segment, scan)
            _remove(segments[slot + 1 :], "follows a cut segment")
            epochs.write()
            return segments[: slot + 1], log_end, False
        if not active:
            segment.close_for_writing()
    if first_scanned < len(segments):
        epochs.write()
    return segments, log_end, are_trusted


def _was_emptied(segment: Segment) -> bool:
    """Whether compaction left a closed segment without batches; its indexes are then empty too.

    The time index of a segment that lost its batches by damage still has an entry, unless it was
    lost with the machine's power before it was synced.
    """
    try:
        return all(path.stat().st_size == 0 for path in _index_paths(segment))
    except FileNotFoundError:
        return False


def _index_paths(segment: Segment) -> list[Path]:
    suffixes = (INDEX_SUFFIX, TIME_INDEX_SUFFIX)
    return [segment_path(segment.directory, segment.base_offset, each) for each in suffixes]


def _last_offset(segment: Segment) -> int | None:
    """Offset of the last record; None if the segment is empty."""
    last = None
    start = segment.indexes.offsets.position_before(segment.file.size_bytes)
    for _, header in segment.headers_from(start):
        last = header.last_offset
    return last


def _trust(segment: Segment, *, active: bool, offset_limit: int) -> bool:
    """Use a cleanly closed segment unchanged if its indexes and its last batch are sound.

    The other index entries of a closed segment are checked when they are used.
    """
    size = segment.file.size_bytes
    if not size and not active and _was_emptied(segment):
        segment.trust_indexes(active=False)
        return True
    if not size:
        return active
    if not segment.indexes.are_sound:
        _log.warning("%s has no sound index; rebuilding it", segment.file.path)
        return False
    if active and _last_indexed(segment) >= size:
        _log.warning("%s is shorter than its index says; checking it", segment.file.path)
        return False
    segment.trust_indexes(active=active)
    segment.unchecked = UncheckedBytes(size)
    if not active and (
        segment.max_timestamp_ms == NO_TIMESTAMP or segment.max_timestamp_offset >= offset_limit
    ):
        _log.warning("%s has no sound time index; rebuilding it", segment.file.path)
        return False
    if active:
        # A cheap check of the end: the walk from the last index entry must reach the end of the
        # file.
        try:
            position = segment.boundary_before(0, size - 1)
            if size - position < HEADER_BYTES or segment.batch_end(position) != size:
                return False
        except (Refused, struct.error):
            return False
    return True


def _last_indexed(segment: Segment) -> int:
    path = segment_path(segment.directory, segment.base_offset, INDEX_SUFFIX)
    try:
        return last_position(path)
    except OSError as error:
        raise StorageFailed(f"cannot read {path}: {error.strerror}") from error


def scan_segment(
    segment: Segment,
    epochs: LeaderEpochs,
    on_checked: Callable[[int], None] = _nobody,
    *,
    offset_limit: int = _NO_LIMIT,
) -> Scan:
    """Check every batch of a segment and rebuild its indexes and epochs.

    A batch that follows a gap and does not end below `offset_limit`, where the next segment begins,
    has a damaged base offset.
    """
    offset_limit = min(offset_limit, segment.base_offset + MAX_INT32 + 1)
    scan, has_jumped = _scan(segment, epochs, on_checked, segment.file.size_bytes, offset_limit)
    if has_jumped is not None:
        # The checksum does not cover the base offset: the previous batch, which follows an
        # unexplained gap, has a wrong one.
        segment.start_indexing()
        epochs.forget_from(Offset(segment.base_offset))
        again, _ = _scan(segment, epochs, _nobody, has_jumped, offset_limit)
        return again._replace(defect="an offset too high for the batch that follows")
    return scan


def _scan(
    segment: Segment,
    epochs: LeaderEpochs,
    on_checked: Callable[[int], None],
    size: int,
    offset_limit: int,
) -> tuple[Scan, int | None]:
    """Check the batches in the first `size` bytes of a segment.

    Also returns the position of the last good batch if it alone conflicts with the next one.
    """
    segment.start_indexing()
    position, next_offset = 0, segment.base_offset
    reported = 0
    # The position of a batch after a gap, and the offset that was expected there.
    before: tuple[int, int] | None = None
    if not size:
        return Scan(0, next_offset, None), None
    with memoryview(segment.file.mapping()) as content:
        while position < size:
            if size - position < HEADER_BYTES:
                defect: str | None = f"{size - position} bytes are not a batch"
                break
            header = read_header(content, position)
            defect = _defect(header, content, position, next_offset, size, offset_limit)
            if defect is not None:
                if before is not None and before[1] <= header.base_offset < next_offset:
                    expected = before[1]
                    if _defect(header, content, position, expected, size, offset_limit) is None:
                        return Scan(position, next_offset, defect), before[0]
                break
            base_offset = header.base_offset
            before = (position, next_offset) if base_offset > next_offset else None
            last_offset = header.last_offset
            segment.tail.note_batch(
                base_offset, last_offset, header.max_timestamp, position, header.size_bytes
            )
            epochs.note(LeaderEpoch(header.partition_leader_epoch), Offset(base_offset))
            position += header.size_bytes
            next_offset = last_offset + 1
            if position - reported >= _REPORT_EVERY_BYTES:
                on_checked(position - reported)
                reported = position
        else:
            defect = None
    return Scan(position, next_offset, defect), None


def _defect(
    header: BatchHeader,
    content: memoryview,
    position: int,
    next_offset: int,
    size: int,
    offset_limit: int,
) -> str | None:
    """Describe the defect of the batch at a position; None if it is good."""
    end = position + header.size_bytes
    if header.magic != MAGIC_V2:
        if header.batch_length == 0 and header.base_offset == 0:
            return PREALLOCATED
        _refuse_old_format(header, content, position, end)
        return f"magic {header.magic}"
    if header.size_bytes < HEADER_BYTES or end > size:
        return f"batch of {header.size_bytes} bytes with {size - position} left"
    if header.base_offset < next_offset or header.last_offset_delta < 0:
        return f"offset {header.base_offset} where {next_offset} comes next"
    if header.last_offset >= offset_limit and header.base_offset > next_offset:
        return f"offset {header.last_offset} in a segment that ends before {offset_limit}"
    if crc32c(content[position + ATTRIBUTES_POSITION : end]) != header.crc:
        return "checksum does not match"
    return None


def _refuse_old_format(header: BatchHeader, content: memoryview, position: int, end: int) -> None:
    """Raise StorageFailed for a valid message of format v0 or v1, which is data, not damage."""
    if header.magic not in (0, 1) or header.batch_length < 14 or end > len(content):
        return
    checksum = int.from_bytes(content[position + 12 : position + 16], "big")
    if zlib.crc32(content[position + 16 : end]) == checksum:
        raise StorageFailed(
            f"offset {header.base_offset} has message format v{header.magic}, after batches of v2:"
            " move the partition's directory away and take it in with import-log"
        )


def _remove(segments: list[Segment], reason: str) -> None:
    for segment in segments:
        _log.warning("%s deleted: %s", segment.file.path, reason)
        remove_segment_files(segment.directory, segment.base_offset)


def _cut(segment: Segment, scan: Scan) -> None:
    file = segment.file
    # Every log that was not closed ends in preallocated space, so nothing was lost.
    level = logging.INFO if scan.defect == PREALLOCATED else logging.WARNING
    _log.log(
        level,
        "%s cut from %d to %d bytes, log end offset %d: %s",
        file.path,
        file.size_bytes,
        scan.valid_bytes,
        scan.next_offset,
        scan.defect,
    )
    file.size_bytes = scan.valid_bytes
    file.seal()
