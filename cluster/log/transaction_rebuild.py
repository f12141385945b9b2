"""Rebuilds the `.txnindex` of a segment from its batches, and finds those that need it at a start.

A start checks the size, the first and the last entries of each file. Everything else that may be
wrong is found where an entry is read, or by the scrub.
"""

import logging
import os
from collections.abc import Sequence
from pathlib import Path

from cluster.log.checkpoints import replace_file
from cluster.log.files import files_of
from cluster.log.log_reads import look_at_file
from cluster.log.producer_snapshots import DamagedSnapshot, read_snapshot, snapshot_offsets
from cluster.log.segment import Segment
from cluster.log.segment_paths import TRANSACTION_INDEX_SUFFIX, segment_path
from cluster.log.transaction_index import (
    ENTRY_BYTES,
    VERSION,
    encode_transactions,
    raw_entries,
    read_content,
)
from cluster.log.transaction_replay import TransactionReplay
from cluster.model.errors import StorageFailed
from cluster.records.batch import checksum, read_header
from cluster.records.markers import EndMarker, marker_at
from cluster.records.producer_walk import BatchKind

_log = logging.getLogger(__name__)


def index_path(segment: Segment) -> Path:
    """The path of a segment's `.txnindex`."""
    return segment_path(segment.directory, segment.base_offset, TRANSACTION_INDEX_SUFFIX)


def indexed_offsets(directory: Path) -> list[int]:
    """The base offsets in the names of a directory's `.txnindex` files. Raises OSError."""
    try:
        with os.scandir(directory) as entries:
            names = [entry.name for entry in entries]
    except FileNotFoundError:
        return []  # a new log has no directory yet
    return offsets_of_indexes(names)


def offsets_of_indexes(names: Sequence[str]) -> list[int]:
    """The base offsets of the `.txnindex` files among file names, ascending."""
    stems = (name.removesuffix(TRANSACTION_INDEX_SUFFIX) for name in names)
    ours = (stem for stem, name in zip(stems, names, strict=True) if stem != name)
    return sorted(int(stem) for stem in ours if stem.isdigit())


def defect_of_index(segment: Segment, end_offset: int) -> str | None:
    """The defect of a segment's `.txnindex`, as far as its size and both ends show it.

    `end_offset` is where the next segment begins, or the log ends. None for a missing file.
    """
    path = index_path(segment)
    try:
        size = path.stat().st_size
        if size % ENTRY_BYTES:
            return f"{size} bytes are not whole entries"
        before = segment.base_offset - 1
        # The tail may be zeros, or of an earlier file, after a crash of the machine.
        ends = {0, max(0, size - 2 * ENTRY_BYTES), max(0, size - ENTRY_BYTES)} if size else ()
        for position in sorted(ends):
            content = files_of(path).read_part(path, position, ENTRY_BYTES)
            for version, _, first, last, _ in raw_entries(content):
                if version != VERSION or not 0 <= first < last:
                    return f"no entry at byte {position}"
                if not before < last < end_offset:
                    return f"offset {last} cannot be at byte {position}"
                before = last
    except FileNotFoundError:
        return None
    except OSError as problem:
        return f"it cannot be read: {problem.strerror}"
    return None


def put_index(segment: Segment, entries: bytes) -> bool:
    """Replace a segment's `.txnindex` unless it has these entries; returns whether it had not.

    Raises StorageFailed.
    """
    path = index_path(segment)
    try:
        if path.stat().st_size == len(entries) and read_content(path) == entries:
            return False
    except FileNotFoundError:
        if not entries:
            return False
    except OSError:
        pass  # it is replaced
    replace_file(path, entries, sync=False)
    return True


def entries_of(segments: Sequence[Segment], slot: int) -> bytes:
    """The entries of a segment's `.txnindex`, from its batches and those before it if necessary.

    The producer snapshot at its beginning has the transactions that are open there; without it, an
    older one and the segments in between are read. Raises Refused if a batch is damaged, and
    StorageFailed.
    """
    segment = segments[slot]
    replay, first = _open_before(segments, slot)
    found = bytearray()
    for each in segments[first : slot + 1]:
        look_at_file(each)
        for batches, _ in each.producer_batches_from(0):
            for producer_id, _, _, last_offset, delta, _, kind, position in batches:
                if kind == BatchKind.OPENING:
                    replay.opened.setdefault(producer_id, last_offset - delta)
                elif kind == BatchKind.CONTROL:
                    marker = _sound_marker(each, position)
                    aborted = replay.on_marker(producer_id, last_offset, marker)
                    if aborted is not None and each is segment:
                        found += encode_transactions([aborted])
    return bytes(found)


def _sound_marker(segment: Segment, position: int) -> EndMarker | None:
    """The marker in the control batch at a position. Raises Refused."""
    header = read_header(segment.file.mapping(), position)
    batch = segment.file.view(position, header.size_bytes)
    if checksum(batch) != header.crc:
        raise segment.note_damage(position, "checksum does not match")
    return marker_at(batch, 0)


def _open_before(segments: Sequence[Segment], slot: int) -> tuple[TransactionReplay, int]:
    """The open transactions before a segment, and the first segment to read after them."""
    directory = segments[slot].directory
    bases = {segment.base_offset: number for number, segment in enumerate(segments[: slot + 1])}
    for offset in reversed(snapshot_offsets(directory)):
        if offset in bases:
            try:
                producers = read_snapshot(directory, offset)
            except DamagedSnapshot as damage:
                _log.warning("%s: %s", directory, damage)
                continue
            opened = [(each, entry.transaction_offset) for each, entry in producers.items()]
            return TransactionReplay(each for each in opened if each[1] >= 0), bases[offset]
    return TransactionReplay(), 0


def replay_from_segment(segments: Sequence[Segment], slot: int) -> TransactionReplay:
    """A replay that begins with a segment, with what its producer snapshot has open there."""
    replay, first = _open_before(segments, slot)
    return replay if first == slot else TransactionReplay()


def rebuild_index(segments: Sequence[Segment], slot: int, reason: object) -> None:
    """Write a segment's `.txnindex` anew. Raises what `entries_of` raises."""
    segment = segments[slot]
    _log.warning("%s: %s; rebuilding it from the batches", index_path(segment), reason)
    put_index(segment, entries_of(segments, slot))


def remove_index(directory: Path, base_offset: int) -> None:
    """Delete a `.txnindex` whose segment does not exist. Raises StorageFailed."""
    path = segment_path(directory, base_offset, TRANSACTION_INDEX_SUFFIX)
    try:
        files_of(path).unlink_if_there(path)
    except OSError as error:
        raise StorageFailed(f"cannot delete {path}: {error.strerror}") from error
