"""Fetch and ListOffsets with read_committed, from logs with transactions that Kafka wrote."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.log.partition_log import PartitionLog
from cluster.log.segment_paths import TRANSACTION_INDEX_SUFFIX, segment_path
from cluster.log.transaction_index import AbortedTransaction, read_transactions
from cluster.model.errors import StorageFailed
from cluster.model.ids import Offset
from cluster.records.batch import batches_of, stamp_checksum
from cluster.records.markers import EndMarker
from cluster.records.reader import read_records
from tests.support.cluster_states import a_partition, a_topic
from tests.support.handler_requests import WALL_MS, a_batch, fetched_in, list_offsets_of, offsets_in
from tests.support.handler_stage import BROKER, OTHER, HandlerStage
from tests.support.kafka_wire import fetch_from, produce_to, wanted
from tests.support.transactional_batches import ABORT, COMMIT, data, marker

COMMITTED = 1
LATEST, MAX_TIMESTAMP = -1, -3
LED = a_partition([BROKER], leader_epoch=1, partition_epoch=1)


def replicate(stage: HandlerStage, *batches: bytes) -> PartitionLog:
    """Replicate the former leader's log and make this broker the leader."""
    stage.update(a_topic("t", a_partition([BROKER, OTHER], leader=OTHER)))
    log = stage.partition("t").log
    for batch in batches:
        log.append_as_follower(memoryview(batch), WALL_MS)
    stage.update(a_topic("t", LED))
    return log


def fetch(stage: HandlerStage, offset: int = 0, isolation_level: int = COMMITTED) -> Any:
    asked = fetch_from(("t", [wanted(0, offset)]), isolation_level=isolation_level)
    (found,) = fetched_in(stage.connect().call(asked))
    assert found.error_code == 0
    return found


def read(found: Any) -> list[int]:
    return [one.offset for one in read_records(bytes(found.records or b""), with_control=True)]


def aborted(found: Any) -> list[tuple[int, int]] | None:
    if found.aborted_transactions is None:
        return None
    return [(one.producer_id, one.first_offset) for one in found.aborted_transactions]


def offset_at(stage: HandlerStage, timestamp: int, isolation_level: int = COMMITTED) -> int:
    asked = list_offsets_of("t", (0, timestamp), isolation_level=isolation_level)
    (found,) = offsets_in(stage.connect().call(asked))
    return int(found.offset)


OPEN_AT_3 = (
    data(0, 1),
    marker(1, 1, COMMIT),
    data(2, 9, is_transactional=False),
    data(3, 2),
    data(4, 9, is_transactional=False),
)


def test_open_transaction_bounds_the_last_stable_offset(stage: HandlerStage) -> None:
    replicate(stage, *OPEN_AT_3)
    found = fetch(stage)
    assert (read(found), aborted(found)) == ([0, 1, 2], [])
    assert (found.high_watermark, found.last_stable_offset) == (5, 3)
    assert read(fetch(stage, 3)) == []
    everything = fetch(stage, isolation_level=0)
    assert (read(everything), aborted(everything)) == ([0, 1, 2, 3, 4], None)


def test_list_offsets_finds_only_offsets_below_an_open_transaction(stage: HandlerStage) -> None:
    replicate(stage, *OPEN_AT_3)
    times = (LATEST, WALL_MS + 2, WALL_MS + 3, MAX_TIMESTAMP)
    assert [offset_at(stage, time) for time in times] == [3, 2, -1, 2]
    assert [offset_at(stage, time, 0) for time in times] == [5, 2, 3, 4]


def test_fetch_lists_aborted_transactions(stage: HandlerStage) -> None:
    replicate(
        stage,
        data(0, 1),
        data(1, 2),
        marker(2, 1, ABORT),
        data(3, 1),
        marker(4, 2, COMMIT),
        marker(5, 1, ABORT),
        data(6, 9, is_transactional=False),
    )
    found = fetch(stage)
    assert (read(found), found.last_stable_offset) == ([0, 1, 2, 3, 4, 5, 6], 7)
    assert aborted(found) == [(1, 0), (1, 3)]
    assert aborted(fetch(stage, 3)) == [(1, 3)]
    assert aborted(fetch(stage, 6)) == []


def test_read_committed_returns_all_records_of_logs_without_transactions(
    stage: HandlerStage,
) -> None:
    stage.update(a_topic("t", a_partition([BROKER])))
    assert (read(fetch(stage)), aborted(fetch(stage))) == ([], [])
    stage.connect().call(produce_to(("t", 0, a_batch(b"a")), acks=1))
    found = fetch(stage)
    assert (read(found), aborted(found), found.last_stable_offset) == ([0], [], 1)
    assert stage.partition("t").log.transactions.are_none


def test_transaction_index_has_kafkas_format_and_is_read_after_a_restart(
    stage: HandlerStage, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = replicate(
        stage, data(0, 1), data(1, 2), marker(2, 1, ABORT), data(3, 9, is_transactional=False)
    )
    index = segment_path(log.directory, 0, TRANSACTION_INDEX_SUFFIX)
    assert read_transactions(index) == [AbortedTransaction(1, 0, 2, 1)]
    log.roll(WALL_MS)
    log.close(flush=False)
    with caplog.at_level(logging.INFO):
        again = reopened(log)
    assert again.transactions.stable_offset(Offset(4), Offset(0)) == 1
    assert again.transactions.aborted_in(0, 4) == [(1, 0)]
    (line,) = [one.getMessage() for one in caplog.records]
    assert line == "t-0: a transaction that begins at offset 1 has not ended yet"


def reopened(log: PartitionLog, *, clean_shutdown: bool = True) -> PartitionLog:
    return PartitionLog.open(
        log.directory,
        log.partition,
        log.options,
        WALL_MS,
        clean_shutdown=clean_shutdown,
        recovery_point=Offset(0),
        log_start_offset=Offset(0),
    )


def test_recovery_adds_aborted_transactions_missing_in_the_index(stage: HandlerStage) -> None:
    log = replicate(stage, data(0, 1), marker(1, 1, ABORT), data(2, 9, is_transactional=False))
    index = segment_path(log.directory, 0, TRANSACTION_INDEX_SUFFIX)
    index.unlink()
    again = reopened(log, clean_shutdown=False)
    assert again.transactions.aborted_in(0, 3) == [(1, 0)]
    assert read_transactions(index) == [AbortedTransaction(1, 0, 1, 2)]
    once_more = reopened(again, clean_shutdown=False)
    assert once_more.transactions.aborted_in(0, 3) == [(1, 0)]


@pytest.mark.parametrize(
    ("end", "stable", "left"), [(1, 0, []), (2, 9, [(1, 0)]), (3, 2, [(1, 0)]), (0, 9, [])]
)
def test_truncation_removes_aborted_transactions_behind_it(
    stage: HandlerStage, end: int, stable: int, left: list[tuple[int, int]]
) -> None:
    log = replicate(stage, data(0, 1), marker(1, 1, ABORT), data(2, 2), marker(3, 2, ABORT))
    log.truncate_to(Offset(end))
    assert log.transactions.stable_offset(Offset(9), Offset(0)) == stable
    assert log.transactions.aborted_in(0, 9) == left
    again = reopened(log, clean_shutdown=False)
    assert again.transactions.aborted_in(0, 9) == left


def test_aborted_transactions_are_deleted_with_their_segments(stage: HandlerStage) -> None:
    log = replicate(stage, data(0, 1), marker(1, 1, ABORT))
    log.roll(WALL_MS)
    log.append_as_follower(memoryview(data(2, 2) + marker(3, 2, ABORT)), WALL_MS)
    assert log.transactions.aborted_in(0, 9) == [(1, 0), (2, 2)]
    log.drop_segments(1)
    assert log.transactions.aborted_in(0, 9) == [(2, 2)]


def test_read_committed_returns_no_records_when_index_and_batches_are_damaged(
    stage: HandlerStage, caplog: pytest.LogCaptureFixture
) -> None:
    log = replicate(stage, data(0, 1), marker(1, 1, ABORT), data(2, 9, is_transactional=False))
    segment_path(log.directory, 0, TRANSACTION_INDEX_SUFFIX).write_bytes(b"\0" * 33)
    path = log.segments[0].file.path
    content = bytearray(path.read_bytes())
    content[len(data(0, 1)) + 30] ^= 1  # in the marker
    path.write_bytes(content)
    log.files.changes += 1  # what was read of the index before is out of date
    with caplog.at_level(logging.ERROR):
        assert (read(fetch(stage)), fetch(stage).last_stable_offset) == ([], 0)
    assert len([one for one in caplog.records if "isolation.level" in one.getMessage()]) == 1
    assert fetch(stage, isolation_level=0).high_watermark == 3


def test_aborted_transaction_is_listed_when_its_marker_is_the_last_replicated_batch(
    stage: HandlerStage,
) -> None:
    log = replicate(stage, data(0, 1), marker(1, 1, ABORT))
    assert aborted(fetch(stage)) == [(1, 0)]
    assert not log.transactions.are_none


def test_marker_is_appended_once_and_indexed_later_when_the_index_cannot_be_written(
    stage: HandlerStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise StorageFailed("no space left")

    log = replicate(stage, data(0, 1))
    with monkeypatch.context() as refusing:
        refusing.setattr("cluster.log.segment_aborts.SegmentAborts._write", refuse)
        with pytest.raises(StorageFailed):
            log.append_as_follower(memoryview(marker(1, 1, ABORT)), WALL_MS)
    assert log.log_end_offset == 2
    log.append_as_follower(memoryview(data(2, 9, is_transactional=False)), WALL_MS)
    part = log.read(Offset(0), 1 << 20, upper_offset=Offset(3), at_least_one_batch=True)
    assert read_headers(part.view()) == [0, 1, 2]
    assert log.transactions.stable_offset(Offset(3), Offset(0)) == 3
    assert log.transactions.aborted_in(0, 3) == [(1, 0)]
    path = segment_path(log.directory, 0, TRANSACTION_INDEX_SUFFIX)
    assert [one.last_offset for one in read_transactions(path)] == [1]


def read_headers(batches: memoryview) -> list[int]:
    return [header.base_offset for header, _ in batches_of(batches)]


def test_replication_continues_when_the_transaction_index_is_damaged(
    stage: HandlerStage, caplog: pytest.LogCaptureFixture
) -> None:
    log = replicate(stage, data(0, 1), marker(1, 1, ABORT), data(2, 1))
    segment_path(log.directory, 0, TRANSACTION_INDEX_SUFFIX).write_bytes(b"damaged")
    log.append_as_follower(memoryview(marker(3, 1, ABORT)), WALL_MS)
    assert log.log_end_offset == 4
    assert log.transactions.aborted_in(0, 4) == [(1, 0), (1, 2)]
    assert "rebuilding it from the batches" in caplog.text


@pytest.mark.parametrize("version", range(4, 18))
def test_every_version_of_fetch_lists_aborted_transactions(
    stage: HandlerStage, version: int
) -> None:
    replicate(
        stage, data(0, 1), data(1, 2), marker(2, 1, ABORT), data(3, 9, is_transactional=False)
    )
    topic = "t" if version < 13 else stage.partition("t").topic_id
    for isolation_level, listed in ((COMMITTED, [(1, 0)]), (0, None)):
        asked = fetch_from((topic, [wanted(0)]), isolation_level=isolation_level, version=version)
        (found,) = fetched_in(stage.connect().call(asked))
        assert aborted(found) == listed
        assert read(found) == ([0] if isolation_level else [0, 1, 2, 3])
        assert found.last_stable_offset == (1 if isolation_level else 4)


def test_waiting_fetch_counts_only_committed_bytes_and_wakes_with_the_marker(
    stage: HandlerStage,
) -> None:
    replicate(stage, data(0, 1))
    partition, client = stage.partition("t"), stage.connect()
    size = partition.log.size_bytes
    asked = fetch_from(
        ("t", [wanted(0)]), isolation_level=COMMITTED, min_bytes=size + 1, max_wait_ms=500
    )
    assert client.call(asked) is None
    partition.append(memoryview(a_batch(b"plain" * 50)), 1, WALL_MS, stage.loop.now_ms)
    stage.events.on_appended(partition)
    stage.turn()
    assert client.receive() is None
    partition.append_marker(EndMarker(1, 0, 7, is_commit=False), WALL_MS, stage.loop.now_ms)
    stage.events.on_appended(partition)
    stage.turn()
    (found,) = fetched_in(client.receive())
    assert (read(found), aborted(found)) == ([0, 1, 2], [(1, 0)])
    assert found.last_stable_offset == 3


def aborts(count: int, *, is_nested: bool) -> Iterator[bytes]:
    """A log of aborted transactions of one record, in chunks: one after the other, or nested."""
    kinds = [data(0, 1), marker(0, 1, ABORT)]
    chunk = bytearray()
    for offset in range(2 * count):
        kind, producer = divmod(offset, count) if is_nested else (offset % 2, offset // 2)
        batch = bytearray(kinds[kind])
        batch[:8] = offset.to_bytes(8, "big")
        batch[43:51] = (1 + producer).to_bytes(8, "big")
        stamp_checksum(memoryview(batch))
        chunk += batch
        if len(chunk) > 100_000:
            yield bytes(chunk)
            chunk.clear()
    yield bytes(chunk)


@pytest.mark.slow
@pytest.mark.parametrize("is_nested", [False, True])
def test_consumer_passes_very_many_aborted_transactions(
    stage: HandlerStage, *, is_nested: bool
) -> None:
    """Each answer lists all that overlap its records, as Kafka's: 16 bytes for each."""
    count = 20_000
    log = replicate(stage, *aborts(count, is_nested=is_nested))
    offset = fetches = 0
    aborted_ones: set[int] = set()
    while offset < 2 * count:
        found = fetch(stage, offset)
        assert found.last_stable_offset == log.log_end_offset == 2 * count
        assert len(found.records) <= 1 << 20
        headers = [header for header, _ in batches_of(memoryview(found.records))]
        inside = {each.producer_id for each in headers}
        before, offset = offset, headers[-1].base_offset + 1
        fetches += 1
        overlapping = inside
        if is_nested:  # transaction n begins at offset n and ends at offset count + n
            overlapping = set(range(max(0, before - count) + 1, min(offset, count) + 1))
        of_answer = [each.producer_id for each in found.aborted_transactions]
        assert len(of_answer) == len(overlapping)
        assert set(of_answer) == overlapping
        aborted_ones |= inside
    assert len(aborted_ones) == count
    assert fetches == 3
