"""A broker whose log directory is full: what clients, peers and the controller see of it."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.brokers.storage.full_directories import FullDirectories
from cluster.model.cluster import OfflinePartitions
from cluster.model.errors import ErrorCode
from cluster.model.ids import BrokerId, TopicPartition
from cluster.protocol.peer.control import Acknowledged, AlterPartition, ReportFull
from tests.support.cluster_states import a_partition, a_topic
from tests.support.handler_requests import a_batch, fetched_in, produced_in
from tests.support.handler_stage import BROKER, OTHER, THIRD, HandlerStage
from tests.support.kafka_wire import fetch_from, produce_to, wanted
from tests.support.small_disk import MIB, MeasuredDisk

ALL = [BROKER, OTHER, THIRD]
T0 = TopicPartition("t", 0)
TOPIC = a_topic("t", a_partition(ALL))
FULL = (OfflinePartitions(BROKER, TOPIC.topic_id, (0,)),)
TOTAL = 1_000 * MIB


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> MeasuredDisk:
    return MeasuredDisk(monkeypatch, TOTAL)


@pytest.fixture
def stage(disk: MeasuredDisk, tmp_path: Path) -> Iterator[HandlerStage]:
    with HandlerStage(tmp_path / "one") as made:
        made.update(TOPIC)
        yield made


def look(stage: HandlerStage) -> None:
    stage.core.maintenance.full_directories.look()
    stage.turn()


def reports(stage: HandlerStage) -> list[Any]:
    return [asked for asked in stage.link.asked if isinstance(asked.request, ReportFull)]


def test_records_are_refused_with_the_reason_and_reads_go_on(
    stage: HandlerStage, disk: MeasuredDisk, caplog: pytest.LogCaptureFixture
) -> None:
    client = stage.connect()
    assert produced_in(client.call(produce_to(("t", 0, a_batch()), acks=1)))[0].error_code == 0
    disk.leave(10 * MIB)
    look(stage)
    (refused,) = produced_in(client.call(produce_to(("t", 0, a_batch()), acks=1)))
    assert refused.error_code == ErrorCode.kafka_storage_error
    assert str(stage.directory.path) in refused.error_message
    assert "10.0 MiB of 1000.0 MiB are free" in refused.error_message
    (fetched,) = fetched_in(client.call(fetch_from(("t", [wanted(0)]))))
    assert fetched.error_code == 0
    lines = [r.message for r in caplog.records if r.levelno >= logging.ERROR]
    assert lines == [
        f"log directory {stage.directory.path} is full: 10.0 MiB of 1000.0 MiB are free, 16.0 MiB"
        " of that is the reserve. Its partitions take no records, and other in-sync replicas lead"
        " them, until there is room again"
    ]
    disk.leave(30 * MIB)
    look(stage)
    assert produced_in(client.call(produce_to(("t", 0, a_batch()), acks=1)))[0].error_code == 0
    assert "has room again: 30.0 MiB of 1000.0 MiB are free" in caplog.text


def test_committed_offsets_are_taken_out_of_the_reserve(
    stage: HandlerStage, disk: MeasuredDisk
) -> None:
    offsets = a_topic("__consumer_offsets", a_partition([BROKER]))
    stage.update(offsets)
    disk.leave(10 * MIB)
    look(stage)
    outcomes: list[Any] = []
    stage.core.replication.internal_topics.appends.append(
        TopicPartition("__consumer_offsets", 0), memoryview(a_batch()), outcomes.append
    )
    assert [outcome.code for outcome in outcomes] == [ErrorCode.none]


def test_the_controller_is_told_until_it_says_so_itself(
    stage: HandlerStage, disk: MeasuredDisk
) -> None:
    disk.leave(10 * MIB)
    look(stage)
    (asked,) = reports(stage)
    assert asked.request.full == FULL
    assert str(stage.directory.path) in asked.request.reason

    asked.on_reply(None)  # lost
    stage.pass_time(500)
    (_, again) = reports(stage)
    assert again.request == asked.request

    stage.update(full=FULL, full_brokers=(BROKER,))
    again.on_reply(Acknowledged(ErrorCode.none))
    stage.pass_time(500)
    look(stage)
    assert len(reports(stage)) == 2

    stage.update(controller_epoch=2)  # a new controller knows nothing of it
    assert len(reports(stage)) == 3

    reports(stage)[2].on_reply(Acknowledged(ErrorCode.none))
    stage.update(controller_epoch=2, full=FULL, full_brokers=(BROKER,))
    disk.leave(30 * MIB)
    look(stage)
    stage.pass_time(500)
    assert (reports(stage)[-1].request.full, reports(stage)[-1].request.reason) == ((), "")


def test_old_segments_are_looked_for_every_three_seconds_while_a_directory_is_full(
    stage: HandlerStage, disk: MeasuredDisk
) -> None:
    looks: list[int] = []
    directories = FullDirectories(
        BrokerId(BROKER),
        stage.table,
        lambda *_: None,
        stage.loop,
        16 * MIB,
        lambda: looks.append(stage.loop.now_ms),
    )
    for _ in range(20):
        directories.look()
    assert looks == []
    disk.leave(10 * MIB)
    for _ in range(12):
        directories.look()
    assert len(looks) == 2


def test_a_new_replica_in_a_full_directory_is_reported_too(
    stage: HandlerStage, disk: MeasuredDisk
) -> None:
    disk.leave(10 * MIB)
    look(stage)
    reports(stage)[0].on_reply(Acknowledged(ErrorCode.none))
    stage.update(full=FULL, full_brokers=(BROKER,))
    stage.pass_time(500)
    other = a_topic("u", a_partition(ALL))
    stage.update(other, full=FULL, full_brokers=(BROKER,))
    look(stage)
    stage.pass_time(500)
    assert set(reports(stage)[-1].request.full) == {
        *FULL,
        OfflinePartitions(BROKER, other.topic_id, (0,)),
    }


def test_a_follower_with_a_full_directory_leaves_the_isr_within_seconds(
    stage: HandlerStage, disk: MeasuredDisk
) -> None:
    """And not after `replica.lag.time.max.ms`, for which acks=all would wait."""
    stage.update(full=(OfflinePartitions(BrokerId(THIRD), TOPIC.topic_id, (0,)),))
    stage.connect().call(produce_to(("t", 0, a_batch()), acks=1))
    partition = stage.table.find(T0)
    assert partition is not None
    leader = partition.check_leader()
    leader.on_follower_fetch(BrokerId(OTHER), partition.log.log_end_offset, stage.loop.now_ms)
    stage.pass_time(1_100)
    stage.changes.look_round()
    stage.turn()
    asked = [each.request for each in stage.link.asked if isinstance(each.request, AlterPartition)]
    assert [each.isr for each in asked] == [(BROKER, OTHER)]
