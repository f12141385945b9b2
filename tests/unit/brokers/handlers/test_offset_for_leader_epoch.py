"""OffsetForLeaderEpoch from real logs: the ends of epochs, and which broker may answer."""

import pytest

from cluster.model.errors import ErrorCode
from cluster.protocol.api import ApiKey
from tests.support.cluster_states import a_partition, a_topic
from tests.support.handler_requests import WALL_MS, a_batch
from tests.support.handler_stage import BROKER, OTHER, HandlerStage
from tests.support.kafka_wire import produce_to, request

VERSIONS = (2, 3, 4)


def append(stage: HandlerStage, count: int) -> None:
    client = stage.connect()
    for _ in range(count):
        client.call(produce_to(("t", 0, a_batch(timestamp_ms=WALL_MS)), acks=1))


def end_of(
    stage: HandlerStage, epoch: int, *, current: int = -1, version: int = 4, partition: int = 0
) -> tuple[int, int, int]:
    """Error code, epoch and end offset of the answer."""
    asked = {"partition": partition, "current_leader_epoch": current, "leader_epoch": epoch}
    topics = [{"topic": "t", "partitions": [asked]}]
    facts = {"replica_id": -1} if version >= 3 else {}
    answer = stage.connect().call(
        request(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, topics=topics, **facts)
    )
    ((one,),) = (topic.partitions for topic in answer.topics)
    assert one.partition == partition
    return one.error_code, one.leader_epoch, one.end_offset


@pytest.mark.parametrize("version", VERSIONS)
def test_end_offsets_of_epochs_are_returned(stage: HandlerStage, version: int) -> None:
    stage.update(a_topic("t", a_partition([BROKER], leader_epoch=2)))
    append(stage, 3)
    stage.update(a_topic("t", a_partition([BROKER], leader_epoch=4, partition_epoch=1)))
    append(stage, 2)

    assert end_of(stage, 2, version=version) == (0, 2, 3)
    assert end_of(stage, 3, version=version) == (0, 2, 3)  # nobody led in it
    assert end_of(stage, 4, version=version) == (0, 4, 5)
    assert end_of(stage, 1, version=version) == (0, 1, 0)  # older than everything here
    assert end_of(stage, 5, version=version) == (0, -1, -1)
    assert end_of(stage, -1, version=version) == (0, -1, -1)


def test_the_newest_epoch_ends_with_the_log(stage: HandlerStage) -> None:
    stage.update(a_topic("t", a_partition([BROKER, OTHER], leader_epoch=1)))
    append(stage, 2)
    stage.follower_fetches(OTHER, stage.partition("t"), 1)

    assert end_of(stage, 1) == (0, 1, 2)


def test_only_the_leader_in_the_clients_epoch_answers(
    stage: HandlerStage,
) -> None:
    both = [BROKER, OTHER]
    stage.update(a_topic("t", a_partition(both, leader_epoch=3)))

    assert end_of(stage, 3, current=3)[0] == ErrorCode.none
    assert end_of(stage, 3, current=2) == (ErrorCode.fenced_leader_epoch, -1, -1)
    assert end_of(stage, 3, current=4) == (ErrorCode.unknown_leader_epoch, -1, -1)
    assert end_of(stage, 3, partition=1) == (ErrorCode.unknown_topic_or_partition, -1, -1)

    stage.update(a_topic("t", a_partition(both, leader=OTHER, leader_epoch=4, partition_epoch=1)))
    assert end_of(stage, 3) == (ErrorCode.not_leader_or_follower, -1, -1)
