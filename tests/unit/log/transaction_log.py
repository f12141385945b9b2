"""Writes transactions to a log as a leader does, and reads it as a `read_committed` consumer."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from cluster.log.partition_log import PartitionLog
from cluster.log.segment_paths import TRANSACTION_INDEX_SUFFIX
from cluster.log.transaction_index import AbortedTransaction, read_transactions
from cluster.model.ids import Offset
from cluster.records.batch import BatchHeader, batches_of
from cluster.records.builder import ProducerIdentity
from cluster.records.markers import EndMarker, read_marker
from cluster.records.reader import records_of_batch
from tests.unit.log.log_builder import EPOCH_0, NOW_MS, a_batch, append


def write(log: PartitionLog, producer_id: int, *, count: int = 1, epoch: int = 0) -> int:
    """Append records to the producer's transaction; returns the base offset."""
    sequence = log.producers.next_sequence(producer_id, epoch)
    producer = ProducerIdentity(producer_id, epoch, sequence)
    batch = a_batch(count, producer=producer, is_transactional=True)
    return append(log, batch).base_offset


def end(
    log: PartitionLog, producer_id: int, *, commits: bool, epoch: int = 0, coordinator: int = 0
) -> int:
    """Append the marker of a producer; returns its offset."""
    marker = EndMarker(producer_id, epoch, coordinator, commits)
    return log.append_marker(marker, EPOCH_0, NOW_MS).base_offset


def commit(log: PartitionLog, producer_id: int) -> int:
    return end(log, producer_id, commits=True)


def abort(log: PartitionLog, producer_id: int) -> int:
    return end(log, producer_id, commits=False)


def stable(log: PartitionLog, high_watermark: int | None = None) -> int:
    """The last stable offset; with everything committed unless a high watermark is given."""
    at = log.log_end_offset if high_watermark is None else Offset(high_watermark)
    return log.transactions.stable_offset(at, log.log_start_offset)


def aborted(log: PartitionLog) -> list[tuple[int, int]] | None:
    """Producer id and first offset of all transactions that a fetch of everything lists."""
    return log.transactions.aborted_in(log.log_start_offset, log.log_end_offset)


def indexed(log: PartitionLog) -> list[AbortedTransaction]:
    """The entries of all `.txnindex` files."""
    return indexed_in(log.directory)


def indexed_in(directory: Path) -> list[AbortedTransaction]:
    """The entries of all `.txnindex` files of a directory."""
    paths = sorted(directory.glob(f"*{TRANSACTION_INDEX_SUFFIX}"))
    return [entry for path in paths for entry in read_transactions(path)]


def read_committed(
    log: PartitionLog, high_watermark: int | None = None, max_bytes: int = 1 << 20
) -> dict[int, bytes | None]:
    """The values by offset that a consumer gets, with fetches of so many bytes."""
    got: dict[int, bytes | None] = {}
    offset, upper = log.log_start_offset, Offset(stable(log, high_watermark))
    while offset < upper:
        part = log.read(offset, max_bytes, upper_offset=upper, at_least_one_batch=True)
        listed = log.transactions.aborted_in(offset, part.next_offset)
        assert listed is not None
        for header, batch in _kept(batches_of(part.view()), listed):
            for record in records_of_batch(header, batch):
                if record.offset >= offset:
                    got[record.offset] = record.value
        assert part.next_offset > offset
        offset = part.next_offset
    return got


def _kept(
    batches: Iterator[tuple[BatchHeader, memoryview]], listed: Sequence[tuple[int, int]]
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The batches of one answer that a client gives to its application."""
    waiting = sorted(listed, key=lambda each: each[1], reverse=True)
    skipped: set[int] = set()
    for header, batch in batches:
        while waiting and waiting[-1][1] <= header.last_offset:
            skipped.add(waiting.pop()[0])
        if header.is_control:
            marker = read_marker(header, batch)
            if marker is not None and not marker.is_commit:
                skipped.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in skipped):
            yield header, batch
