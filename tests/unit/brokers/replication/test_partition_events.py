"""Events of replicas: when the last stable offset moves, and who is told."""

from pathlib import Path

import pytest

from cluster.brokers.replication.partition import Partition
from cluster.model.ids import TopicPartition
from tests.support.cluster_states import a_partition, a_topic
from tests.support.handler_requests import WALL_MS, a_batch
from tests.support.handler_stage import BROKER, OTHER, HandlerStage
from tests.support.transactional_batches import COMMIT, data, marker

T0 = TopicPartition("t", 0)
LED = a_partition([BROKER, OTHER], isr=[BROKER], leader_epoch=1, partition_epoch=1)


class Stable:
    """This broker leads t-0 and has all records of the former leader."""

    def __init__(self, stage: HandlerStage, *batches: bytes) -> None:
        self.stage = stage
        self.moved: list[TopicPartition] = []
        stage.events.subscribe(on_stable=self.moved.append)
        stage.update(a_topic("t", a_partition([BROKER, OTHER], leader=OTHER)))
        for batch in batches:
            stage.partition("t").log.append_as_follower(memoryview(batch), WALL_MS)
        stage.update(a_topic("t", LED))
        self.take()

    @property
    def partition(self) -> Partition:
        return self.stage.partition("t")

    def append(self) -> None:
        self.partition.append(memoryview(a_batch()), 1, WALL_MS, self.stage.loop.now_ms)
        self.stage.events.on_appended(self.partition)

    def take(self) -> list[TopicPartition]:
        """What was told by the end of this turn."""
        self.stage.turn()
        moved = list(self.moved)
        self.moved.clear()
        return moved


@pytest.fixture
def stage(tmp_path: Path):
    with HandlerStage(tmp_path) as made:
        yield made


def test_last_stable_offset_is_the_high_watermark_without_transactions(stage):
    stable = Stable(stage)
    assert stable.partition.last_stable_offset == stable.partition.high_watermark == 0
    stable.append()
    assert stable.partition.last_stable_offset == stable.partition.high_watermark == 1


def test_listeners_are_told_once_per_turn_that_the_last_stable_offset_has_moved(stage):
    stable = Stable(stage)
    stable.append()
    stable.append()
    assert stable.take() == [T0]
    stage.events.on_moved(T0)
    stage.events.on_high_watermark_moved(stable.partition)
    assert stable.take() == []


def test_last_stable_offset_stays_while_a_transaction_is_open(stage):
    stable = Stable(stage, data(0, 9, is_transactional=False), data(1, 1))
    stable.append()
    assert (stable.partition.high_watermark, stable.partition.last_stable_offset) == (3, 1)
    assert stable.take() == []


def test_listeners_are_told_when_the_end_of_a_transaction_is_replicated(stage):
    stable = Stable(stage, data(0, 1))
    stable.partition.log.append_as_follower(memoryview(marker(1, 1, COMMIT)), WALL_MS)
    assert stable.partition.last_stable_offset == 0
    stable.append()
    assert stable.take() == [T0]
    assert stable.partition.last_stable_offset == stable.partition.high_watermark == 3


def test_listeners_are_not_told_of_a_replica_that_follows(stage):
    stable = Stable(stage)
    stage.update(a_topic("t", a_partition([BROKER, OTHER], leader=OTHER, leader_epoch=2)))
    stage.events.on_high_watermark_moved(stable.partition)
    assert stable.take() == []
