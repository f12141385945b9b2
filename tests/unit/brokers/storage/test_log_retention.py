"""Retention over real logs: what is old or too much goes, the log start moves and is remembered."""

import errno
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cluster.brokers.metrics.topic import CONFIGS
from cluster.brokers.replication.partition import Partition
from cluster.brokers.storage.log_retention import LogRetention
from cluster.config.broker import LOG_RETENTION_CHECK_INTERVAL_MS
from cluster.log.checkpoints import LOG_START_OFFSETS, read_offsets
from cluster.log.files import LogFiles
from cluster.model.ids import Offset, TopicPartition
from cluster.model.topics import METRICS_TOPIC
from cluster.protocol.api import ApiKey
from cluster.records.builder import NewRecord, build_batch
from cluster.records.reader import read_records
from cluster.runtime.slices import Slices
from tests.support.cluster_states import a_partition, a_topic
from tests.support.handler_stage import BROKER, OTHER, HandlerStage
from tests.support.kafka_wire import request

ALONE = a_partition([BROKER])
T0 = TopicPartition("t", 0)
HOUR_MS = 3_600_000
SMALL_SEGMENTS = {"segment.bytes": "300"}
"""Two batches of one record each."""


class Retaining:
    """Retention on the replicas of a stage."""

    def __init__(self, stage: HandlerStage) -> None:
        self.stage = stage
        self.slices = Slices(stage.clock.monotonic_us, stage.loop.next_turn, budget_us=0)
        """A step in each turn."""
        self.retention = LogRetention(stage.table, stage.events, self.slices, stage.clock.wall_ms)

    def create(self, state: Any = ALONE, **configs: str) -> Partition:
        named = {name.replace("_", "."): value for name, value in configs.items()}
        self.stage.update(a_topic("t", state, configs=SMALL_SEGMENTS | named))
        return self.stage.partition("t")

    def append(self, count: int, *, age_ms: int = 0, has_timestamp: bool = True) -> None:
        partition, wall_ms = self.stage.partition("t"), self.stage.clock.wall_ms()
        for _ in range(count):
            record = NewRecord(b"x" * 50, b"key", wall_ms - age_ms if has_timestamp else -1)
            partition.append(memoryview(build_batch([record])), 1, wall_ms, self.stage.loop.now_ms)

    def check(self) -> int:
        """Run a whole check, like at the end of an interval; returns the number of its turns."""
        self.retention.on_tick()
        return self.finish()

    def finish(self) -> int:
        turns = 0
        while not self.slices.is_idle:
            self.stage.turn()
            turns += 1
        self.stage.turn()
        return turns


@pytest.fixture
def retaining(tmp_path: Path) -> Iterator[Retaining]:
    with HandlerStage(tmp_path) as stage:
        yield Retaining(stage)


def starts_of(partition: Partition) -> list[int]:
    return [segment.base_offset for segment in partition.log.segments]


def offsets_in(partition: Partition) -> list[int]:
    log, found = partition.log, []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        part = log.read(offset, 1 << 20, upper_offset=log.log_end_offset, at_least_one_batch=True)
        found += [record.offset for record in read_records(part.view())]
        offset = part.next_offset
    return found


def test_segments_go_when_their_newest_record_is_too_old(retaining: Retaining) -> None:
    partition = retaining.create(retention_ms=str(HOUR_MS))
    retaining.append(6)
    retaining.check()
    assert partition.log.log_start_offset == 0
    retaining.stage.pass_time(HOUR_MS)
    retaining.append(4)
    retaining.check()
    assert partition.log.log_start_offset == 0, "not older than an hour, but as old"
    retaining.stage.pass_time(1)
    retaining.check()
    assert partition.log.log_start_offset == starts_of(partition)[0] == 6
    assert offsets_in(partition) == [6, 7, 8, 9]


def test_a_restarted_broker_deletes_nothing_before_it_knows_what_a_topic_keeps(
    tmp_path: Path,
) -> None:
    settings = {"log.retention.ms": str(HOUR_MS), "log.segment.bytes": "300"}
    with HandlerStage(tmp_path, settings) as stage:
        before = Retaining(stage)
        before.create(retention_ms="-1")
        before.append(6)
        stage.table.close()
    with HandlerStage(tmp_path, settings) as stage:
        after = Retaining(stage)
        stage.pass_time(2 * HOUR_MS)
        after.check()
        stage.core.foundation.live.replace(stage.core.foundation.live.now)
        after.check()
        assert offsets_in(stage.partition("t")) == [0, 1, 2, 3, 4, 5]
        stage.update(a_topic("t", ALONE, configs={"retention.ms": "-1"}))
        after.check()
        assert offsets_in(stage.partition("t")) == [0, 1, 2, 3, 4, 5]
        stage.update(a_topic("t", ALONE))
        after.check()
        assert offsets_in(stage.partition("t")) == []


def test_an_active_segment_that_is_too_old_is_rolled_first(retaining: Retaining) -> None:
    partition = retaining.create(retention_ms=str(HOUR_MS))
    retaining.append(5)
    retaining.stage.pass_time(HOUR_MS + 1)
    retaining.check()
    assert starts_of(partition) == [5]
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (5, 5)
    retaining.append(1)
    assert offsets_in(partition) == [5]
    retaining.check()
    assert starts_of(partition) == [5]


def test_the_oldest_go_when_the_log_is_too_large(retaining: Retaining) -> None:
    partition = retaining.create(retention_bytes="500", retention_ms="-1")
    retaining.append(20)
    before = partition.log.size_bytes
    segment_bytes = partition.log.segments[0].file.size_bytes
    retaining.check()
    assert partition.log.size_bytes == before - segment_bytes * ((before - 500) // segment_bytes)
    assert 500 <= partition.log.size_bytes < 500 + segment_bytes


def test_records_without_timestamps_are_as_old_as_their_file(retaining: Retaining) -> None:
    partition = retaining.create(retention_ms=str(HOUR_MS))
    retaining.append(6, has_timestamp=False)
    now_s = retaining.stage.clock.wall_ms() / 1000
    for segment, age_s in zip(partition.log.segments, (7200, 3601, 3500), strict=True):
        os.utime(segment.file.path, (now_s - age_s, now_s - age_s))
    retaining.check()
    assert starts_of(partition) == [4]


def test_a_compacted_topic_loses_only_what_lies_before_its_log_start(retaining: Retaining) -> None:
    partition = retaining.create(cleanup_policy="compact", retention_ms="0", retention_bytes="0")
    retaining.append(6, age_ms=HOUR_MS)
    partition.log.advance_log_start_offset(Offset(5))
    retaining.check()
    assert starts_of(partition) == [4]
    assert partition.log.log_start_offset == 5


def test_a_follower_deletes_as_well_but_nothing_uncommitted(retaining: Retaining) -> None:
    partition = retaining.create(a_partition([OTHER, BROKER]), retention_ms="1")
    records = [
        build_batch([NewRecord(b"x" * 50, None, 1_000)], base_offset=offset) for offset in range(6)
    ]
    for batch in records:
        partition.log.append_as_follower(memoryview(batch), retaining.stage.clock.wall_ms())
    retaining.check()
    assert starts_of(partition)[0] == 0
    partition.learn_high_watermark(Offset(4))
    retaining.check()
    assert partition.log.log_start_offset == starts_of(partition)[0] == 4
    assert partition.log.log_start_offset <= partition.high_watermark


def test_consumers_below_the_new_start_are_told(retaining: Retaining) -> None:
    retaining.create(retention_ms="1")
    retaining.append(4, age_ms=HOUR_MS)
    retaining.check()
    answer = retaining.stage.connect().call(
        request(
            ApiKey.LIST_OFFSETS,
            9,
            replica_id=-1,
            isolation_level=0,
            topics=[
                {
                    "name": "t",
                    "partitions": [
                        {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -2}
                    ],
                }
            ],
            timeout=1_000,
        )
    )
    assert answer.topics[0].partitions[0].offset == 4


def test_the_log_start_is_written_down(retaining: Retaining, tmp_path: Path) -> None:
    retaining.create(retention_ms="1")
    retaining.append(5, age_ms=HOUR_MS)
    retaining.check()
    retaining.stage.table.write_checkpoints()
    assert read_offsets(tmp_path / LOG_START_OFFSETS) == {T0: 5}


@pytest.mark.parametrize(
    ("configs", "line"),
    [
        (
            {"retention_ms": "1000"},
            "t-0: deleted 2 segments, offsets 0 to 3, due to log retention time 1000ms breach based"
            " on the largest record timestamp in the segment",
        ),
        (
            {"retention_bytes": "0"},
            "t-0: deleted 2 segments, offsets 0 to 3, due to log retention size 0 breach."
            " Log size after deletion will be 0.",
        ),
    ],
)
def test_one_line_says_what_went_and_why(
    retaining: Retaining, caplog: pytest.LogCaptureFixture, configs: dict[str, str], line: str
) -> None:
    retaining.create(**configs)
    retaining.append(4, age_ms=HOUR_MS)
    with caplog.at_level(logging.INFO, "cluster.brokers.storage.log_retention"):
        retaining.check()
        retaining.check()
    assert [record.getMessage() for record in caplog.records] == [line]


def test_a_timestamp_in_the_future_that_keeps_a_log_is_told_once(
    retaining: Retaining, caplog: pytest.LogCaptureFixture
) -> None:
    partition = retaining.create(
        retention_ms=str(HOUR_MS), message_timestamp_after_max_ms=str(2**62)
    )
    retaining.append(2, age_ms=-48 * HOUR_MS)
    retaining.append(6)
    retaining.stage.pass_time(2 * HOUR_MS)
    with caplog.at_level(logging.WARNING):
        retaining.check()
        retaining.check()
    assert partition.log.log_start_offset == 0
    (line,) = [record.getMessage() for record in caplog.records]
    assert re.search(r"t-0: the segment at offset 0 has a timestamp in the future, \d+: no", line)
    retaining.stage.pass_time(48 * HOUR_MS)
    retaining.check()
    assert partition.log.log_start_offset == 8


def test_a_clock_that_was_set_back_keeps_the_log_and_is_told(
    retaining: Retaining, caplog: pytest.LogCaptureFixture
) -> None:
    partition = retaining.create(retention_ms=str(HOUR_MS))
    retaining.append(6)
    retaining.stage.clock.pass_time(-5 * HOUR_MS)
    with caplog.at_level(logging.WARNING):
        retaining.check()
    assert partition.log.log_start_offset == 0
    assert "has a timestamp in the future" in caplog.text


@contextmanager
def a_disk_that_refuses(number: int, reason: str) -> Iterator[None]:
    def refuse(*_: object, **__: object) -> int:
        raise OSError(number, reason)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LogFiles, "open", staticmethod(refuse))
        yield


def test_a_full_disk_is_told_once_and_tried_again(
    retaining: Retaining, caplog: pytest.LogCaptureFixture
) -> None:
    """The log cannot be rolled: no new segment, so the active one stays."""
    partition = retaining.create(retention_ms="1")
    retaining.append(1, age_ms=HOUR_MS)
    full = a_disk_that_refuses(errno.ENOSPC, "No space left on device")
    with full, caplog.at_level(logging.ERROR):
        retaining.check()
        retaining.check()
    (line,) = [record.getMessage() for record in caplog.records]
    assert "t-0: cannot delete old segments" in line
    assert "No space left on device; it will be retried" in line
    assert offsets_in(partition) == [0]
    retaining.check()
    assert partition.log.log_start_offset == 1


def test_a_directory_that_became_read_only_is_given_up(retaining: Retaining) -> None:
    partition = retaining.create(retention_ms="1")
    retaining.append(1, age_ms=HOUR_MS)
    with a_disk_that_refuses(errno.EROFS, "Read-only file system"):
        retaining.check()
    assert partition.is_offline
    assert retaining.stage.table.find(T0) is None


@pytest.mark.slow
def test_many_segments_take_many_turns(retaining: Retaining) -> None:
    partition = retaining.create(retention_ms="1000")
    retaining.append(1_500, age_ms=HOUR_MS)
    retaining.append(1)
    assert len(partition.log.segments) > 700
    assert retaining.check() > 3
    assert offsets_in(partition) == [1_500]


@pytest.mark.slow
def test_a_topic_that_is_deleted_meanwhile_is_left_alone(retaining: Retaining) -> None:
    retaining.create(retention_ms="1000")
    retaining.append(1_500, age_ms=HOUR_MS)
    retaining.retention.on_tick()
    retaining.stage.update(deleted=("t",))
    retaining.finish()
    assert retaining.stage.table.find(T0) is None


def test_the_metric_topic_keeps_a_day_and_no_more(retaining: Retaining) -> None:
    stage = retaining.stage
    stage.update(a_topic(METRICS_TOPIC, ALONE, configs=CONFIGS))
    partition = stage.partition(METRICS_TOPIC)
    day_ms, check_ms = 24 * HOUR_MS, stage.settings[LOG_RETENTION_CHECK_INTERVAL_MS]
    begin_ms = stage.clock.wall_ms()
    for _ in range(3 * day_ms // check_ms):
        stage.clock.pass_time(check_ms)
        wall_ms = stage.clock.wall_ms()
        batch = build_batch([NewRecord(b"metrics", None, wall_ms)])
        partition.append(memoryview(batch), 1, wall_ms, stage.loop.now_ms)
        retaining.check()
        part = partition.log.read(
            partition.log.log_start_offset,
            1,
            upper_offset=partition.log.log_end_offset,
            at_least_one_batch=True,
        )
        oldest_ms = next(iter(read_records(part.view()))).timestamp_ms
        age_ms = wall_ms - oldest_ms
        assert age_ms <= day_ms + 30 * 60_000 + check_ms
        assert age_ms >= min(day_ms, wall_ms - begin_ms) - check_ms
