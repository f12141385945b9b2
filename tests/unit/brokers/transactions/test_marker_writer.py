"""Markers in partitions that this broker leads, and of transactions that it coordinates itself."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from cluster.model.errors import ErrorCode
from cluster.model.ids import TopicPartition
from cluster.model.topics import CONSUMER_OFFSETS_TOPIC
from cluster.records.markers import EndMarker
from tests.support.cluster_states import a_partition, a_topic
from tests.support.handler_stage import BROKER, OTHER, HandlerStage
from tests.support.transaction_requests import coordinate

NONE = ErrorCode.none
MARKER = EndMarker(7, 3, 1, is_commit=True)
T0, T1, OFFSETS = (
    TopicPartition("t", 0),
    TopicPartition("t", 1),
    TopicPartition(CONSUMER_OFFSETS_TOPIC, 0),
)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[HandlerStage]:
    with HandlerStage(tmp_path / "data") as made:
        coordinate(made, "t")
        yield made


def write(
    stage: HandlerStage, *partitions: TopicPartition
) -> list[Mapping[TopicPartition, ErrorCode]]:
    """The outcomes, which may come later."""
    outcomes: list[Mapping[TopicPartition, ErrorCode]] = []
    stage.core.transactions.writer.write(MARKER, partitions, outcomes.append)
    return outcomes


def test_the_outcome_comes_when_the_marker_is_committed_everywhere(stage: HandlerStage) -> None:
    followed = a_partition([BROKER, OTHER], partition_epoch=1)
    led = a_partition([BROKER])
    stage.update(a_topic("t", led, followed))
    outcomes = write(stage, T0, T1, OFFSETS)
    stage.turn()
    assert outcomes == []
    assert stage.partition("t", 0).log.log_end_offset == 1
    stage.follower_fetches(OTHER, stage.partition("t", 1), 1)
    assert outcomes == [{T0: NONE, T1: NONE, OFFSETS: NONE}]


def test_partitions_that_are_not_led_here_are_refused(stage: HandlerStage) -> None:
    moved = a_partition([BROKER, OTHER], leader=OTHER, leader_epoch=1, partition_epoch=1)
    stage.update(a_topic("t", moved), a_topic(CONSUMER_OFFSETS_TOPIC, moved))
    unknown = TopicPartition("no", 0)
    (found,) = write(stage, T0, OFFSETS, unknown)
    assert NONE not in found.values()
    assert found[T0] is found[OFFSETS] is ErrorCode.not_leader_or_follower


def test_the_outcome_comes_when_the_leadership_is_lost(stage: HandlerStage) -> None:
    followed = a_partition([BROKER, OTHER], partition_epoch=1)
    stage.update(a_topic("t", followed), a_topic(CONSUMER_OFFSETS_TOPIC, followed))
    outcomes = write(stage, T0, OFFSETS)
    stage.turn()
    moved = a_partition([BROKER, OTHER], leader=OTHER, leader_epoch=1, partition_epoch=2)
    stage.update(a_topic("t", moved), a_topic(CONSUMER_OFFSETS_TOPIC, moved))
    assert outcomes == [dict.fromkeys((T0, OFFSETS), ErrorCode.not_leader_or_follower)]


def test_the_outcome_comes_when_the_topic_is_deleted(stage: HandlerStage) -> None:
    stage.update(a_topic("t", a_partition([BROKER, OTHER], partition_epoch=1)))
    outcomes = write(stage, T0)
    stage.turn()
    assert outcomes == []
    stage.update(deleted=("t",))
    stage.turn()
    (found,) = outcomes
    assert found[T0] is not NONE


@pytest.mark.parametrize("partition", [T0, OFFSETS])
def test_a_partition_without_enough_replicas_refuses_the_marker(
    stage: HandlerStage, partition: TopicPartition
) -> None:
    short = a_partition([BROKER, OTHER], [BROKER], partition_epoch=1)
    stage.update(a_topic(partition.topic, short, configs={"min.insync.replicas": "2"}))
    outcomes = write(stage, partition)
    stage.turn()
    assert outcomes == [{partition: ErrorCode.not_enough_replicas}]
    assert stage.partition(partition.topic).log.log_end_offset == 0


def test_a_marker_without_partitions_is_written(stage: HandlerStage) -> None:
    assert write(stage) == [{}]


def test_markers_of_an_earlier_coordinator_are_refused(stage: HandlerStage) -> None:
    write(stage, T0)
    outcomes: list[Mapping[TopicPartition, ErrorCode]] = []
    earlier = MARKER._replace(coordinator_epoch=0)
    stage.core.transactions.writer.write(earlier, [T0], outcomes.append)
    assert outcomes == [{T0: ErrorCode.transaction_coordinator_fenced}]
