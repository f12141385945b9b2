"""Loads the producers of a log at its start and after a truncation, and mends `.txnindex` files.

Producers come from a snapshot that can be trusted, and from the batches after it. A
`.txnindex` file is rebuilt if its segment was not synced before an unclean stop, or if a look at
the file finds a defect.
"""

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from cluster.log.log_reads import segment_slot
from cluster.log.options import LogOptions
from cluster.log.producer_snapshots import (
    DamagedSnapshot,
    offsets_of_snapshots,
    read_snapshot,
    remove_snapshot,
    snapshot_path,
    write_snapshot,
)
from cluster.log.producer_state import ProducerEntry, ProducerState
from cluster.log.segment import Segment
from cluster.log.transaction_index import (
    AbortedTransaction,
    DamagedTransactionIndex,
    encode_transactions,
    first_since,
    read_content,
)
from cluster.log.transaction_rebuild import (
    defect_of_index,
    index_path,
    offsets_of_indexes,
    put_index,
    rebuild_index,
    remove_index,
)
from cluster.model.clocks import WallMs
from cluster.model.errors import Refused, StorageFailed
from cluster.model.ids import Offset
from cluster.records.markers import NO_COORDINATOR_EPOCH

_log = logging.getLogger(__name__)


class FilesFound(NamedTuple):
    """The offsets of the producer snapshots and transaction indexes of a log, ascending."""

    snapshots: list[int]
    indexes: list[int]


def find_files(directory: Path) -> FilesFound:
    """The files of a log in use. Raises StorageFailed."""
    try:
        with os.scandir(directory) as entries:
            return files_among([entry.name for entry in entries])
    except OSError as problem:
        raise StorageFailed(f"cannot read {directory}: {problem.strerror}") from problem


def files_among(names: Sequence[str]) -> FilesFound:
    """Those among the names of a directory's files."""
    return FilesFound(offsets_of_snapshots(names), offsets_of_indexes(names))


class Trust(NamedTuple):
    """Which files of a log tell the truth."""

    synced_to: Offset
    """Snapshots above are not used: they may be of batches that were lost with the machine's
    memory, and replaced since. Indexes of segments that begin there or later are rebuilt."""
    high_watermark: Offset
    """Transactions that ended at or after it are undecided."""


class LoadedProducers(NamedTuple):
    """The producers at the log end."""

    producers: ProducerState
    undecided: list[tuple[int, int]]
    """First offset and that of the marker, of transactions that have ended in batches which were
    read, at or after the high watermark."""


def load_producers(
    segments: Sequence[Segment],
    log_end_offset: int,
    found: FilesFound,
    trust: Trust,
    options: LogOptions,
    wall_ms: WallMs,
) -> LoadedProducers:
    """Load the producer state at the log end.

    It begins with a snapshot at or below the high watermark, unless no transaction has ended before
    a newer one. Snapshots that are damaged or too new are deleted. Raises StorageFailed.
    """
    directory = segments[0].directory
    producers = ProducerState(options.producer_id_expiration_ms)
    replay_from = segments[0].base_offset
    kept = list(found.snapshots)
    for offset in reversed(found.snapshots):
        entries = None
        if offset <= min(log_end_offset, trust.synced_to):
            try:
                entries = read_snapshot(directory, offset)
            except DamagedSnapshot as error:
                _log.warning("%s dropped: %s", snapshot_path(directory, offset), error)
        if entries is None:
            remove_snapshot(directory, offset)
            kept.remove(offset)
        elif offset <= trust.high_watermark or not _have_ended_any(entries):
            producers.restore(entries)
            replay_from = offset
            break
    ends = [*(segment.base_offset for segment in segments[1:]), log_end_offset]
    replay = _Replay(producers, replay_from, trust.high_watermark)
    rebuilt: set[int] = set()
    if replay_from < log_end_offset:
        for slot in range(segment_slot(segments, replay_from), len(segments)):
            base = segments[slot].base_offset
            if base > replay_from and base not in kept:
                write_snapshot(directory, base, producers.entries)
            if replay.read(segments[slot], ends[slot]):
                rebuilt.add(base)
    _mend_others(segments, ends, found.indexes, rebuilt)
    producers.expire(wall_ms)
    return LoadedProducers(producers, replay.undecided)


def _have_ended_any(entries: Mapping[int, ProducerEntry]) -> bool:
    """Whether a transaction of some producer has ended: it may be undecided."""
    return any(entry.coordinator_epoch != NO_COORDINATOR_EPOCH for entry in entries.values())


class _Replay:
    """Brings producers up to date with the batches from an offset on."""

    def __init__(self, producers: ProducerState, offset: int, high_watermark: Offset) -> None:
        self._producers = producers
        self._offset = offset
        self._high_watermark = high_watermark
        self.undecided: list[tuple[int, int]] = []

    def read(self, segment: Segment, end_offset: int) -> bool:
        """Read the next segment; returns whether its index is up to date now.

        Raises StorageFailed.
        """
        entries = bytearray()
        try:
            for position, header in segment.headers_from(segment.locate(self._offset)):
                if header.producer_id >= 0:
                    batch = segment.file.view(position, header.size_bytes)
                    self._producers.replay(header, batch)
                    if self._producers.ended:
                        self._take_ended(entries)
        except Refused as refused:  # below the recovery point, so the log stays whole
            _log.warning("%s: the producers of later batches are unknown", refused.detail)
            return False
        earlier = b""
        if segment.base_offset < self._offset:
            if defect_of_index(segment, end_offset) is not None:
                return False
            try:
                content = read_content(index_path(segment))
            except DamagedTransactionIndex:
                return False
            earlier = content[: first_since(content, self._offset)]
        put_index(segment, earlier + entries)
        return True

    def _take_ended(self, entries: bytearray) -> None:
        ended = self._producers.ended
        while ended:
            producer_id, first, last, stable, is_abort = ended.popleft()
            if is_abort:
                aborted = AbortedTransaction(producer_id, first, last, stable)
                entries += encode_transactions([aborted])
            if last >= self._high_watermark:
                self.undecided.append((first, last))


def _mend_others(
    segments: Sequence[Segment], ends: Sequence[int], indexes: Sequence[int], rebuilt: set[int]
) -> None:
    """Rebuild the other indexes that are damaged, and delete those without a segment."""
    for base in indexes:
        slot = segment_slot(segments, base)
        segment = segments[slot]
        if segment.base_offset != base:
            remove_index(segment.directory, base)
        elif base not in rebuilt:
            defect = defect_of_index(segment, ends[slot])
            if defect is not None:
                try:
                    rebuild_index(segments, slot, defect)
                except Refused as refused:
                    _log.error("%s: cannot be rebuilt: %s", index_path(segment), refused.detail)
