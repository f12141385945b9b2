"""DeleteRecords: up to the high watermark, answered when every live replica has deleted them."""

from typing import Any

import pytest

from cluster.brokers.replication.partition import Partition
from cluster.model.cluster import PartitionState
from cluster.model.errors import ErrorCode
from cluster.model.ids import BrokerId, Offset
from cluster.protocol.api import ApiKey
from tests.support.cluster_states import a_partition, a_topic
from tests.support.handler_requests import WALL_MS, a_batch
from tests.support.handler_stage import BROKER, OTHER, THIRD, HandlerStage
from tests.support.kafka_wire import request

ALONE = a_partition([BROKER])
LED = a_partition([BROKER, OTHER, THIRD])
TIMEOUT_MS = 5_000


def deletion(
    *asked: tuple[int, int], topic: str = "t", version: int = 2, timeout_ms: int = TIMEOUT_MS
) -> Any:
    """A DeleteRecords request for these pairs of partition and offset."""
    partitions = [{"partition_index": index, "offset": offset} for index, offset in asked]
    return request(
        ApiKey.DELETE_RECORDS,
        version,
        topics=[{"name": topic, "partitions": partitions}],
        timeout=timeout_ms,
    )


def results_in(answer: Any) -> list[tuple[int, int, int]]:
    """Partition, error code and low watermark of each result."""
    return [
        (each.partition_index, int(each.error_code), each.low_watermark)
        for topic in answer.topics
        for each in topic.partitions
    ]


def a_log(stage: HandlerStage, state: PartitionState = ALONE, records: int = 10) -> Partition:
    stage.update(a_topic("t", state))
    partition = stage.partition("t")
    for _ in range(records):
        partition.append(memoryview(a_batch()), 1, WALL_MS, stage.loop.now_ms)
    return partition


def reports(
    stage: HandlerStage, partition: Partition, follower: int, end: int, log_start: int
) -> None:
    """A follower fetches, having the records from `log_start` up to `end`."""
    assert partition.leader is not None
    stage.follower_fetches(follower, partition, end)
    if partition.leader.on_follower_log_start(BrokerId(follower), Offset(log_start)):
        stage.events.on_moved(partition.id)
    stage.turn()


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize(("offset", "expected"), [(0, 0), (4, 4), (10, 10), (-1, 10)])
def test_deletion_is_answered_immediately_with_a_single_replica(
    stage: HandlerStage, version: int, offset: int, expected: int
) -> None:
    partition = a_log(stage)
    answer = stage.connect().call(deletion((0, offset), version=version))
    assert results_in(answer) == [(0, 0, expected)]
    assert partition.log.log_start_offset == expected


def test_deletion_of_already_deleted_records_succeeds(stage: HandlerStage) -> None:
    partition = a_log(stage)
    client = stage.connect()
    client.call(deletion((0, 6)))
    assert results_in(client.call(deletion((0, 2)))) == [(0, 0, 6)]
    assert partition.log.log_start_offset == 6


@pytest.mark.parametrize("offset", [11, 2**62, -2, -(2**63)])
def test_offset_outside_of_the_committed_range_is_refused(stage: HandlerStage, offset: int) -> None:
    partition = a_log(stage)
    answer = stage.connect().call(deletion((0, offset)))
    assert results_in(answer) == [(0, ErrorCode.offset_out_of_range, -1)]
    assert partition.log.log_start_offset == 0


def test_records_above_the_high_watermark_are_not_deleted(stage: HandlerStage) -> None:
    partition = a_log(stage, LED)
    reports(stage, partition, OTHER, 7, 0)
    reports(stage, partition, THIRD, 8, 0)
    answer = stage.connect().call(deletion((0, 8)))
    assert results_in(answer) == [(0, ErrorCode.offset_out_of_range, -1)]
    client = stage.connect()
    assert client.call(deletion((0, -1))) is None
    assert partition.log.log_start_offset == partition.high_watermark == 7


def test_deletion_waits_for_every_live_replica(stage: HandlerStage) -> None:
    partition = a_log(stage, LED)
    for follower in (OTHER, THIRD):
        reports(stage, partition, follower, 10, 0)
    client = stage.connect()
    assert client.call(deletion((0, 5))) is None
    reports(stage, partition, OTHER, 10, 5)
    assert client.receive() is None
    reports(stage, partition, THIRD, 10, 4)
    assert client.receive() is None
    reports(stage, partition, THIRD, 10, 6)
    assert results_in(client.receive()) == [(0, 0, 5)]


def test_deletion_does_not_wait_for_a_dead_replica(stage: HandlerStage) -> None:
    partition = a_log(stage, LED)
    for follower in (OTHER, THIRD):
        reports(stage, partition, follower, 10, 0)
    stage.update(
        a_topic("t", a_partition([BROKER, OTHER, THIRD], isr=[BROKER, OTHER], partition_epoch=1)),
        brokers=(BROKER, OTHER),
        is_full=True,
    )
    client = stage.connect()
    assert client.call(deletion((0, 5))) is None
    reports(stage, partition, OTHER, 10, 5)
    assert results_in(client.receive()) == [(0, 0, 5)]


def test_deletion_completes_when_a_lagging_replica_dies(stage: HandlerStage) -> None:
    partition = a_log(stage, LED)
    for follower in (OTHER, THIRD):
        reports(stage, partition, follower, 10, 0)
    client = stage.connect()
    assert client.call(deletion((0, 5))) is None
    reports(stage, partition, OTHER, 10, 5)
    stage.update(
        a_topic("t", a_partition([BROKER, OTHER, THIRD], isr=[BROKER, OTHER], partition_epoch=1)),
        brokers=(BROKER, OTHER),
        is_full=True,
    )
    assert results_in(client.receive()) == [(0, 0, 5)]


def test_deletion_completes_when_an_out_of_sync_replica_dies(stage: HandlerStage) -> None:
    partition = a_log(stage, a_partition([BROKER, OTHER, THIRD], isr=[BROKER, OTHER]))
    reports(stage, partition, OTHER, 10, 0)
    client = stage.connect()
    assert client.call(deletion((0, 5))) is None
    reports(stage, partition, OTHER, 10, 5)
    assert client.receive() is None
    stage.update(brokers=(BROKER, OTHER))  # nothing changes for the partition
    assert results_in(client.receive()) == [(0, 0, 5)]


def test_deletion_times_out_when_a_replica_does_not_follow(stage: HandlerStage) -> None:
    partition = a_log(stage, LED)
    for follower in (OTHER, THIRD):
        reports(stage, partition, follower, 10, 0)
    client = stage.connect()
    assert client.call(deletion((0, 5))) is None
    stage.pass_time(TIMEOUT_MS)
    assert results_in(client.receive()) == [(0, ErrorCode.request_timed_out, 0)]
    assert partition.log.log_start_offset == 5, "the records are deleted all the same"


def test_deletion_is_refused_when_leadership_moves(stage: HandlerStage) -> None:
    partition = a_log(stage, LED)
    for follower in (OTHER, THIRD):
        reports(stage, partition, follower, 10, 0)
    client = stage.connect()
    assert client.call(deletion((0, 5))) is None
    stage.update(a_topic("t", a_partition([BROKER, OTHER, THIRD], leader=OTHER, leader_epoch=1)))
    assert results_in(client.receive()) == [(0, ErrorCode.not_leader_or_follower, -1)]


def test_each_partition_has_its_own_outcome(stage: HandlerStage) -> None:
    stage.update(a_topic("t", ALONE, a_partition([OTHER, BROKER]), a_partition([OTHER])))
    stage.partition("t").append(memoryview(a_batch()), 1, WALL_MS, stage.loop.now_ms)
    answer = stage.connect().call(deletion((0, 1), (1, 0), (2, 0), (3, 0)))
    assert results_in(answer) == [
        (0, 0, 1),
        (1, ErrorCode.not_leader_or_follower, -1),
        (2, ErrorCode.not_leader_or_follower, -1),
        (3, ErrorCode.unknown_topic_or_partition, -1),
    ]


@pytest.mark.parametrize(("policy", "code"), [("compact", 44), ("compact,delete", 0)])
def test_deletion_is_refused_for_a_topic_that_is_only_compacted(
    stage: HandlerStage, policy: str, code: int
) -> None:
    stage.update(a_topic("t", ALONE, configs={"cleanup.policy": policy}))
    answer = stage.connect().call(deletion((0, 0)))
    assert results_in(answer)[0][:2] == (0, code)


def test_deletion_is_refused_for_internal_topics(stage: HandlerStage) -> None:
    stage.update(a_topic("__consumer_offsets", ALONE))
    answer = stage.connect().call(deletion((0, 0), topic="__consumer_offsets"))
    assert results_in(answer) == [(0, ErrorCode.invalid_topic_exception, -1)]


def test_the_last_offset_counts_when_a_request_names_a_partition_twice(stage: HandlerStage) -> None:
    a_log(stage)
    assert results_in(stage.connect().call(deletion((0, 5), (0, 3)))) == [(0, 0, 3)]
