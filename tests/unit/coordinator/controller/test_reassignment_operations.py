"""Requested reassignments through the driver, in parts."""

from collections.abc import Iterator

import pytest

from cluster.coordinator.controller.reassignment_operations import PARTITIONS_AT_ONCE
from cluster.coordinator.controller.reassignments import Answered
from cluster.model.errors import ErrorCode
from cluster.model.ids import BrokerId, TopicPartition
from cluster.model.plan import Outcome
from cluster.model.topics import NewTopic
from cluster.protocol.peer.control import Acknowledged
from tests.support.controller_stage import ORDERS_0, Member, Outcomes, Stage

MISSING = TopicPartition("missing", 0)


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.loop.close()


@pytest.fixture
def controller(stage: Stage) -> Member:
    """Broker 1 of two; `orders-0` is on both, and led by it."""
    member = stage.member(1)
    stage.member(2)
    member.driver.campaign()
    settle(stage, member)
    member.requests.create_topics(
        [NewTopic("orders", assignment={0: (BrokerId(1), BrokerId(2))})],
        validate_only=False,
        timeout_ms=1_000,
        on_done=Outcomes(),
    )
    settle(stage, member)
    return member


def settle(stage: Stage, member: Member) -> None:
    """Until every message is answered."""
    stage.settle()
    while member.link.answer_all(Acknowledged(ErrorCode.none)):
        stage.settle()


class Answers:
    """What a request was answered."""

    def __init__(self) -> None:
        self.given: list[tuple[Outcome, Answered]] = []

    def __call__(self, outcome: Outcome, altered: Answered) -> None:
        self.given.append((outcome, altered))


def alter(member: Member, *asked: tuple[TopicPartition, tuple[int, ...] | None]) -> Answers:
    answers = Answers()
    member.requests.alter_reassignments(
        [(each, None if to is None else tuple(map(BrokerId, to))) for each, to in asked],
        may_change_factor=True,
        timeout_ms=1_000,
        on_done=answers,
    )
    return answers


def test_many_partitions_are_altered_in_parts_and_answered_once_in_order(
    stage: Stage, controller: Member
) -> None:
    there_and_back = [(ORDERS_0, (1, 2)), (ORDERS_0, (2, 1))] * PARTITIONS_AT_ONCE
    answers = alter(controller, *there_and_back, (MISSING, None))
    stage.settle()
    assert answers.given == []
    settle(stage, controller)

    ((outcome, altered),) = answers.given
    assert outcome.code is ErrorCode.none
    assert [each for each, _ in altered] == [ORDERS_0] * 2 * PARTITIONS_AT_ONCE + [MISSING]
    *accepted, refused = [one.code for _, one in altered]
    assert set(accepted) == {ErrorCode.none}
    assert refused is ErrorCode.unknown_topic_or_partition
    assert controller.driver.controller is not None
    state = controller.driver.controller.state.partition(ORDERS_0)
    assert state is not None
    assert state.replicas == (2, 1)


def test_a_controller_that_is_replaced_between_two_parts_refuses_the_request(
    stage: Stage, controller: Member
) -> None:
    many = [(ORDERS_0, (2, 1))] + [(MISSING, None)] * PARTITIONS_AT_ONCE
    answers = alter(controller, *many)
    while not controller.session.pending:  # the write of the first part
        stage.loop.run_once(max_wait_ms=0)
    controller.driver.resign()
    settle(stage, controller)
    ((outcome, altered),) = answers.given
    assert outcome.code is ErrorCode.not_controller
    assert len(altered) == len(many)


def test_an_empty_request_is_answered_at_once(controller: Member) -> None:
    assert alter(controller).given == [(Outcome(ErrorCode.none), [])]
