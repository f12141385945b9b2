"""Logs with keys, transactions and tombstones, and single cleanings of them, for tests."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cluster.log.cleaner.cleaning_process import work
from cluster.log.cleaner.log_work import CleanerLimits, find_work, order_of, swap_in
from cluster.log.cleaner.order import CLEANED, DONE, CleaningDone
from cluster.log.options import CleaningPolicy, LogOptions
from cluster.log.partition_log import PartitionLog
from cluster.model.clocks import WallMs
from cluster.model.ids import Offset
from cluster.records.batch import BatchHeader, Compression, batches_of, unpack_header
from cluster.records.builder import NewRecord, ProducerIdentity, build_batch
from cluster.records.reader import Record, read_records
from tests.unit.log.log_builder import NOW_MS

RETENTION_MS = 1_000
COMPACTED = LogOptions(
    segment_bytes=900,
    index_interval_bytes=100,
    preallocate_step_bytes=8192,
    is_compacted=True,
    cleaning=CleaningPolicy(min_dirty_ratio=0.0, delete_retention_ms=RETENTION_MS),
)
UNLIMITED = CleanerLimits(1 << 20, 0.9, 4096, float("inf"))


def put(
    log: PartitionLog,
    records: Sequence[tuple[bytes | None, bytes | None]],
    *,
    codec: Compression = Compression.NONE,
    producer: ProducerIdentity | None = None,
    is_transactional: bool = False,
    timestamp_ms: int = NOW_MS,
) -> int:
    """Append a batch of (key, value) as to a leader's log; returns its base offset."""
    base_offset = log.log_end_offset
    batch = build_batch(
        [NewRecord(value, key, timestamp_ms + at) for at, (key, value) in enumerate(records)],
        base_offset=base_offset,
        codec=codec,
        producer=producer or ProducerIdentity(),
        leader_epoch=0,
        is_transactional=is_transactional,
    )
    log.append_as_follower(memoryview(batch), NOW_MS)
    return base_offset


def end_transaction(log: PartitionLog, producer: ProducerIdentity, *, commits: bool) -> int:
    """Append a transaction marker."""
    base_offset = log.log_end_offset
    marker = NewRecord(b"\0\0\0\0\0\1", b"\0\0\0\1" if commits else b"\0\0\0\0", NOW_MS)
    batch = build_batch(
        [marker],
        base_offset=base_offset,
        producer=ProducerIdentity(producer.producer_id, producer.producer_epoch, -1),
        leader_epoch=0,
        is_transactional=True,
        is_control=True,
    )
    log.append_as_follower(memoryview(batch), NOW_MS)
    return base_offset


def roll(log: PartitionLog) -> None:
    """Close the active segment by appending a record that does not fit."""
    filler = COMPACTED.segment_bytes - 100
    while log.segments[-1].file.size_bytes:
        put(log, [(b"roll", bytes(filler))])
        if log.segments[-1].file.size_bytes >= filler:
            return


def clean(
    log: PartitionLog,
    *,
    wall_ms: int = NOW_MS,
    high_watermark: int | None = None,
    limits: CleanerLimits = UNLIMITED,
) -> CleaningDone | None:
    """Run one whole cleaning in this process; None if there was nothing to clean.

    Fails the test if the cleaning fails.
    """
    end = log.log_end_offset if high_watermark is None else Offset(high_watermark)
    cleanable = find_work(log, end, WallMs(wall_ms))
    if cleanable is None:
        return None
    order = order_of(log, cleanable, limits, WallMs(wall_ms))
    messages: list[Any] = []
    work(order.to_message(), messages.append)
    for message in messages[:-1]:
        assert message["kind"] == CLEANED
        assert swap_in(log, message["sources"])
    assert messages[-1]["kind"] == DONE, messages[-1]
    done = CleaningDone.of_message(messages[-1])
    log.cleaned_to = done.next_dirty_offset
    return done


def content(log: PartitionLog) -> bytes:
    """All bytes of a log."""
    return b"".join(bytes(one.file.view(0, one.file.size_bytes)) for one in log.segments)


def records(log: PartitionLog, *, with_control: bool = False) -> list[Record]:
    """All records of a log with verified checksums, including aborted ones."""
    return list(read_records(memoryview(content(log)), with_control=with_control))


def headers(log: PartitionLog) -> list[BatchHeader]:
    """The header of each batch."""
    return [header for header, _ in batches_of(memoryview(content(log)))]


def files(directory: Path) -> dict[str, bytes]:
    """Every file of a partition directory."""
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def header_at(batch: bytes) -> BatchHeader:
    """The header of one batch."""
    return BatchHeader._make(unpack_header(batch))
