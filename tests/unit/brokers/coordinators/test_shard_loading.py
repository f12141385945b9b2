"""Loading a partition into a shard: all kinds of batches, damage, the order of transactions."""

import logging
import shutil
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from cluster.brokers.coordinators import shard_loading
from cluster.brokers.coordinators.led_shard import LedShard
from cluster.brokers.coordinators.shard_loading import LoadCount, load_steps
from cluster.coordinator.shards.load_times import LoadTimes
from cluster.log.log_reads import LogSlice
from cluster.log.partition_log import PartitionLog
from cluster.model.ids import Offset, TopicPartition
from cluster.records.batch import Compression, read_header
from cluster.records.builder import NewRecord, ProducerIdentity, build_batch
from cluster.runtime.collector import Growth
from tests.support.cluster_states import a_partition, a_topic
from tests.support.examples import examples
from tests.support.handler_stage import BROKER, HandlerStage
from tests.unit.brokers.coordinators.counters import CounterShard
from tests.unit.brokers.coordinators.runtime_stage import coordinator_options, coordinator_ports
from tests.unit.log.log_builder import NOW_MS, SMALL, append, open_log

Pair = tuple[bytes | None, bytes | None]


class Loaded:
    """Stands in for a shard and keeps what is replayed, in order."""

    def __init__(self) -> None:
        self.given: list[Any] = []

    def replay(self, key: bytes | None, value: bytes | None, producer_id: int = -1) -> None:
        self.given.append((key, value) if producer_id == -1 else (key, value, producer_id))

    def replay_marker(self, producer_id: int, *, is_commit: bool) -> None:
        self.given.append((producer_id, is_commit))


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[HandlerStage]:
    with HandlerStage(tmp_path / "data") as made:
        made.update(a_topic("t", a_partition([BROKER]), configs={"segment.bytes": "1000"}))
        yield made


def write(stage: HandlerStage, *pairs: Pair, **options: Any) -> None:
    """Append one batch as a follower does, which accepts control batches too."""
    log = stage.partition("t").log
    records = [NewRecord(value, key, 1_000) for key, value in pairs]
    batch = build_batch(records, base_offset=log.log_end_offset, leader_epoch=0, **options)
    log.append_as_follower(memoryview(batch), stage.clock.wall_ms())


def marker(stage: HandlerStage, producer_id: int, kind: int) -> None:
    write(
        stage,
        (struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0)),
        producer=ProducerIdentity(producer_id, 0, -1),
        is_control=True,
        is_transactional=True,
    )


def load(stage: HandlerStage, buffer_bytes: int = 1 << 20) -> tuple[list[Any], LoadCount, int]:
    """What was replayed, the count, and the number of steps."""
    shard: Any = Loaded()
    count = LoadCount()
    steps = sum(1 for _ in load_steps(stage.partition("t"), shard, buffer_bytes, count))
    return shard.given, count, steps


def test_loading_an_empty_log_takes_no_steps(stage: HandlerStage) -> None:
    given, count, steps = load(stage)
    assert (given, count.records, steps) == ([], 0, 0)


@pytest.mark.parametrize("codec", Compression)
def test_the_newest_record_of_each_key_is_replayed(stage: HandlerStage, codec: Compression) -> None:
    write(stage, (b"a", b"1"), (b"b", b"1"), codec=codec)
    write(stage, (b"a", b"2"), (b"c", None), codec=codec)
    given, count, _ = load(stage)
    assert given == [(b"a", b"2"), (b"b", b"1"), (b"c", None)]
    assert count.records == 4


def test_a_log_of_several_segments_is_replayed_in_pieces_of_any_size(stage: HandlerStage) -> None:
    for number in range(200):
        write(stage, (b"%d" % (number % 3), b"%d" % number))
    assert len(stage.partition("t").log.segments) > 3
    for buffer_bytes in (1, 150, 1 << 20):
        given, count, _ = load(stage, buffer_bytes)
        assert dict(given) == {b"0": b"198", b"1": b"199", b"2": b"197"}
        assert count.records == 200


def test_a_large_batch_is_replayed_in_many_steps(stage: HandlerStage) -> None:
    write(stage, *((b"%d" % number, b"value") for number in range(1_000)))
    given, _, steps = load(stage)
    assert len(given) == 1_000
    assert steps >= 20


def test_records_are_replayed_when_too_many_keys_are_collected(
    stage: HandlerStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_loading, "KEYS_MAX", 10)
    write(stage, *((b"%d" % number, b"old") for number in range(60)))
    write(stage, (b"7", b"new"))
    given, count, _ = load(stage)
    assert given == [*((b"%d" % number, b"old") for number in range(60)), (b"7", b"new")]
    assert count.records == 61


def test_transactions_are_replayed_in_the_order_of_the_log(stage: HandlerStage) -> None:
    producer = ProducerIdentity(7, 0, 0)
    write(stage, (b"a", b"1"))
    write(stage, (b"a", b"2"), (b"a", b"3"), producer=producer, is_transactional=True)
    write(stage, (b"a", b"4"))
    marker(stage, 7, 1)
    write(stage, (b"b", b"5"))
    marker(stage, 8, 0)
    marker(stage, 9, 2)  # an unknown kind
    given, _, _ = load(stage)
    assert given == [
        (b"a", b"1"),
        (b"a", b"2", 7),
        (b"a", b"3", 7),
        (b"a", b"4"),
        (7, True),
        (b"b", b"5"),
        (8, False),
    ]


def test_a_damaged_batch_is_skipped_and_logged(
    stage: HandlerStage, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(3):
        write(stage, (b"%d" % number, b"value"))
    (segment,) = stage.partition("t").log.segments
    content = bytearray(segment.file.path.read_bytes())
    position = content.index(b"value", content.index(b"value") + 1)
    with segment.file.path.open("r+b") as file:
        file.seek(position)
        file.write(b"wrong")
    with caplog.at_level(logging.ERROR):
        given, count, _ = load(stage)
    assert given == [(b"0", b"value"), (b"2", b"value")]
    assert count.damaged_batches == 1
    (line,) = caplog.messages
    assert "offset 1 of t-0, which is damaged" in line


def test_loading_waits_for_a_damaged_batch_that_is_being_repaired(stage: HandlerStage) -> None:
    for number in range(30):
        write(stage, (b"%d" % number, b"value"))
    log = stage.partition("t").log
    path = log.segments[0].file.path
    before = path.read_bytes()
    path.write_bytes(before[:-1] + b"?")
    log.damage.is_being_repaired = True
    shard: Any = Loaded()
    count = LoadCount()
    steps = load_steps(stage.partition("t"), shard, 1, count)
    for _ in range(100):
        next(steps)
    last = len(shard.given)
    assert last < 30
    path.write_bytes(before)
    log.damage.is_being_repaired = False
    for _ in steps:
        pass
    assert [key for key, _ in shard.given] == [b"%d" % number for number in range(30)]
    assert count.damaged_batches == 0


def test_records_appended_during_loading_are_not_replayed(stage: HandlerStage) -> None:
    shard: Any = Loaded()
    for number in range(10):
        write(stage, (b"%d" % number, b"old"))
    steps = load_steps(stage.partition("t"), shard, 1, LoadCount())
    next(steps)
    write(stage, (b"new", b"new"))
    for _ in steps:
        pass
    assert [key for key, _ in shard.given] == [b"%d" % number for number in range(10)]


@pytest.mark.parametrize("steps_before", range(1, 6))
def test_loading_stops_when_leadership_is_lost(stage: HandlerStage, steps_before: int) -> None:
    for number in range(10):
        write(stage, (b"%d" % number, b"1"))
    shard = CounterShard()
    options = coordinator_options("t", load_buffer_bytes=1)
    ports = coordinator_ports(stage)
    led = LedShard(
        stage.partition("t"), shard, options, ports, Growth(), LoadTimes(), lambda _, __: None
    )
    steps = led.loading_steps()
    for _ in range(steps_before):
        next(steps)
    led.close()
    loaded = shard.load_report.records
    assert list(steps) == []
    assert (shard.load_report.records, led.is_loading) == (loaded, True)


LAST_OFFSET_DELTA = range(23, 27)
"""Where it is in a batch."""


class StoredPartition:
    """Stands in for a partition: a reopened log of which nothing has been checked yet."""

    id = TopicPartition("t", 0)

    def __init__(self, log: PartitionLog) -> None:
        self.log = log

    def read(self, offset: Offset, max_bytes: int, **limits: Any) -> LogSlice:
        return self.log.read(offset, max_bytes, **limits)


@given(data=st.data())
@examples(30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_flipped_bit_in_a_closed_file_loses_one_batch_at_most(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    home = tmp_path_factory.mktemp("flipped")
    log = open_log(home, replace(SMALL, segment_bytes=600))
    for number in range(30):
        records = [NewRecord(b"value", b"%02d" % number, NOW_MS)]
        append(log, memoryview(build_batch(records)))
    log.close(flush=True)
    path = data.draw(st.sampled_from([segment.file.path for segment in log.segments]))
    content = bytearray(path.read_bytes())
    position = data.draw(st.integers(0, len(content) - 1))
    size_bytes = read_header(content).size_bytes  # of every batch
    damaged = int(path.stem) + position // size_bytes
    content[position] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)

    opened: Any = StoredPartition(open_log(home, replace(SMALL, segment_bytes=600)))
    shard: Any = Loaded()
    count = LoadCount()
    for _ in load_steps(opened, shard, data.draw(st.sampled_from([1, 300, 1 << 20])), count):
        pass
    found = {int(key) for key, _ in shard.given}
    assert found >= set(range(damaged))
    # A wrong offset or length may also lose the rest of the file.
    if position % size_bytes not in (*range(17), *LAST_OFFSET_DELTA):
        assert found == set(range(30)) - {damaged}
        assert count.damaged_batches == 1
    shutil.rmtree(home)
