"""Replays a partition of an internal topic into a shard, in steps. Kafka: `CoordinatorLoaderImpl`.

The log is read in pieces, and of each key only the newest record in a piece is replayed: a group
that commits all day writes thousands of records with the same few keys.
"""

import logging
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from cluster.brokers.replication.partition import Partition
from cluster.coordinator.shards.shard import Shard
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import Offset, TopicPartition
from cluster.records.batch import BatchHeader, batches_of, checksum
from cluster.records.markers import read_marker
from cluster.records.reader import keys_and_values
from cluster.runtime import collector

log = logging.getLogger(__name__)

_RECORDS_PER_STEP: Final = 50
_OFFSETS_TRIED: Final = 20_000
"""How many offsets after a damaged batch are tried: more than a batch contains, and more than lie
between two entries of the index."""
RECORDS_PER_FREEZE: Final = 5_000
"""After so many loaded or appended records, the objects in memory are left out of garbage
collections: they stay for long, and a collection of a million offsets takes 0.2 to 0.4 s."""
KEYS_MAX: Final = 30_000
"""How many keys of a piece are collected before they are replayed: creating or freeing more at once
would delay requests."""


@dataclass(slots=True)
class LoadCount:
    """What was read from the log."""

    records: int = 0
    bytes: int = 0
    damaged_batches: int = 0


def load_steps(
    partition: Partition, shard: Shard, buffer_bytes: int, count: LoadCount
) -> Iterator[None]:
    """The steps of replaying all records that the log contains at the first step.

    A piece has at most `buffer_bytes`, or is one larger batch. Loading waits for a damaged batch
    while it may be repaired from another replica; otherwise the batch is skipped, logged and
    counted. Raises StorageFailed.
    """
    own_log = partition.log
    offset, end_offset = own_log.log_start_offset, own_log.log_end_offset
    while offset < end_offset:
        try:
            piece = partition.log.read(
                max(offset, own_log.log_start_offset),
                buffer_bytes,
                upper_offset=end_offset,
                at_least_one_batch=True,
            )
        except Refused as refused:  # damage is found when a file is first read
            if own_log.damage.is_being_repaired:
                yield  # a repair takes milliseconds, and is given up after some seconds
                continue
            offset = yield from _pass_damage(partition, offset, end_offset, refused, count)
            continue
        if piece.size_bytes == 0:  # compaction removed everything up to the end
            return
        yield from _PieceReader(partition.id, shard, count).steps(piece.view())
        offset = piece.next_offset


def _pass_damage(
    partition: Partition, damaged: Offset, end_offset: Offset, refused: Refused, count: LoadCount
) -> Generator[None, None, Offset]:
    """Find the next readable offset, in the same segment or at the start of the next one."""
    own_log = partition.log
    bases = (segment.base_offset for segment in own_log.segments)
    next_base = next((base for base in bases if base > damaged), end_offset)
    offset = Offset(damaged + 1)
    while offset < next_base:
        try:
            partition.log.read(offset, 0, upper_offset=end_offset, at_least_one_batch=True)
            break
        except Refused:
            offset = Offset(offset + 1)
            if offset - damaged > _OFFSETS_TRIED:
                offset = Offset(next_base)
        yield
    count.damaged_batches += 1
    log.error(
        "skipped offsets %d to %d of %s, which are damaged: %s",
        damaged,
        offset - 1,
        partition.id,
        refused.detail,
    )
    return offset


class _PieceReader:
    """Replays consecutive batches.

    Invariant: transactions depend on the order of records, so everything that precedes a
    transactional batch or a marker is replayed before it.
    """

    def __init__(self, partition: TopicPartition, shard: Shard, count: LoadCount) -> None:
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
            self._on_damage(f"the data after offset {offset}", refused)
        yield from self._replay_newest()

    def _guarded_steps(self, header: BatchHeader, batch: memoryview) -> Iterator[None]:
        self._count.bytes += len(batch)
        try:
            if checksum(batch) != header.crc:
                raise Refused(ErrorCode.corrupt_message, "its checksum is wrong")
            if header.is_control:
                yield from self._replay_newest()
                self._replay_marker(header, batch)
            elif header.is_transactional:
                yield from self._replay_newest()
                for key, value in keys_and_values(header, batch):
                    self._shard.replay(key, value, header.producer_id)
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
                yield from self._replay_newest()
                newest = self._newest

    def _replay_newest(self) -> Iterator[None]:
        newest, self._newest = self._newest, {}
        replay = self._shard.replay
        for number, (key, value) in enumerate(newest.items(), start=1):
            replay(key, value)
            if number % _RECORDS_PER_STEP == 0:
                yield
            if number % RECORDS_PER_FREEZE == 0:
                collector.leave_out_what_is_there()

    def _replay_marker(self, header: BatchHeader, batch: memoryview) -> None:
        marker = read_marker(header, batch)
        if marker is not None:
            self._shard.replay_marker(marker.producer_id, is_commit=marker.is_commit)

    def _on_damage(self, what: str, refused: Refused) -> None:
        self._count.damaged_batches += 1
        log.error("skipped %s of %s, which is damaged: %s", what, self._partition, refused.detail)
