"""Figures of a broker's replicas, and of all partitions on the controller."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cluster.brokers.metrics.replica_figures import ClusterFigures, ReplicaFigures
from cluster.model.cluster import PartitionState
from cluster.model.ids import NO_BROKER, PartitionEpoch
from tests.support.cluster_states import a_partition, a_topic
from tests.support.handler_stage import BROKER, OTHER, THIRD, HandlerStage


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[HandlerStage]:
    with HandlerStage(tmp_path / "data") as made:
        yield made


def reassigning(stage: HandlerStage) -> int:
    figures = ReplicaFigures()
    for _ in figures.look(list(stage.table)):
        pass
    return figures.reassigning


def test_led_partitions_are_counted_while_they_move(stage: HandlerStage) -> None:
    adding = replace(a_partition([BROKER, OTHER, THIRD]), adding=(THIRD,))
    removing = replace(a_partition([BROKER, OTHER]), removing=(OTHER,))
    led_elsewhere = replace(a_partition([BROKER, OTHER], leader=OTHER), removing=(BROKER,))

    def update(*states: PartitionState) -> None:
        stage.update(a_topic("t", *states))

    update(adding, removing, led_elsewhere, a_partition([BROKER, OTHER]))
    assert reassigning(stage) == 2
    done = a_partition([BROKER, THIRD], partition_epoch=1)
    update(done, removing, led_elsewhere)
    assert reassigning(stage) == 1
    update(done, replace(a_partition([BROKER, OTHER]), partition_epoch=PartitionEpoch(1)))
    assert reassigning(stage) == 0


def test_partitions_are_imbalanced_unless_their_first_replica_leads() -> None:
    figures = ClusterFigures()
    states = [a_partition([1, 2], leader=leader) for leader in (1, 2, NO_BROKER)]
    for _ in figures.look([a_topic("t", *states)]):
        pass
    assert (figures.partitions, figures.offline, figures.imbalanced) == (3, 1, 2)
