"""Ends of logs: looked up for partitions led here, requested from other leaders."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.brokers.groups.log_ends import Ends
from cluster.model.errors import ErrorCode
from cluster.model.ids import BrokerId, ControllerEpoch
from cluster.protocol.peer.control import (
    AskLogEnds,
    ClusterUpdate,
    LogEnds,
    NumberedPartitions,
    Refusal,
)
from tests.support.cluster_states import a_broker, a_partition, a_topic
from tests.support.handler_requests import a_batch
from tests.support.handler_stage import BROKER, BROKER_EPOCH, OTHER, THIRD, HandlerStage

ALL = [BROKER, OTHER, THIRD]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[HandlerStage]:
    with HandlerStage(tmp_path / "data") as made:
        yield made


def gathered(stage: HandlerStage, wanted: dict[str, set[int]]) -> list[Ends]:
    """The results so far; more follow when peers answer."""
    told: list[Ends] = []
    for _ in stage.core.groups.log_ends.gather(wanted, told.append):
        pass
    return told


def append(stage: HandlerStage, topic: str, number: int, count: int) -> None:
    for _ in range(count):
        stage.partition(topic, number).append(
            memoryview(a_batch()), 1, stage.clock.wall_ms(), stage.loop.now_ms
        )


def test_ends_are_looked_up_here_and_requested_from_other_leaders(stage):
    stage.update(
        a_topic("alone", a_partition([BROKER])),
        a_topic("led", a_partition(ALL)),
        a_topic(
            "other",
            a_partition(ALL, leader=OTHER),
            a_partition(ALL, leader=THIRD),
            a_partition(ALL, leader=-1),
        ),
    )
    append(stage, "alone", 0, 3)
    append(stage, "led", 0, 2)
    stage.follower_fetches(OTHER, stage.partition("led"), 2)
    stage.follower_fetches(THIRD, stage.partition("led"), 1)
    stage.link.take()
    told = gathered(stage, {"alone": {0}, "led": {0}, "other": {0, 1, 2, 7}, "gone": {0}})
    asked = {each.endpoint: each for each in stage.link.take()}
    assert told == []
    assert {endpoint: each.request for endpoint, each in asked.items()} == {
        a_broker(OTHER).control_endpoint: AskLogEnds((NumberedPartitions("other", (0,)),)),
        a_broker(THIRD).control_endpoint: AskLogEnds((NumberedPartitions("other", (1,)),)),
    }
    first, second = asked.values()
    first.on_reply(LogEnds([[40]]))
    assert told == []
    second.on_reply(None)
    assert told == [{"alone": {0: 3}, "led": {0: 1}, "other": {0: 40}}]


@pytest.mark.parametrize(
    "answer",
    [Refusal(ErrorCode.invalid_request, "unknown"), LogEnds([[-1, -1]]), LogEnds([]), None],
)
def test_an_end_is_unknown_when_its_leader_does_not_tell_it(stage, answer):
    stage.update(a_topic("t", *[a_partition(ALL, leader=OTHER)] * 2))
    stage.link.take()
    told = gathered(stage, {"t": {0, 1}})
    stage.link.answer_all(answer)
    assert told == [{}]


def test_a_leader_answers_for_the_partitions_that_it_leads(stage):
    stage.update(
        a_topic("t", a_partition([BROKER]), a_partition(ALL, leader=OTHER)),
        a_topic("u", a_partition([BROKER])),
    )
    append(stage, "t", 0, 5)
    answers: list[Any] = []
    request = AskLogEnds(
        [NumberedPartitions("u", [0]), NumberedPartitions("t", [1, 0, 9])],
    )
    stage.link.receive(request, answers.append)
    assert answers == [LogEnds([[0], [-1, 5, -1]])]


def test_many_partitions_are_requested_in_several_requests(stage):
    many = a_topic("many", *[a_partition(ALL, leader=OTHER)] * 2_500)
    stage.metadata.apply(update_of(stage, many))
    told = gathered(stage, {"many": set(range(2_500))})
    asked = stage.link.take()
    sizes = [[len(row.partitions) for row in each.request.topics] for each in asked]
    assert sizes == [[1_000], [1_000], [500]]
    for each in asked:
        each.on_reply(LogEnds([list(row.partitions) for row in each.request.topics]))
    assert told == [{"many": {number: number for number in range(2_500)}}]


def update_of(stage: HandlerStage, *topics: Any) -> Any:
    """An update for the metadata cache alone, by which no replicas are made."""
    stage.update(a_topic("x", a_partition([OTHER])))
    brokers = tuple(stage.metadata.brokers.values())
    return ClusterUpdate(
        BrokerId(OTHER), ControllerEpoch(1), BROKER_EPOCH, False, brokers, topics, ()
    )
