"""Updates of the controller, and what a broker asks of it: who is believed, who is answered."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.brokers.replication.leader_replica import IsrProposal
from cluster.model.cluster import TopicState
from cluster.model.errors import ErrorCode
from cluster.model.ids import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    PartitionEpoch,
    TopicPartition,
)
from cluster.model.plan import Outcome
from cluster.model.quotas import QuotaClient
from cluster.model.topics import TopicAlteration
from cluster.protocol.peer.control import (
    AlterPartition,
    ControlledShutdown,
    CreateTopics,
    PartitionAltered,
    Refusal,
    ShutdownPrepared,
    TopicOutcome,
    TopicOutcomes,
)
from tests.support.cluster_states import a_partition, a_topic
from tests.support.handler_requests import a_batch
from tests.support.handler_stage import BROKER, BROKER_EPOCH, OTHER, THIRD, HandlerStage
from tests.support.kafka_wire import produce_to

T0 = TopicPartition("t", 0)
ALL = [BROKER, OTHER, THIRD]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[HandlerStage]:
    with HandlerStage(tmp_path / "data") as made:
        yield made


# -- updates ---------------------------------------------------------------------------------------


def test_an_update_is_taken_over_and_acknowledged(stage: HandlerStage) -> None:
    assert stage.update(a_topic("t", a_partition(ALL), a_partition([OTHER]))) is ErrorCode.none

    assert stage.metadata.controller_id == OTHER
    assert stage.metadata.controller_endpoint() == "control-2-100"
    assert set(stage.metadata.brokers) == {BROKER, OTHER, THIRD}
    assert stage.partition("t").leader is not None
    assert len(stage.table) == 1


def test_an_older_controller_is_refused(stage: HandlerStage) -> None:
    stage.update(controller_epoch=5)

    answer = stage.update(a_topic("t", a_partition(ALL)), controller_epoch=4)

    assert answer is ErrorCode.stale_controller_epoch
    assert stage.metadata.topics == {}


@pytest.mark.parametrize("epoch", [BROKER_EPOCH - 1, BROKER_EPOCH + 1])
def test_an_update_for_another_life_is_refused(stage: HandlerStage, epoch: int) -> None:
    answer = stage.update(a_topic("t", a_partition(ALL)), broker_epoch=epoch)

    assert answer is ErrorCode.stale_broker_epoch
    assert stage.metadata.topics == {}


def test_an_update_before_the_registration_is_to_be_sent_again(stage: HandlerStage) -> None:
    stage.core.membership.registration.epoch = BrokerEpoch(-1)

    assert stage.update(a_topic("t", a_partition(ALL))) is None
    assert stage.metadata.topics == {}


def test_a_partial_update_leaves_the_rest_alone(stage: HandlerStage) -> None:
    stage.update(a_topic("t", a_partition(ALL), a_partition(ALL)), a_topic("u", a_partition(ALL)))
    changed = a_topic("t", configs={"retention.ms": "1"})
    changed.partitions[1] = a_partition(ALL, leader=OTHER, leader_epoch=1, partition_epoch=1)

    stage.update(changed)

    known = stage.metadata.topics["t"]
    assert [known.partitions[n].leader for n in (0, 1)] == [BROKER, OTHER]
    assert known.configs == {"retention.ms": "1"}
    assert stage.partition("t", 1).leader is None
    assert stage.partition("t", 0).leader is not None
    assert "u" in stage.metadata.topics


def test_a_full_update_removes_what_it_does_not_name(stage: HandlerStage) -> None:
    stage.update(a_topic("t", a_partition(ALL)), a_topic("u", a_partition(ALL)))
    gone = stage.partition("u").log.directory

    stage.update(a_topic("t", a_partition([OTHER, THIRD], partition_epoch=1)), is_full=True)

    assert list(stage.metadata.topics) == ["t"]
    assert len(stage.table) == 0  # one topic is gone, the other is no longer ours
    assert not gone.exists()


def test_a_topic_of_the_same_name_begins_empty(stage: HandlerStage) -> None:
    old = a_topic("t", a_partition([BROKER]))
    stage.update(old)
    stage.connect().call(produce_to(("t", 0, a_batch())))
    assert stage.metadata.topic_name(old.topic_id) == "t"

    new = TopicState("t", uuid.uuid4(), {}, {0: a_partition([BROKER])})
    stage.update(new)

    assert stage.partition("t").topic_id == new.topic_id
    assert stage.partition("t").log.log_end_offset == 0
    assert stage.metadata.topic_name(old.topic_id) is None
    assert stage.metadata.topic_name(new.topic_id) == "t"


def test_a_partition_that_moves_away_is_removed(stage: HandlerStage) -> None:
    stage.update(a_topic("t", a_partition(ALL)))

    stage.update(a_topic("t", a_partition([OTHER, THIRD], leader_epoch=1, partition_epoch=1)))

    assert len(stage.table) == 0
    assert stage.metadata.partition(T0) is not None


def test_configs_of_a_topic_reach_its_logs(stage: HandlerStage) -> None:
    stage.update(a_topic("t", a_partition([BROKER])))
    configs = {"segment.bytes": "12345", "min.insync.replicas": "2"}

    stage.update(a_topic("t", a_partition([BROKER]), configs=configs))

    assert stage.partition("t").log.options.segment_bytes == 12345
    assert stage.partition("t").min_insync_replicas == 2


def test_a_config_that_is_not_understood_is_left_out(stage: HandlerStage) -> None:
    """It was not written through brokers, but the registry is open to other tools."""
    strange = {"no.such.config": "1", "retention.ms": "-7", "segment.bytes": "12345"}

    answer = stage.update(
        a_topic("t", a_partition(ALL), configs=strange), a_topic("u", a_partition(ALL))
    )

    assert answer is ErrorCode.none
    assert stage.partition("t").leader is not None
    assert stage.partition("t").log.options.segment_bytes == 12345
    assert stage.partition("u").leader is not None


# -- asked of the controller here ------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_of_a_peer",
    [
        CreateTopics(["a", "b"], None),
        ControlledShutdown(BrokerId(OTHER), BrokerEpoch(1)),
        AlterPartition(
            BrokerId(OTHER), BrokerEpoch(1), "t", 0, (), LeaderEpoch(0), PartitionEpoch(0)
        ),
    ],
)
def test_a_broker_refuses_control_requests_when_it_is_not_the_controller(
    stage: HandlerStage, request_of_a_peer: Any
) -> None:
    answers: list[Any] = []

    stage.link.receive(request_of_a_peer, answers.append)
    stage.turn()

    (answer,) = answers
    match answer:
        case TopicOutcomes():
            assert {code for _, code, _ in answer.outcomes} == {ErrorCode.not_controller}
        case ShutdownPrepared():
            assert not answer.is_done
        case _:
            assert answer.code is ErrorCode.not_controller


# -- ISR proposals ---------------------------------------------------------------------------------

ALTERED = PartitionAltered(ErrorCode.none, (BrokerId(BROKER), BrokerId(OTHER)), PartitionEpoch(1))
PROPOSAL = IsrProposal((BrokerId(BROKER), BrokerId(OTHER)), LeaderEpoch(0), PartitionEpoch(0))


def leader_that_proposed(stage: HandlerStage) -> Any:
    """It wants THIRD out of the ISR."""
    stage.update(a_topic("t", a_partition(ALL)))
    leader = stage.partition("t").leader
    assert leader is not None
    stage.connect().call(produce_to(("t", 0, a_batch()), acks=1))
    stage.clock.pass_time(10_001)
    stage.follower_fetches(OTHER, stage.partition("t"), 1)
    stage.look_round()
    ((partition, proposal),) = stage.proposals
    assert (partition, proposal) == (T0, PROPOSAL)
    return leader


def test_a_proposal_is_asked_for_and_its_state_taken_over(stage: HandlerStage) -> None:
    leader = leader_that_proposed(stage)
    client = stage.connect()

    (asked,) = stage.link.answer_all(ALTERED)

    assert asked.endpoint == "control-2-100"
    assert asked.request == AlterPartition(
        BrokerId(BROKER),
        BrokerEpoch(BROKER_EPOCH),
        "t",
        0,
        (BrokerId(BROKER), BrokerId(OTHER)),
        LeaderEpoch(0),
        PartitionEpoch(0),
    )
    assert leader.isr == (BROKER, OTHER)
    assert leader.high_watermark == 1
    assert client.is_open


@pytest.mark.parametrize(
    "answer",
    [
        PartitionAltered(ErrorCode.invalid_update_version),
        PartitionAltered(ErrorCode.unknown_server_error),
        Refusal(ErrorCode.invalid_request, "malformed"),
    ],
)
def test_a_refused_proposal_is_not_in_force(stage: HandlerStage, answer: Any) -> None:
    leader = leader_that_proposed(stage)

    stage.link.answer_all(answer)

    assert leader.pending_isr is None
    assert leader.isr == tuple(ALL)
    assert leader.on_tick(stage.loop.now_ms, 10_000) == PROPOSAL


@pytest.mark.parametrize("answer", [None, PartitionAltered(ErrorCode.not_controller)])
def test_a_proposal_without_an_answer_may_be_in_force(stage: HandlerStage, answer: Any) -> None:
    leader = leader_that_proposed(stage)

    stage.link.answer_all(answer)

    assert leader.pending_isr is None
    assert leader.isr == tuple(ALL)
    assert leader.high_watermark == 0


def test_without_a_controller_an_isr_proposal_counts_as_refused(stage: HandlerStage) -> None:
    stage.update(a_topic("t", a_partition(ALL)))
    stage.metadata.forget_controller()

    outcomes: list[Any] = []
    stage.control.propose_isr(T0, PROPOSAL, outcomes.append)
    assert stage.link.take() == []
    stage.turn()
    assert outcomes == [ErrorCode.broker_not_available]


def test_an_answer_for_a_partition_that_is_gone_is_nothing(stage: HandlerStage) -> None:
    leader_that_proposed(stage)
    stage.update(deleted=("t",))

    stage.link.answer_all(ALTERED)

    assert len(stage.table) == 0


# -- topics and configs ----------------------------------------------------------------------------


def names_asked_for(stage: HandlerStage) -> list[tuple[str, ...]]:
    return [asked.request.names for asked in stage.link.asked]


@pytest.mark.parametrize(
    "answer",
    [
        None,
        TopicOutcomes([TopicOutcome("a", ErrorCode.invalid_replication_factor, None)]),
        TopicOutcomes([]),
        Refusal(ErrorCode.invalid_request, "malformed"),
    ],
)
def test_a_missing_topic_is_asked_for_once_at_a_time(stage: HandlerStage, answer: Any) -> None:
    stage.update()

    stage.control.request_topic_creation(["a"], None)
    stage.control.request_topic_creation(["a", "b"], None)
    assert names_asked_for(stage) == [("a",), ("b",)]

    stage.link.answer_all(answer)
    stage.control.request_topic_creation(["a"], None)
    assert names_asked_for(stage) == [("a",)]


def test_why_a_topic_is_not_created_is_logged_once_until_it_changes(
    stage: HandlerStage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "cluster.brokers.membership.controller_client")
    stage.update()
    throttled = ErrorCode.throttling_quota_exceeded
    for code in (throttled, throttled, ErrorCode.policy_violation, ErrorCode.none, throttled):
        stage.control.request_topic_creation(["a"], QuotaClient("alice", "app"))
        stage.link.answer_all(TopicOutcomes([TopicOutcome("a", code, "why")]))

    start = "auto-creation of topic a for user 'alice', client-id 'app'"
    assert caplog.messages == [
        f"{start}: {name}: why"
        for name in (throttled.name, ErrorCode.policy_violation.name, throttled.name)
    ]


def test_a_topic_is_asked_for_again_when_there_was_nobody_to_ask(stage: HandlerStage) -> None:
    stage.control.request_topic_creation(["a"], None)
    stage.turn()
    stage.update()

    stage.control.request_topic_creation(["a"], None)

    assert names_asked_for(stage) == [("a",)]


REFUSED = Refusal(ErrorCode.invalid_request, "too large")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (None, None),
        (TopicOutcomes([]), {}),
        (
            TopicOutcomes([TopicOutcome("t", ErrorCode.unknown_server_error, "new")]),
            {"t": Outcome(ErrorCode.unknown_server_error, "new")},
        ),
        (REFUSED, {"t": Outcome(ErrorCode.invalid_request, "too large")}),
    ],
)
def test_config_changes_have_the_outcomes_of_the_answer(
    stage: HandlerStage, answer: Any, expected: object
) -> None:
    stage.update()
    outcomes: list[Any] = []

    stage.control.alter_topic_configs(
        [TopicAlteration("t", False, {"retention.ms": "1"})],
        validate_only=False,
        on_done=outcomes.append,
    )
    stage.link.answer_all(answer)

    assert outcomes == [expected]


# -- controlled shutdown ---------------------------------------------------------------------------


def test_leaderships_are_moved_before_a_stop(stage: HandlerStage) -> None:
    stage.update()
    done: list[bool] = []

    stage.control.ask_controlled_shutdown(done.append, 3_000)
    (asked,) = stage.link.answer_all(ShutdownPrepared(True))

    assert asked.request == ControlledShutdown(BrokerId(BROKER), BrokerEpoch(BROKER_EPOCH))
    assert done == [True]
    stage.pass_time(5_000)
    assert done == [True]
    assert stage.link.take() == []


def test_the_next_controller_is_asked_again(stage: HandlerStage) -> None:
    stage.update()
    done: list[bool] = []
    stage.control.ask_controlled_shutdown(done.append, 3_000)
    stage.link.answer_all(None)
    stage.metadata.forget_controller()
    for _ in range(5):
        stage.pass_time(20)
    assert stage.link.take() == []

    stage.metadata.controller_id = BrokerId(THIRD)
    stage.pass_time(20)
    (asked,) = stage.link.answer_all(ShutdownPrepared(True))

    assert asked.endpoint == "control-3-100"
    assert done == [True]


def test_one_that_is_the_controller_no_more_is_asked_again(stage: HandlerStage) -> None:
    stage.update()
    done: list[bool] = []
    stage.control.ask_controlled_shutdown(done.append, 3_000)
    stage.link.answer_all(ShutdownPrepared(False))
    assert done == []

    stage.pass_time(20)
    stage.link.answer_all(ShutdownPrepared(True))

    assert done == [True]


def test_a_stop_does_not_wait_for_ever(stage: HandlerStage) -> None:
    stage.update()
    done: list[bool] = []
    stage.control.ask_controlled_shutdown(done.append, 3_000)

    for _ in range(149):
        stage.pass_time(20)
    assert done == []
    stage.pass_time(20)

    assert done == [False]
    stage.link.answer_all(ShutdownPrepared(True))  # too late
    assert done == [False]
