"""Leadership returns to preferred replicas: at once, at Kafka's pace, or not at all."""

from collections.abc import Callable, Iterator

import pytest
from kazoo.exceptions import NotReadOnlyCallError

from cluster.coordinator.controller import broker_updates, leader_elections
from cluster.coordinator.controller.leader_returns import FIRST_CHECK_MS, NEVER, ReturnOptions
from cluster.model.cluster import OfflinePartitions
from cluster.model.errors import ErrorCode
from cluster.model.ids import BrokerId, TopicPartition
from cluster.model.topics import NewTopic
from cluster.protocol.peer.control import Acknowledged, ReportFull
from tests.support.controller_stage import Member, Outcomes, Stage, epoch_of, propose
from tests.support.fake_registry import FakeTransaction

SOON = ReturnOptions(is_enabled=True, delay_ms=1_000)
AS_KAFKA = ReturnOptions(is_enabled=True, check_interval_ms=60_000, percentage=10)


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.loop.close()


Start = Callable[..., Member]


@pytest.fixture
def start(stage: Stage) -> Start:
    """Start with broker 1 as the controller, and partitions that all prefer broker 2."""

    def begin(options: ReturnOptions, partitions: int = 1) -> Member:
        stage.returns = options
        member = stage.member(1)
        stage.member(2)
        member.driver.campaign()
        settle(stage, member)
        replicas = (BrokerId(2), BrokerId(1))
        member.requests.create_topics(
            [NewTopic("orders", assignment=dict.fromkeys(range(partitions), replicas))],
            validate_only=False,
            timeout_ms=1_000,
            on_done=Outcomes(),
        )
        settle(stage, member)
        return member

    return begin


def settle(stage: Stage, member: Member) -> None:
    """Until every message is answered."""
    stage.settle()
    while member.link.answer_all(Acknowledged(ErrorCode.none)):
        stage.settle()


def leaders(member: Member) -> list[int]:
    assert member.driver.controller is not None
    topic = member.driver.controller.state.topics["orders"]
    return [state.leader for state in topic.partitions.values()]


def lose(stage: Stage, controller: Member, broker: int) -> None:
    gone = next(member for member in stage.members if member.id == broker)
    gone.session.client.expire()
    settle(stage, controller)


def come_back(stage: Stage, controller: Member, broker: int, isr: list[int]) -> None:
    """The broker registers again, and is in sync again."""
    back = next(member for member in stage.members if member.id == broker)
    back.session.client.begin_again()
    back.register()
    settle(stage, controller)
    join(stage, controller, isr)


def join(stage: Stage, controller: Member, isr: list[int], first: int = 0) -> None:
    assert controller.driver.controller is not None
    topic = controller.driver.controller.state.topics["orders"]
    for number, state in topic.partitions.items():
        if number >= first and state.isr != tuple(isr):
            propose(controller, isr, state.partition_epoch, partition=number)
    settle(stage, controller)


def pass_time(stage: Stage, controller: Member, duration_ms: int) -> None:
    stage.pass_time(duration_ms)
    settle(stage, controller)


def test_a_preferred_replica_leads_again_soon_after_it_is_in_sync(
    stage: Stage, start: Start
) -> None:
    controller = start(SOON, partitions=3)
    lose(stage, controller, 2)
    pass_time(stage, controller, 10_000)
    assert leaders(controller) == [1, 1, 1]
    come_back(stage, controller, 2, [1, 2])
    pass_time(stage, controller, 900)
    assert leaders(controller) == [1, 1, 1]
    pass_time(stage, controller, 200)
    assert leaders(controller) == [2, 2, 2]


def test_a_new_controller_returns_leaderships_that_the_former_one_did_not(
    stage: Stage, start: Start
) -> None:
    controller = start(ReturnOptions())
    lose(stage, controller, 2)
    come_back(stage, controller, 2, [1, 2])
    stage.returns = SOON
    controller.driver.resign()
    controller.session.client.delete("/controller")
    third = stage.member(3)
    third.driver.campaign()
    settle(stage, third)
    pass_time(stage, third, 1_100)
    assert leaders(third) == [2]


def test_leaderships_return_only_with_a_check_at_kafkas_pace(stage: Stage, start: Start) -> None:
    controller = start(AS_KAFKA)
    pass_time(stage, controller, FIRST_CHECK_MS)
    lose(stage, controller, 2)
    come_back(stage, controller, 2, [1, 2])
    pass_time(stage, controller, 59_000)
    assert leaders(controller) == [1]
    pass_time(stage, controller, 1_500)
    assert leaders(controller) == [2]


def test_the_first_check_is_soon_after_a_controller_starts(stage: Stage, start: Start) -> None:
    controller = start(AS_KAFKA)
    lose(stage, controller, 2)
    come_back(stage, controller, 2, [1, 2])
    pass_time(stage, controller, FIRST_CHECK_MS)
    assert leaders(controller) == [2]


def test_a_check_leaves_brokers_alone_that_lead_enough_of_their_partitions(
    stage: Stage, start: Start
) -> None:
    controller = start(ReturnOptions(is_enabled=True, percentage=50), partitions=2)
    lose(stage, controller, 2)
    come_back(stage, controller, 2, [1, 2])
    elected: list[object] = []
    controller.requests.elect_leaders(
        leader_elections.ElectionType.PREFERRED,
        [TopicPartition("orders", 0)],
        1_000,
        lambda *_: elected.append(1),
    )
    settle(stage, controller)
    assert elected == [1]
    pass_time(stage, controller, FIRST_CHECK_MS)
    assert leaders(controller) == [2, 1]


@pytest.mark.parametrize("delay_ms", [NEVER, 1_000])
def test_leaders_do_not_return_when_it_is_disabled(
    stage: Stage, start: Start, delay_ms: int
) -> None:
    controller = start(ReturnOptions(is_enabled=False, delay_ms=delay_ms))
    lose(stage, controller, 2)
    come_back(stage, controller, 2, [1, 2])
    pass_time(stage, controller, 1_000_000)
    assert leaders(controller) == [1]


def test_many_partitions_return_in_parts_each_known_before_the_next(
    stage: Stage, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leader_elections, "RETURNS_AT_ONCE", 2)
    monkeypatch.setattr("cluster.coordinator.controller.leader_operations.RETURNS_AT_ONCE", 2)
    controller = start(SOON, partitions=5)
    lose(stage, controller, 2)
    come_back(stage, controller, 2, [1, 2])
    stage.pass_time(1_100)
    assert leaders(controller) == [2, 2, 1, 1, 1]
    controller.link.answer_all(Acknowledged(ErrorCode.none))  # the new leader leads
    stage.settle()
    assert leaders(controller) == [2, 2, 1, 1, 1]
    controller.link.answer_all(Acknowledged(ErrorCode.none))  # every broker knows
    stage.settle()
    assert leaders(controller) == [2, 2, 2, 2, 1]
    settle(stage, controller)
    assert leaders(controller) == [2, 2, 2, 2, 2]


def test_replicas_that_join_later_return_later(stage: Stage, start: Start) -> None:
    controller = start(SOON, partitions=2)
    lose(stage, controller, 2)
    back = next(member for member in stage.members if member.id == 2)
    back.session.client.begin_again()
    back.register()
    settle(stage, controller)
    propose(controller, [1, 2], 1, partition=1)
    settle(stage, controller)
    pass_time(stage, controller, 1_100)
    assert leaders(controller) == [1, 2]
    propose(controller, [1, 2], 1, partition=0)
    settle(stage, controller)
    pass_time(stage, controller, 1_100)
    assert leaders(controller) == [2, 2]


def test_a_broker_whose_disk_has_room_again_leads_again(stage: Stage, start: Start) -> None:
    controller = start(SOON, partitions=2)
    assert controller.driver.controller is not None
    topic_id = controller.driver.controller.state.topics["orders"].topic_id
    answers: list[object] = []

    def report(*numbers: int) -> None:
        full = (OfflinePartitions(BrokerId(2), topic_id, numbers),) if numbers else ()
        request = ReportFull(BrokerId(2), epoch_of(controller, 2), full, "")
        controller.requests.on_full_reported(request, answers.append)
        settle(stage, controller)
        pass_time(stage, controller, 1_100)

    report(0, 1)
    assert leaders(controller) == [1, 1]
    pass_time(stage, controller, 60_000)
    assert leaders(controller) == [1, 1]
    report(0)
    assert leaders(controller) == [1, 2]
    report()
    assert leaders(controller) == [2, 2]
    assert answers == [Acknowledged(ErrorCode.none)] * 3


def test_a_full_registry_leaves_the_controller_and_the_leaders_as_they_are(
    stage: Stage, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = start(SOON)
    lose(stage, controller, 2)
    come_back(stage, controller, 2, [1, 2])

    def refuse(*_: object) -> None:
        raise NotReadOnlyCallError

    with monkeypatch.context() as full:
        full.setattr(FakeTransaction, "commit", refuse)
        pass_time(stage, controller, 1_100)
    assert (leaders(controller), controller.controller_epoch) == ([1], 1)
    pass_time(stage, controller, FIRST_CHECK_MS)
    assert leaders(controller) == [2]


# -- who is told first -----------------------------------------------------------------------------


def test_the_new_leader_leads_before_the_old_one_is_told(stage: Stage, start: Start) -> None:
    controller = start(SOON)
    third = stage.member(3)
    settle(stage, controller)
    lose(stage, controller, 2)
    come_back(stage, controller, 2, [1, 2])
    stage.pass_time(1_100)

    (first,) = controller.link.take()
    assert first.endpoint == "control-2-100"
    (topic,) = first.request.topics
    assert topic.partitions[0].leader == 2
    first.on_reply(Acknowledged(ErrorCode.none))
    stage.settle()
    told = {asked.endpoint: asked.request for asked in controller.link.take()}
    assert set(told) == {f"control-{number}-100" for number in (1, 2, int(third.id))}
    assert {update.topics[0].partitions[0].leader for update in told.values()} == {2}
    assert epoch_of(controller, 2) == told["control-2-100"].broker_epoch


@pytest.mark.parametrize("is_silent", [True, False])
def test_a_silent_new_leader_delays_the_others_for_a_limited_time(
    stage: Stage, start: Start, is_silent: bool
) -> None:
    controller = start(SOON)
    lose(stage, controller, 2)
    come_back(stage, controller, 2, [1, 2])
    stage.pass_time(1_100)
    (first,) = controller.link.take()
    if is_silent:
        stage.pass_time(900)
        assert controller.link.asked == []
        stage.pass_time(200)
    else:
        first.on_reply(None)
        stage.settle()
    assert {asked.endpoint for asked in controller.link.take()} == {
        "control-1-100",
        "control-2-100",
    }


def test_later_updates_wait_too(stage: Stage, start: Start) -> None:
    controller = start(SOON)
    lose(stage, controller, 2)
    come_back(stage, controller, 2, [1, 2])
    stage.pass_time(1_100)
    (first,) = controller.link.take()
    controller.requests.delete_topics([("orders", None)], 1_000, lambda _: None)
    stage.settle()
    assert controller.link.asked == []
    first.on_reply(Acknowledged(ErrorCode.none))
    stage.settle()
    of_old_leader = [
        asked.request for asked in controller.link.take() if asked.endpoint == "control-1-100"
    ]
    assert [(len(each.topics), each.deleted) for each in of_old_leader] == [
        (1, ()),
        (0, ("orders",)),
    ]


def test_all_brokers_are_updated_at_once_when_very_many_leaderships_move(
    stage: Stage, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_updates, "_NEW_LEADERS_FIRST_MAX", 2)
    controller = start(SOON, partitions=3)
    lose(stage, controller, 2)
    come_back(stage, controller, 2, [1, 2])
    stage.pass_time(1_100)
    assert {asked.endpoint for asked in controller.link.take()} == {
        "control-1-100",
        "control-2-100",
    }


def test_no_update_waits_for_a_lost_leader(stage: Stage, start: Start) -> None:
    controller = start(SOON)
    third = stage.member(3)
    settle(stage, controller)
    gone = next(member for member in stage.members if member.id == 2)
    gone.session.client.expire()
    stage.settle()
    endpoints = {asked.endpoint for asked in controller.link.take()}
    assert endpoints == {"control-1-100", f"control-{third.id}-100"}
