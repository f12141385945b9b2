"""Reads a partition of `__consumer_offsets` into a shard, in steps. Kafka: `CoordinatorLoaderImpl`.

The records of one key come into the shard once for each piece of the log that is read, the newest
of them: a group that commits all day writes thousands of records of the same few keys.
"""

import logging
import struct
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from cluster.brokers.replication.partition import Partition
from cluster.coordinator.groups.shard import GroupShard
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import Offset, TopicPartition
from cluster.records.batch import BatchHeader, batches_of, checksum
from cluster.records.reader import keys_and_values
from cluster.runtime import collector

log = logging.getLogger(__name__)

_RECORDS_PER_STEP: Final = 50
_OFFSETS_TRIED: Final = 20_000
"""After a damaged batch; more than a batch has of them, or lie between two entries of the index."""
RECORDS_PER_FREEZE: Final = 5_000
"""What is loaded or committed stays for long: a garbage collection of a million offsets takes
0.2 to 0.4 s."""
KEYS_MAX: Final = 30_000
"""Of which the newest record is kept back: more of them, made or freed at once, would be felt."""
_MARKER_KEY: Final = struct.Struct(">hh")
"""Version and type of a control record."""
_ABORT, _COMMIT = 0, 1


@dataclass(slots=True)
class LoadCount:
    """What was read."""

    records: int = 0
    bytes: int = 0
    damaged_batches: int = 0


def load_steps(
    partition: Partition, shard: GroupShard, buffer_bytes: int, count: LoadCount
) -> Iterator[None]:
    """The steps of loading all records that the log has when the first step is made.

    At most `buffer_bytes` of the log are looked at together, or one larger batch. A damaged batch
    is waited for while another replica may have it; else it is left out, with one line and a
    count. Raises StorageFailed.
    """
    own_log = partition.log
    offset, end_offset = own_log.log_start_offset, own_log.log_end_offset
    while offset < end_offset:
        try:
            piece = partition.read(
                max(offset, own_log.log_start_offset),
                buffer_bytes,
                upper_offset=end_offset,
                at_least_one_batch=True,
            )
        except Refused as refused:  # a file that was closed long ago is checked when it is read
            if own_log.damage.is_being_repaired:
                yield  # that takes milliseconds; it is given up after some seconds
                continue
            offset = yield from _pass_damage(partition, offset, end_offset, refused, count)
            continue
        if piece.size_bytes == 0:  # compaction left nothing up to the end
            return
        yield from _PieceReader(partition.id, shard, count).steps(piece.view())
        offset = piece.next_offset


def _pass_damage(
    partition: Partition, damaged: Offset, end_offset: Offset, refused: Refused, count: LoadCount
) -> Generator[None, None, Offset]:
    """Look for the next offset that can be read, in the same segment or the next. Returns it."""
    own_log = partition.log
    bases = (segment.base_offset for segment in own_log.segments)
    next_base = next((base for base in bases if base > damaged), end_offset)
    offset = Offset(damaged + 1)
    while offset < next_base:
        try:
            partition.read(offset, 0, upper_offset=end_offset, at_least_one_batch=True)
            break
        except Refused:
            offset = Offset(offset + 1)
            if offset - damaged > _OFFSETS_TRIED:
                offset = Offset(next_base)
        yield
    count.damaged_batches += 1
    log.error(
        "offsets %d to %d of %s are damaged and left out: %s",
        damaged,
        offset - 1,
        partition.id,
        refused.detail,
    )
    return offset


class _PieceReader:
    """Reads batches that follow each other. Invariant: what depends on the order of records, which
    is transactions, comes into the shard after all that precedes it."""

    def __init__(self, partition: TopicPartition, shard: GroupShard, count: LoadCount) -> None:
        self._partition = partition
        self._shard = shard
        self._count = count
        self._newest: dict[bytes | None, bytes | None] = {}

    def steps(self, view: memoryview) -> Iterator[None]:
        offset = -1
        try:
            for header, batch in batches_of(view):
                offset = header.base_offset
                yield from self._guarded_steps(header, batch)
        except Refused as refused:
            self._on_damage(f"what follows offset {offset}", refused)
        yield from self._give_newest()

    def _guarded_steps(self, header: BatchHeader, batch: memoryview) -> Iterator[None]:
        self._count.bytes += len(batch)
        try:
            if checksum(batch) != header.crc:
                raise Refused(ErrorCode.corrupt_message, "its checksum is wrong")
            if header.is_control:
                yield from self._give_newest()
                self._give_marker(header, batch)
            elif header.is_transactional:
                yield from self._give_newest()
                for key, value in keys_and_values(header, batch):
                    self._shard.load(key, value, header.producer_id)
                self._count.records += header.record_count
            else:
                yield from self._collect(header, batch)
        except Refused as refused:
            self._on_damage(f"the batch at offset {header.base_offset}", refused)
        yield

    def _collect(self, header: BatchHeader, batch: memoryview) -> Iterator[None]:
        newest = self._newest
        records = keys_and_values(header, batch)
        while some := list(islice(records, _RECORDS_PER_STEP)):
            newest.update(some)
            self._count.records += len(some)
            yield
            if len(newest) >= KEYS_MAX:
                yield from self._give_newest()
                newest = self._newest

    def _give_newest(self) -> Iterator[None]:
        newest, self._newest = self._newest, {}
        load = self._shard.load
        for number, (key, value) in enumerate(newest.items(), start=1):
            load(key, value)
            if number % _RECORDS_PER_STEP == 0:
                yield
            if number % RECORDS_PER_FREEZE == 0:
                collector.leave_out_what_is_there()

    def _give_marker(self, header: BatchHeader, batch: memoryview) -> None:
        for key, _ in keys_and_values(header, batch):
            if key is not None and len(key) >= _MARKER_KEY.size:
                _, kind = _MARKER_KEY.unpack_from(key)
                if kind in (_ABORT, _COMMIT):
                    self._shard.load_marker(header.producer_id, is_commit=kind == _COMMIT)

    def _on_damage(self, what: str, refused: Refused) -> None:
        self._count.damaged_batches += 1
        log.error("%s of %s is damaged and left out: %s", what, self._partition, refused.detail)
