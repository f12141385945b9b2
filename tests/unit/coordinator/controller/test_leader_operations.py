"""Requested elections through the driver: the registry, messages to brokers, answers."""

from collections.abc import Iterator

import pytest

from cluster.coordinator.controller.leader_elections import Elected, ElectionType
from cluster.coordinator.controller.leader_operations import LEADERS_AT_ONCE
from cluster.model.cluster import PartitionState
from cluster.model.errors import ErrorCode
from cluster.model.ids import BrokerId, TopicPartition
from cluster.model.plan import Outcome
from cluster.model.topics import NewTopic
from cluster.protocol.peer.control import Acknowledged
from tests.support.controller_stage import ORDERS_0, Member, Outcomes, Stage, propose, updates

TIMEOUT_MS = 1_000


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.loop.close()


@pytest.fixture
def controller(stage: Stage) -> Member:
    """Broker 1. Broker 2 is the preferred replica of `orders-0`, and in sync; broker 1 leads."""
    member = stage.member(1)
    preferred = stage.member(2)
    member.driver.campaign()
    settle(stage, member)
    member.requests.create_topics(
        [NewTopic("orders", assignment={0: (BrokerId(2), BrokerId(1))})],
        validate_only=False,
        timeout_ms=TIMEOUT_MS,
        on_done=Outcomes(),
    )
    settle(stage, member)
    preferred.session.client.expire()
    settle(stage, member)
    preferred.session.client.begin_again()
    preferred.register()
    settle(stage, member)
    propose(member, [1, 2], partition_epoch=1)
    settle(stage, member)
    assert (state_of(member).leader, state_of(member).isr) == (1, (1, 2))
    return member


def settle(stage: Stage, member: Member) -> None:
    """Until every message is answered."""
    stage.settle()
    while member.link.answer_all(Acknowledged(ErrorCode.none)):
        stage.settle()


def state_of(member: Member) -> PartitionState:
    assert member.driver.controller is not None
    state = member.driver.controller.state.partition(ORDERS_0)
    assert state is not None
    return state


class Answers:
    """The answers to a request."""

    def __init__(self) -> None:
        self.given: list[tuple[Outcome, Elected]] = []

    def __call__(self, outcome: Outcome, elected: Elected) -> None:
        self.given.append((outcome, elected))

    @property
    def codes(self) -> list[tuple[str, list[tuple[str, str]]]]:
        return [
            (outcome.code.name, [(str(each), one.code.name) for each, one in elected])
            for outcome, elected in self.given
        ]


def elect(
    member: Member, *asked: TopicPartition, timeout_ms: int = TIMEOUT_MS, of_all: bool = False
) -> Answers:
    answers = Answers()
    member.requests.elect_leaders(
        ElectionType.PREFERRED, None if of_all else asked, timeout_ms, answers
    )
    return answers


@pytest.mark.parametrize("of_all", [False, True])
def test_an_election_is_answered_when_every_broker_knows_the_leader(
    stage: Stage, controller: Member, of_all: bool
) -> None:
    epoch = state_of(controller).leader_epoch
    answers = elect(controller, ORDERS_0, of_all=of_all)
    stage.settle()
    assert (state_of(controller).leader, state_of(controller).leader_epoch) == (2, epoch + 1)
    assert answers.codes == []
    settle(stage, controller)
    assert answers.codes == [("none", [("orders-0", "none")])]


def test_an_election_that_is_not_needed_is_answered_at_once(
    stage: Stage, controller: Member
) -> None:
    elect(controller, ORDERS_0)
    settle(stage, controller)
    again, of_all = elect(controller, ORDERS_0), elect(controller, of_all=True)
    assert again.codes == [("none", [("orders-0", "election_not_needed")])]
    assert of_all.codes == [("none", [])]
    assert updates(controller) == {}


def test_many_elections_are_held_in_parts_and_answered_once_in_order(
    stage: Stage, controller: Member
) -> None:
    missing = TopicPartition("missing", 0)
    answers = elect(controller, *[ORDERS_0] * LEADERS_AT_ONCE, missing, ORDERS_0)
    stage.settle()
    assert answers.codes == []
    settle(stage, controller)
    assert answers.codes == [
        (
            "none",
            [("orders-0", "none")] * LEADERS_AT_ONCE
            + [("missing-0", "unknown_topic_or_partition"), ("orders-0", "election_not_needed")],
        )
    ]


def test_an_election_times_out_when_a_broker_is_late(stage: Stage, controller: Member) -> None:
    answers = elect(controller, ORDERS_0, timeout_ms=100)
    stage.settle()
    (to_new_leader,) = controller.link.take()
    assert to_new_leader.endpoint == "control-2-100"
    stage.pass_time(100)
    to_everyone = controller.link.take()
    assert [each.timeout_ms for each in to_everyone] == [100, 100]
    for each in to_everyone:
        each.on_reply(None)
    assert answers.codes == [("none", [("orders-0", "request_timed_out")])]
    assert state_of(controller).leader == 2


def test_elections_are_refused_by_a_broker_that_is_not_the_controller(
    stage: Stage, controller: Member
) -> None:
    other = next(member for member in stage.members if member.id == 2)
    assert elect(other, ORDERS_0).codes == [("none", [("orders-0", "not_controller")])]
    assert elect(other, of_all=True).codes == [("not_controller", [])]


def test_a_broker_that_is_about_to_stop_is_not_elected(stage: Stage, controller: Member) -> None:
    assert controller.driver.controller is not None
    controller.driver.controller.on_controlled_shutdown(BrokerId(2))
    answers = elect(controller, ORDERS_0)
    assert answers.codes == [("none", [("orders-0", "preferred_leader_not_available")])]
