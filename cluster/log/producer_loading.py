"""Loads the producers of a log at its start and after a truncation, and mends `.txnindex` files.

Producers come from a snapshot that can be trusted, and from the batches after it. A
`.txnindex` file is rebuilt if its segment was not synced before an unclean stop, or if a look at
the file finds a defect.
"""

import logging
import os
from bisect import insort
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from cluster.log.batch_walk import base_offset_at
from cluster.log.inner_snapshots import is_worthwhile, superfluous
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
from cluster.log.segment import WALKED_BATCHES, Segment
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
from cluster.runtime.collector import suspended

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
    was_cut: bool = False
    """The log was truncated in use. Then the second newest snapshot is the best: the newest has
    only the last batch of each producer, and clients may repeat earlier ones."""


class LoadedProducers(NamedTuple):
    """The producers at the log end."""

    producers: ProducerState
    undecided: list[tuple[int, int]]
    """First offset and that of the marker, of transactions that have ended in batches which were
    read, at or after the high watermark."""
    snapshots: list[int]
    """The offsets of the snapshots that remain, ascending."""


@suspended()  # a collection would visit the last batches of each producer
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
    a newer one. Snapshots that are damaged or too new are deleted, as are those from before the
    first segment. Raises StorageFailed.
    """
    directory = segments[0].directory
    producers = ProducerState(options.producer_id_expiration_ms)
    replay_from, limit = segments[0].base_offset, min(log_end_offset, trust.synced_to)
    kept = [offset for offset in found.snapshots if replay_from <= offset <= limit]
    for offset in set(found.snapshots).difference(kept):
        remove_snapshot(directory, offset)
    candidates = list(kept)
    if trust.was_cut and len(candidates) > 1:
        candidates.insert(0, candidates.pop())
    for offset in reversed(candidates):
        try:
            entries = read_snapshot(directory, offset)
        except DamagedSnapshot as error:
            _log.warning("%s dropped: %s", snapshot_path(directory, offset), error)
            remove_snapshot(directory, offset)
            kept.remove(offset)
            continue
        if offset <= trust.high_watermark or not _have_ended_any(entries):
            producers.restore(entries, offset)
            replay_from = offset
            break
    ends = [*(segment.base_offset for segment in segments[1:]), log_end_offset]
    replay = _Replay(producers, replay_from, trust.high_watermark, kept, options)
    rebuilt: set[int] = set()
    if replay_from < log_end_offset:
        for slot in range(segment_slot(segments, replay_from), len(segments)):
            base = segments[slot].base_offset
            if base > replay_from and base not in kept:
                replay.write_snapshot(directory, base)
            if replay.read(segments[slot], ends[slot]):
                rebuilt.add(base)
    bases = [segment.base_offset for segment in segments]
    for offset in superfluous(kept, bases):
        remove_snapshot(directory, offset)
        kept.remove(offset)
    _mend_others(segments, ends, found.indexes, rebuilt)
    producers.expire(wall_ms)
    return LoadedProducers(producers, replay.undecided, kept)


def load_after_cut(
    segments: Sequence[Segment], end: Offset, options: LogOptions, wall_ms: WallMs
) -> LoadedProducers:
    """Load the producers of a log that was truncated to `end` in use. Raises StorageFailed."""
    found = find_files(segments[0].directory)
    return load_producers(segments, end, found, Trust(end, end, was_cut=True), options, wall_ms)


def _have_ended_any(entries: Mapping[int, ProducerEntry]) -> bool:
    """Whether a transaction of some producer has ended: it may be undecided."""
    return any(entry.coordinator_epoch != NO_COORDINATOR_EPOCH for entry in entries.values())


class _Replay:
    """Brings producers up to date with the batches from an offset on."""

    def __init__(
        self,
        producers: ProducerState,
        offset: int,
        high_watermark: Offset,
        snapshots: list[int],
        options: LogOptions,
    ) -> None:
        """`snapshots` are the offsets of all snapshots; those that are written are added."""
        self._producers = producers
        self._offset = offset
        self._high_watermark = high_watermark
        self._snapshots = snapshots
        self._options = options
        self.undecided: list[tuple[int, int]] = []

    def write_snapshot(self, directory: Path, offset: int) -> None:
        """Write a snapshot at the offset up to which all batches were read.

        Raises StorageFailed.
        """
        write_snapshot(directory, offset, self._producers.entries)
        if offset not in self._snapshots:
            insort(self._snapshots, offset)

    def read(self, segment: Segment, end_offset: int) -> bool:
        """Read the next segment; returns whether its index is up to date now.

        Raises StorageFailed.
        """
        entries = bytearray()
        walked = 0
        try:
            last_at = segment.locate(self._offset)
            for batches, position in segment.producer_batches_from(last_at):
                walked += WALKED_BATCHES
                if batches:
                    self._producers.replay_walked(batches, segment.file.mapping())
                    self._take_ended(entries)
                known = len(self._producers.entries)
                if position < segment.file.size_bytes and is_worthwhile(
                    self._options, position - last_at, walked, known
                ):
                    offset = base_offset_at(segment.file.mapping(), position)
                    self.write_snapshot(segment.directory, offset)
                    last_at, walked = position, 0
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
