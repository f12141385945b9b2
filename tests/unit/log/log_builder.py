"""Batches and logs for the tests of `cluster/log`."""

import shutil
from pathlib import Path

from cluster.log.batch_search import TimestampOffset
from cluster.log.options import LogOptions
from cluster.log.partition_log import Appended, OnDamage, PartitionLog
from cluster.log.time_search import search_max_timestamp, search_now, search_timestamp
from cluster.model.clocks import MonotonicMs, WallMs
from cluster.model.ids import LeaderEpoch, Offset, TopicPartition
from cluster.records.builder import NewRecord, ProducerIdentity, build_batch
from cluster.records.produced import validate_produced
from cluster.records.reader import Record, read_records

NOW_MS = WallMs(1_700_000_000_000)
PARTITION = TopicPartition("orders", 0)
SMALL = LogOptions(segment_bytes=2000, index_interval_bytes=100, preallocate_step_bytes=8192)
EPOCH_0 = LeaderEpoch(0)
ZERO = Offset(0)


EVERYTHING = 1 << 62
"""A high watermark above every log end."""


def open_log(
    directory: Path,
    options: LogOptions = SMALL,
    *,
    clean: bool = True,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    high_watermark: int = EVERYTHING,
    wall_ms: WallMs = NOW_MS,
    lacks_unsynced: bool = False,
    on_damage: OnDamage | None = None,
) -> PartitionLog:
    """A log under `directory`, opened or created."""
    return PartitionLog.open(
        directory / str(PARTITION),
        PARTITION,
        options,
        wall_ms,
        clean_shutdown=clean,
        recovery_point=Offset(recovery_point),
        log_start_offset=Offset(log_start_offset),
        high_watermark=Offset(high_watermark),
        lacks_unsynced=lacks_unsynced,
        on_damage=on_damage,
    )


def a_batch(
    count: int = 1,
    *,
    value: bytes = b"value",
    timestamp_ms: int = NOW_MS,
    producer: ProducerIdentity | None = None,
    is_transactional: bool = False,
) -> memoryview:
    """A batch as a producer sends it."""
    return memoryview(
        build_batch(
            [NewRecord(value, None, timestamp_ms + delta) for delta in range(count)],
            producer=producer or ProducerIdentity(),
            is_transactional=is_transactional,
        )
    )


def append(
    log: PartitionLog, batch: memoryview, epoch: int = 0, wall_ms: WallMs = NOW_MS
) -> Appended:
    """Append as the leader of an epoch."""
    produced = validate_produced(batch, log.limits, wall_ms)
    return log.append(produced, LeaderEpoch(epoch), wall_ms)


def needs_flush(log: PartitionLog, now_ms: MonotonicMs) -> bool:
    """Whether a sync of the log is due."""
    return log.durability.is_due(log.log_end_offset, log.files.active.base_offset, now_ms)


def offset_for_timestamp(
    log: PartitionLog, timestamp_ms: int, *, upper_offset: Offset
) -> TimestampOffset | None:
    """The first record below `upper_offset` at or after a timestamp."""
    bounds = (log.log_start_offset, upper_offset)
    return search_now(search_timestamp(log.segments, timestamp_ms, bounds))


def max_timestamp_offset(log: PartitionLog, *, upper_offset: Offset) -> TimestampOffset | None:
    """The newest record below `upper_offset` by timestamp."""
    return search_now(search_max_timestamp(log.segments, (log.log_start_offset, upper_offset)))


def read_all(log: PartitionLog, max_bytes: int = 1 << 20) -> list[Record]:
    """Every record from the log start to its end, through slices."""
    records: list[Record] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        part = log.read(offset, max_bytes, upper_offset=log.log_end_offset, at_least_one_batch=True)
        assert part.size_bytes
        assert part.next_offset > offset
        records += (record for record in read_records(part.view()) if record.offset >= offset)
        offset = part.next_offset
    return records


def crashed_copy(log: PartitionLog, directory: Path) -> Path:
    """Copy a log in the state after a kill -9 at this moment, for `open_log`."""
    shutil.copytree(log.directory, directory / str(PARTITION))
    return directory


def all_bytes(log: PartitionLog) -> bytes:
    """The batches of all segment files, concatenated."""
    return b"".join(bytes(one.file.view(0, one.file.size_bytes)) for one in log.segments)
