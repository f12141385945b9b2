"""A broker with two log directories of which one fails: what clients and the controller see."""

import errno
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cluster.brokers.storage.checkpoint_writer import CheckpointWriter
from cluster.log.log_directory import LogDirectory
from cluster.model.cluster import OfflinePartitions
from cluster.model.errors import ErrorCode, StorageFailed
from cluster.model.ids import BrokerId, TopicPartition
from cluster.protocol.api import ApiKey
from cluster.protocol.peer.control import Acknowledged, ReportOffline
from cluster.runtime.background_thread import run_now
from tests.support.cluster_states import a_partition, a_topic
from tests.support.handler_requests import a_batch, fetched_in, list_offsets_of, produced_in
from tests.support.handler_stage import BROKER, OTHER, THIRD, HandlerStage
from tests.support.kafka_wire import fetch_from, metadata_request, produce_to, request, wanted

ALL = [BROKER, OTHER, THIRD]
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
TOPIC = a_topic("t", a_partition(ALL), a_partition(ALL))


def failure_of(number: int) -> StorageFailed:
    failure = StorageFailed(f"cannot write: {os.strerror(number)}")
    failure.__cause__ = OSError(number, os.strerror(number))
    return failure


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[HandlerStage]:
    with HandlerStage(tmp_path / "one", more_directories=[tmp_path / "two"]) as made:
        yield made


def directory_of(stage: HandlerStage, partition: TopicPartition) -> LogDirectory:
    directory = stage.table.directory_of(partition)
    assert directory is not None
    return directory


def reports(stage: HandlerStage) -> list[Any]:
    return [asked for asked in stage.link.asked if isinstance(asked.request, ReportOffline)]


def fail(stage: HandlerStage, partition: TopicPartition = T0) -> LogDirectory:
    """The disk under a partition fails, as the next write notices."""
    directory = directory_of(stage, partition)
    stage.table.note_failure(partition, failure_of(errno.EIO))
    stage.turn()
    return directory


def test_only_its_own_partitions_are_offline(stage: HandlerStage) -> None:
    stage.update(TOPIC)
    assert directory_of(stage, T0) is not directory_of(stage, T1)
    client = stage.connect()
    fail(stage)

    produced = produced_in(
        client.call(produce_to(("t", 0, a_batch()), ("t", 1, a_batch()), acks=1))
    )
    assert [p.error_code for p in produced] == [ErrorCode.kafka_storage_error, 0]
    fetched = fetched_in(client.call(fetch_from(("t", [wanted(0), wanted(1)]))))
    assert [p.error_code for p in fetched] == [ErrorCode.kafka_storage_error, 0]
    (listed,) = client.call(list_offsets_of("t", (0, -1), (1, -1))).topics
    assert [p.error_code for p in listed.partitions] == [ErrorCode.kafka_storage_error, 0]
    epochs = client.call(
        request(
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            4,
            replica_id=-1,
            topics=[
                {
                    "topic": "t",
                    "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}],
                }
            ],
        )
    )
    assert epochs.topics[0].partitions[0].error_code == ErrorCode.kafka_storage_error
    assert stage.storage_failures == []


def refuse(*_: object) -> int:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.parametrize("call", ["pwritev", "sync_data"])
def test_disk_that_fails_an_append_or_a_sync_takes_only_its_directory_offline(
    stage: HandlerStage, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    for directory in stage.directories:
        directory.files.sees_each_access = True
    alone = a_partition([BROKER])
    stage.update(a_topic("t", alone, alone, configs={"flush.messages": "1"}))
    failing, working = directory_of(stage, T0), directory_of(stage, T1)
    client = stage.connect()
    both = (("t", 0, a_batch()), ("t", 1, a_batch()))
    assert [p.error_code for p in produced_in(client.call(produce_to(*both, acks=1)))] == [0, 0]

    monkeypatch.setattr(failing.files, call, refuse)
    answer = produced_in(client.call(produce_to(*both, acks=1)))

    assert [p.error_code for p in answer] == [ErrorCode.kafka_storage_error, 0]
    stage.turn()
    assert "Input/output error" in str(failing.failure)
    assert working.failure is None
    assert stage.table.find(T0) is None
    assert stage.table.find(T1) is not None
    again = produced_in(client.call(produce_to(*both, acks=1)))
    assert [p.error_code for p in again] == [ErrorCode.kafka_storage_error, 0]


def test_a_produce_request_that_waits_for_replicas_is_answered(stage: HandlerStage) -> None:
    stage.update(TOPIC)
    client = stage.connect()
    assert client.call(produce_to(("t", 0, a_batch()), acks=-1)) is None

    fail(stage)

    assert [p.error_code for p in produced_in(client.receive())] == [ErrorCode.kafka_storage_error]


def test_a_deletion_that_waits_for_replicas_is_answered(stage: HandlerStage) -> None:
    stage.update(TOPIC)
    client = stage.connect()
    partitions = [{"partition_index": 0, "offset": 0}]
    topics = [{"name": "t", "partitions": partitions}]
    assert client.call(request(ApiKey.DELETE_RECORDS, 2, topics=topics, timeout=5_000)) is None

    fail(stage)

    (result,) = client.receive().topics[0].partitions
    assert result.error_code == ErrorCode.kafka_storage_error


def test_the_controller_is_told_until_it_says_so_itself(stage: HandlerStage) -> None:
    stage.update(TOPIC)
    fail(stage)
    expected = (OfflinePartitions(BROKER, TOPIC.topic_id, (0,)),)
    (asked,) = reports(stage)
    assert asked.request.offline == expected

    asked.on_reply(None)  # lost
    stage.pass_time(500)
    (_, again) = reports(stage)
    assert again.request == asked.request

    stage.update(offline=expected)
    again.on_reply(Acknowledged(ErrorCode.none))
    stage.pass_time(500)
    assert len(reports(stage)) == 2

    stage.update(controller_epoch=2)  # a new controller knows nothing of it
    assert len(reports(stage)) == 3


def test_metadata_shows_which_replicas_are_offline(stage: HandlerStage) -> None:
    moved = a_topic("t", a_partition(ALL, [OTHER], OTHER, 1, 1), a_partition(ALL))
    stage.update(moved, offline=(OfflinePartitions(THIRD, moved.topic_id, (0,)),))
    (topic,) = stage.connect().call(metadata_request("t")).topics
    assert [p.offline_replicas for p in topic.partitions] == [(THIRD,), ()]


def test_a_replica_that_is_offline_takes_no_role_until_its_topic_is_deleted(
    stage: HandlerStage,
) -> None:
    stage.update(TOPIC)
    fail(stage)
    stage.update(a_topic("t", a_partition(ALL, ALL, BROKER, 5, 5), a_partition(ALL)))
    assert stage.table.find(T0) is None

    stage.update(deleted=("t",))
    assert len(stage.table.offline) == 0
    stage.update(TOPIC)  # a new one of that name
    working = directory_of(stage, T0)
    assert working.failure is None
    assert working is directory_of(stage, T1)


def test_new_partitions_are_made_in_what_is_left_and_known_ones_are_not(
    stage: HandlerStage,
) -> None:
    stage.update(TOPIC)
    lost = fail(stage)
    known = a_topic("known", a_partition(ALL, ALL, BROKER, 1, 1))
    new = a_topic("new", a_partition(ALL), a_partition(ALL))
    stage.update(known, new)

    assert stage.table.find(TopicPartition("known", 0)) is None, "it may be in what cannot be read"
    assert stage.table.offline.find(TopicPartition("known", 0)) is not None
    for number in range(2):
        assert directory_of(stage, TopicPartition("new", number)) is not lost


def test_a_replica_that_a_reassignment_adds_is_made_in_what_is_left(stage: HandlerStage) -> None:
    stage.update(TOPIC)
    lost = fail(stage)
    state = replace(a_partition([BROKER, OTHER], [OTHER], OTHER, 1, 1), adding=(BROKER,))
    stage.update(
        a_topic("moved", state, replace(state, isr=(OTHER, BROKER))),
    )
    assert directory_of(stage, TopicPartition("moved", 0)) is not lost
    in_sync = stage.table.offline.find(TopicPartition("moved", 1))
    assert in_sync is not None, "it has records that may be in what cannot be read"


def test_failed_directory_is_not_written_to_or_marked_as_cleanly_stopped(
    stage: HandlerStage,
) -> None:
    stage.update(TOPIC)
    client = stage.connect()
    client.call(produce_to(("t", 0, a_batch()), ("t", 1, a_batch()), acks=1))
    lost, kept = directory_of(stage, T0), directory_of(stage, T1)
    fail(stage)
    before = sorted(lost.path.rglob("*"))

    stage.table.write_checkpoints()
    stage.table.close()

    assert sorted(lost.path.rglob("*")) == before
    assert not (lost.path / ".kafka_cleanshutdown").exists()
    assert (kept.path / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENOENT])
def test_a_full_disk_or_a_missing_file_costs_no_directory(stage: HandlerStage, number: int) -> None:
    stage.update(TOPIC)
    stage.table.note_failure(T0, failure_of(number))
    stage.table.note_failure(T0, StorageFailed("an old message format"))
    stage.turn()
    assert stage.table.find(T0) is not None


def test_a_directory_that_is_gone_has_failed(stage: HandlerStage) -> None:
    stage.update(TOPIC)
    path = directory_of(stage, T0).path
    path.rename(path.with_name("aside"))
    stage.table.note_failure(T0, failure_of(errno.ENOENT))
    stage.turn()
    assert stage.table.find(T0) is None
    assert stage.table.find(T1) is not None


def test_a_checkpoint_that_cannot_be_written_shows_that_a_directory_has_failed(
    stage: HandlerStage,
) -> None:
    stage.update(TOPIC)
    path = directory_of(stage, T0).path
    path.rename(path.with_name("aside"))
    path.write_bytes(b"in the way")

    CheckpointWriter(stage.table, stage.slices, run_now, run_now).on_tick()
    stage.turn()
    stage.turn()

    assert stage.table.find(T0) is None
    assert stage.table.find(T1) is not None


def test_the_broker_gives_up_with_its_last_directory(stage: HandlerStage) -> None:
    stage.update(TOPIC)
    fail(stage, T0)
    assert stage.storage_failures == []
    fail(stage, T1)
    (failure,) = stage.storage_failures
    assert str(failure).startswith("all log directories have failed: ")


def test_a_follower_whose_disk_fails_goes_offline_too(stage: HandlerStage) -> None:
    stage.update(a_topic("t", a_partition([OTHER, BROKER]), a_partition(ALL)))
    fail(stage, T0)
    assert reports(stage)
    assert stage.roles.followed() == []


def test_all_replicas_of_one_broker_are_reported_together(stage: HandlerStage) -> None:
    stage.update(a_topic("t", *[a_partition(ALL)] * 6))
    lost = fail(stage)
    assert directory_of(stage, T1) is not lost
    (asked,) = reports(stage)
    assert asked.request.offline == (
        OfflinePartitions(BrokerId(BROKER), TOPIC.topic_id, (0, 2, 4)),
    )
