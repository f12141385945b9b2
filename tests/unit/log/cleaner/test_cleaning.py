"""Single cleanings: which records are kept, and how unexpected files are handled."""

import errno
import os
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pytest

from cluster.log.cleaner.cleaning_process import work
from cluster.log.cleaner.log_work import CleanerLimits, find_work, order_of, swap_in
from cluster.log.cleaner.order import CLEANED, DAMAGED, FAILED
from cluster.log.files import LogFiles
from cluster.log.partition_log import PartitionLog
from cluster.log.segment_paths import TRANSACTION_INDEX_SUFFIX, segment_path
from cluster.log.transaction_index import read_transactions
from cluster.model.ids import Offset
from cluster.records.batch import Compression
from cluster.records.builder import ProducerIdentity
from tests.unit.log.cleaner.cleaned_log import (
    COMPACTED,
    RETENTION_MS,
    UNLIMITED,
    clean,
    content,
    end_transaction,
    headers,
    put,
    records,
    roll,
)
from tests.unit.log.log_builder import NOW_MS, max_timestamp_offset, open_log


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    return open_log(tmp_path, COMPACTED)


def messages_of(log: PartitionLog, limits: CleanerLimits = UNLIMITED) -> list[Any]:
    """A helper's answers to the log's order, without a swap."""
    cleanable = find_work(log, log.log_end_offset, NOW_MS)
    assert cleanable is not None
    messages: list[Any] = []
    work(order_of(log, cleanable, limits, NOW_MS).to_message(), messages.append)
    return messages


def leftovers(log: PartitionLog) -> list[str]:
    return [path.name for path in log.directory.iterdir() if path.suffix == ".cleaned"]


def test_cleaning_removes_records_without_a_key(log):
    put(log, [(None, b"old"), (b"k", b"v")])
    roll(log)
    put(log, [(b"active", bytes(800))])
    clean(log)
    assert [one.key for one in records(log)] == [b"k", b"roll", b"active"]


def test_the_last_batch_before_the_active_segment_stays_so_that_followers_reach_the_end(log):
    put(log, [(b"k", b"1")])
    put(log, [(b"k", b"2" * 700)])
    put(log, [(None, b"without a key")])
    put(log, [(b"x", bytes(800))])
    end = log.segments[-1].base_offset
    clean(log)
    last = [header for header in headers(log) if header.last_offset < end][-1]
    assert (last.last_offset, last.record_count) == (end - 1, 0)


def test_the_newest_timestamp_is_found_where_its_batch_was_emptied(log):
    producer = ProducerIdentity(7, 0, 0)
    put(log, [(b"k", b"v")], producer=producer, timestamp_ms=NOW_MS + 5_000)
    put(log, [(b"k", b"w" * 700)], timestamp_ms=NOW_MS)
    put(log, [(b"active", bytes(800))], timestamp_ms=NOW_MS)
    clean(log)
    assert [header.record_count for header in headers(log)] == [0, 1, 1]
    found = max_timestamp_offset(log, upper_offset=log.log_end_offset)
    assert found is not None
    assert found.timestamp_ms == NOW_MS


def test_a_batch_larger_than_the_buffers_is_cleaned(log):
    big = [(b"k%d" % n, os.urandom(300)) for n in range(60)]
    put(log, big, codec=Compression.GZIP)
    put(log, [(b"k0", b"new")])
    put(log, [(b"active", bytes(800))])
    clean(log, limits=CleanerLimits(1 << 20, 0.9, 100, float("inf")))
    kept = records(log)
    assert [one.key for one in kept] == [key for key, _ in big[1:]] + [b"k0", b"active"]


def test_small_segments_are_joined_and_old_files_are_gone(log):
    for number in range(10):
        put(log, [(b"hot", bytes(500)), (b"own-%d" % number, b"v")])
    before = len(log.segments)
    clean(log)
    log.cleaned_to = Offset(0)
    clean(log)
    assert before == 10
    assert len(log.segments) < 4
    names = {path.name for path in log.directory.iterdir() if path.suffix == ".log"}
    assert names == {f"{one.base_offset:020d}.log" for one in log.segments}
    assert log.size_bytes == len(content(log))


def test_cleaning_removes_aborted_records_before_their_marker(log):
    writer = ProducerIdentity(9, 0, 0)
    put(log, [(b"k", b"aborted")], producer=writer, is_transactional=True)
    marker = end_transaction(log, writer, commits=False)
    put(log, [(b"k", b"committed")])
    put(log, [(b"fill", bytes(800))])
    put(log, [(b"active", bytes(800))])
    clean(log)
    assert [one.value for one in records(log)][:1] == [b"committed"]
    assert marker in [header.base_offset for header in headers(log) if header.is_control]
    path = segment_path(log.directory, 0, TRANSACTION_INDEX_SUFFIX)
    assert [entry.last_offset for entry in read_transactions(path)] == [marker]
    # A later cleaning dates the marker, and one after that drops it.
    log.producers.entries.clear()
    for wall_ms in (NOW_MS, NOW_MS, NOW_MS + RETENTION_MS):
        log.cleaned_to = Offset(0)
        clean(log, wall_ms=wall_ms)
    assert [header for header in headers(log) if header.is_control] == []
    assert read_transactions(path) == []


def test_cleaning_stops_before_an_open_transaction(log):
    put(log, [(b"k", b"1"), (b"k", b"2")])
    writer = ProducerIdentity(9, 0, 0)
    open_at = put(log, [(b"k", b"3")], producer=writer, is_transactional=True)
    for number in range(4):
        put(log, [(b"hot", bytes(800)), (b"k", b"%d" % number)])
    before = content(log)
    done = clean(log)
    assert done is None or done.next_dirty_offset <= open_at
    assert content(log) == before


def test_cleaning_stops_before_a_transaction_whose_marker_is_not_committed(log):
    writer = ProducerIdentity(9, 0, 0)
    put(log, [(b"k", b"aborted")], producer=writer, is_transactional=True)
    put(log, [(b"fill", bytes(800))])
    put(log, [(b"fill", bytes(800))])
    marker = end_transaction(log, writer, commits=False)
    put(log, [(b"active", bytes(800))])
    before = content(log)
    assert clean(log, high_watermark=marker) is None
    assert content(log) == before
    assert clean(log) is not None
    assert b"aborted" not in [one.value for one in records(log)]


def test_damaged_index_of_aborted_transactions_is_tried_again_later(log):
    a_dirty_log(log)
    before = content(log)
    cleanable = find_work(log, log.log_end_offset, NOW_MS)
    assert cleanable is not None
    order = order_of(log, cleanable, UNLIMITED, NOW_MS).to_message()
    segment_path(log.directory, 0, TRANSACTION_INDEX_SUFFIX).write_bytes(b"damaged")
    messages: list[Any] = []
    work(order, messages.append)
    (message,) = messages
    assert message["kind"] == FAILED
    assert "index of aborted transactions is damaged" in message["reason"]
    assert content(log) == before


def a_dirty_log(log: PartitionLog) -> None:
    for number in range(6):
        put(log, [(b"hot", bytes(500)), (b"own-%d" % number, b"v")])


def damage(path: Path, position: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(content)


@pytest.mark.parametrize(
    ("position", "content", "words"),
    [
        (200, b"\xff\xff", "checksum of the batch at offset"),
        (16, b"\x07", "has no batch at position 0"),
        (8, b"\x7f", "ends inside the batch at position 0"),
    ],
)
def test_a_damaged_batch_leaves_the_log_as_it_is(log, position, content, words):
    a_dirty_log(log)
    path = log.segments[1].file.path
    damage(path, position, content)
    (message,) = messages_of(log)
    assert (message["kind"], words in message["reason"]) == (DAMAGED, True)
    assert leftovers(log) == []


def test_a_file_that_changed_its_size_leaves_the_log_as_it_is(log):
    a_dirty_log(log)
    with log.segments[1].file.path.open("ab") as file:
        file.write(b"more")
    (message,) = messages_of(log)
    assert message["kind"] == DAMAGED
    assert "changed during the cleaning" in message["reason"]


def test_a_full_disk_leaves_the_log_as_it_is_and_can_be_tried_again(log):
    a_dirty_log(log)
    before = content(log)
    full = Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
    with patch.object(LogFiles, "write", full):
        (message,) = messages_of(log)
    assert message == {"kind": FAILED, "reason": "No space left on device"}
    assert leftovers(log) == []
    assert content(log) == before
    assert clean(log) is not None


def test_cleaning_removes_files_of_an_interrupted_one(log):
    a_dirty_log(log)
    stray = log.directory / f"{3:020d}.log.cleaned"
    stray.write_bytes(b"from a helper that was killed")
    clean(log)
    assert not stray.exists()


def test_a_batch_with_too_many_keys_names_the_setting_to_raise(log):
    put(log, [(b"key-%d" % n, b"v") for n in range(10)])
    put(log, [(b"x", bytes(800))])
    put(log, [(b"active", bytes(800))])
    (message,) = messages_of(log, CleanerLimits(100, 0.9, 4096, float("inf")))
    assert message["kind"] == DAMAGED
    assert "log.cleaner.dedupe.buffer.size" in message["reason"]


def test_swap_does_nothing_when_a_segment_was_deleted(log):
    a_dirty_log(log)
    messages = messages_of(log)
    assert [message["kind"] for message in messages[:-1]] == [CLEANED] * (len(messages) - 1)
    log.drop_segments(1)
    before = content(log)
    assert not swap_in(log, messages[0]["sources"])
    assert content(log) == before


def test_a_cleaned_segment_keeps_the_age_of_its_newest_source(log):
    a_dirty_log(log)
    sources = [one.file.path for one in log.segments[:-1]]
    for number, path in enumerate(sources):
        os.utime(path, (1_000_000 + number, 1_000_000 + number))
    clean(log)
    assert int(log.segments[-2].file.path.stat().st_mtime) == 1_000_000 + len(sources) - 1


def test_truncation_into_cleaned_segments_makes_later_records_dirty(log):
    a_dirty_log(log)
    done = clean(log)
    assert done is not None
    cut = Offset(done.next_dirty_offset - 3)
    log.truncate_to(cut)
    assert log.cleaned_to <= cut
    put(log, [(b"again", b"v")])
    assert records(log)[-1].key == b"again"


def test_segments_that_were_emptied_are_no_loss_after_a_crash(log, tmp_path, caplog):
    for number in range(4):
        put(log, [(b"hot", bytes(700)), (b"hot", b"%d" % number)])
        roll(log)
    clean(log)
    empty = [one.base_offset for one in log.segments[:-1] if not one.file.size_bytes]
    assert len(empty) > 1
    before, end = records(log), log.log_end_offset
    del log
    for is_clean in (False, True):
        again = open_log(tmp_path, COMPACTED, clean=is_clean)
        assert records(again) == before
        assert again.log_end_offset == end
        again.close(flush=False)
        del again
    assert [line for line in caplog.messages if "lost" in line] == []
