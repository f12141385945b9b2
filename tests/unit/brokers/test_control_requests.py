"""Updates of the controller, and what a broker asks of it: who is believed, who is answered."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.brokers.replication.leader_replica import IsrProposal
from cluster.coordinator.controller.config_plans import TopicAlteration
from cluster.coordinator.controller.plan import Outcome
from cluster.model.cluster import TopicState
from cluster.model.errors import ErrorCode
from cluster.model.ids import (
    NO_BROKER,
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    PartitionEpoch,
    TopicPartition,
)
from tests.support.cluster_states import a_partition, a_topic
from tests.support.handler_requests import a_batch
from tests.support.handler_stage import BROKER, BROKER_EPOCH, OTHER, THIRD, HandlerStage
from tests.support.kafka_wire import produce_to

T0 = TopicPartition("t", 0)
ALL = [BROKER, OTHER, THIRD]
A_STATE = ([1], [1], 1, 0, 0)
AN_UPDATE: dict[str, Any] = {
    "controller": OTHER,
    "controller_epoch": 1,
    "broker_epoch": BROKER_EPOCH,
    "full": False,
    "brokers": [],
    "topics": [],
    "deleted": [],
}


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[HandlerStage]:
    with HandlerStage(tmp_path / "data") as made:
        yield made


# -- updates ---------------------------------------------------------------------------------------


def test_an_update_is_taken_over_and_acknowledged(stage: HandlerStage) -> None:
    assert stage.update(a_topic("t", a_partition(ALL), a_partition([OTHER]))) == {"code": 0}

    assert stage.metadata.controller_id == OTHER
    assert stage.metadata.controller_endpoint() == "control-2-100"
    assert set(stage.metadata.brokers) == {BROKER, OTHER, THIRD}
    assert stage.partition("t").leader is not None
    assert len(stage.table) == 1


def test_an_older_controller_is_refused(stage: HandlerStage) -> None:
    stage.update(controller_epoch=5)

    answer = stage.update(a_topic("t", a_partition(ALL)), controller_epoch=4)

    assert answer == {"code": ErrorCode.stale_controller_epoch}
    assert stage.metadata.topics == {}


@pytest.mark.parametrize("epoch", [BROKER_EPOCH - 1, BROKER_EPOCH + 1])
def test_an_update_for_another_life_is_refused(stage: HandlerStage, epoch: int) -> None:
    answer = stage.update(a_topic("t", a_partition(ALL)), broker_epoch=epoch)

    assert answer == {"code": ErrorCode.stale_broker_epoch}
    assert stage.metadata.topics == {}


def test_an_update_before_the_registration_is_to_be_sent_again(stage: HandlerStage) -> None:
    stage.control.broker_epoch = BrokerEpoch(-1)

    assert stage.update(a_topic("t", a_partition(ALL))) is None
    assert stage.metadata.topics == {}


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("no such kind", {}),
        ("update_metadata", {}),
        ("update_metadata", {"controller": "x"}),
        ("update_metadata", AN_UPDATE | {"controller_epoch": "7"}),
        ("update_metadata", AN_UPDATE | {"broker_epoch": None}),
        ("update_metadata", AN_UPDATE | {"deleted": [["t"]]}),
        ("update_metadata", AN_UPDATE | {"topics": [("t", "a text of 16 let", {}, [])]}),
        ("update_metadata", AN_UPDATE | {"topics": [("t", bytes(16), [], [])]}),
        ("update_metadata", AN_UPDATE | {"topics": [("t", bytes(16), {"k": 1}, [])]}),
        ("update_metadata", AN_UPDATE | {"topics": [("t", bytes(16), {}, [([0], *A_STATE)])]}),
        ("update_metadata", AN_UPDATE | {"brokers": [(1, 1, [], None, 7, "", "")]}),
        ("update_metadata", AN_UPDATE | {"brokers": [(1, 1, [("a",)], None, "", "", "")]}),
        ("update_metadata", AN_UPDATE | {"a later version": 1, "brokers": [(1, 1, [], None)]}),
        ("create_topics", {}),
        ("create_topics", {"names": "text"}),
        ("create_topics", {"names": [5]}),
        ("create_topics", {"names": [["t"]]}),
        ("controlled_shutdown", {}),
        ("controlled_shutdown", {"broker": [1]}),
    ],
)
def test_what_is_malformed_is_ignored(stage: HandlerStage, kind: str, body: dict[str, Any]) -> None:
    replies: list[Any] = []

    stage.control.on_request(kind, body, replies.append)

    assert replies == []
    assert stage.controller.asked == []
    assert stage.metadata.controller_id == NO_BROKER


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

    assert answer == {"code": 0}
    assert stage.partition("t").leader is not None
    assert stage.partition("t").log.options.segment_bytes == 12345
    assert stage.partition("u").leader is not None


# -- asked of the controller here ------------------------------------------------------------------


def test_a_peer_has_topics_created(stage: HandlerStage) -> None:
    replies: list[Any] = []

    stage.control.on_request("create_topics", {"names": ["a", "b"]}, replies.append)
    asked = stage.controller.take()
    assert [topic.name for topic in asked.subjects] == ["a", "b"]
    asked.on_done({"a": Outcome(ErrorCode.none), "b": Outcome(ErrorCode.topic_already_exists)}, {})

    assert replies == [{"a": 0, "b": int(ErrorCode.topic_already_exists)}]


def test_other_kinds_have_their_own_handlers(stage: HandlerStage) -> None:
    stage.control.serve("echo", lambda body, reply: reply(body))
    replies: list[Any] = []

    stage.control.on_request("echo", {"x": 1}, replies.append)

    assert replies == [{"x": 1}]


# -- ISR proposals ---------------------------------------------------------------------------------

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
    stage.control.propose_isr(partition, proposal)
    return leader


def test_a_proposal_is_asked_for_and_its_state_taken_over(stage: HandlerStage) -> None:
    leader = leader_that_proposed(stage)
    client = stage.connect()

    (asked,) = stage.link.answer_all({"code": 0, "isr": [BROKER, OTHER], "partition_epoch": 1})

    assert (asked.endpoint, asked.kind) == ("control-2-100", "alter_partition")
    assert asked.body == {
        "broker": BROKER,
        "topic": "t",
        "partition": 0,
        "isr": [BROKER, OTHER],
        "leader_epoch": 0,
        "partition_epoch": 0,
    }
    assert leader.isr == (BROKER, OTHER)
    assert leader.high_watermark == 1
    assert client.is_open


def test_a_refused_proposal_is_not_in_force(stage: HandlerStage) -> None:
    leader = leader_that_proposed(stage)

    stage.link.answer_all({"code": int(ErrorCode.invalid_update_version)})

    assert leader.pending_isr is None
    assert leader.isr == tuple(ALL)
    assert leader.on_tick(stage.loop.now_ms, 10_000) == PROPOSAL


@pytest.mark.parametrize(
    "answer",
    [
        None,
        {"code": int(ErrorCode.not_controller)},
        {},
        {"code": None},
        {"code": "none"},
        {"code": 0},
        {"code": 0, "isr": [BROKER]},
        {"code": 0, "isr": [["x"]], "partition_epoch": 1},
        {"code": 0, "isr": [BROKER, OTHER], "partition_epoch": "1"},
    ],
)
def test_a_proposal_without_an_answer_may_be_in_force(
    stage: HandlerStage, answer: dict[str, Any] | None
) -> None:
    leader = leader_that_proposed(stage)

    stage.link.answer_all(answer)

    assert leader.pending_isr is None
    assert leader.isr == tuple(ALL)
    assert leader.high_watermark == 0


def test_a_refusal_with_an_unknown_code_is_one(stage: HandlerStage) -> None:
    """A controller of a later version has codes that this broker does not know."""
    leader = leader_that_proposed(stage)

    stage.link.answer_all({"code": 31_000})

    assert leader.pending_isr is None
    assert leader.on_tick(stage.loop.now_ms, 10_000) == PROPOSAL


def test_nobody_to_ask_is_a_refusal(stage: HandlerStage) -> None:
    stage.update(a_topic("t", a_partition(ALL)))
    stage.metadata.forget_controller()

    stage.control.propose_isr(T0, PROPOSAL)
    assert stage.link.take() == []
    stage.turn()  # nothing was in flight: the answer is for nobody


def test_an_answer_for_a_partition_that_is_gone_is_nothing(stage: HandlerStage) -> None:
    leader_that_proposed(stage)
    stage.update(deleted=("t",))

    stage.link.answer_all({"code": 0, "isr": [BROKER, OTHER], "partition_epoch": 1})

    assert len(stage.table) == 0


# -- topics and configs ----------------------------------------------------------------------------


def test_a_missing_topic_is_asked_for_once_at_a_time(stage: HandlerStage) -> None:
    stage.update()

    stage.control.request_topic_creation(["a"])
    stage.control.request_topic_creation(["a", "b"])
    assert [asked.body for asked in stage.link.asked] == [{"names": ["a"]}, {"names": ["b"]}]

    stage.link.answer_all({"a": int(ErrorCode.invalid_replication_factor)})
    stage.control.request_topic_creation(["a"])
    assert [asked.body for asked in stage.link.asked] == [{"names": ["a"]}]


@pytest.mark.parametrize("code", [31_000, None, "none", [1]])
def test_an_answer_about_a_topic_that_is_not_understood_ends_nothing(
    stage: HandlerStage, code: object
) -> None:
    stage.update()

    stage.control.request_topic_creation(["a"])
    stage.link.answer_all({"a": code})

    stage.control.request_topic_creation(["a"])
    assert [asked.body for asked in stage.link.asked] == [{"names": ["a"]}]


def test_a_topic_is_asked_for_again_when_there_was_nobody_to_ask(stage: HandlerStage) -> None:
    stage.control.request_topic_creation(["a"])
    stage.turn()
    stage.update()

    stage.control.request_topic_creation(["a"])

    assert [asked.kind for asked in stage.link.asked] == ["create_topics"]


@pytest.mark.parametrize(
    "answer", [None, {}, {"outcomes": 5}, {"outcomes": [("t",)]}, {"outcomes": [("t", "x", None)]}]
)
def test_config_changes_without_an_answer(
    stage: HandlerStage, answer: dict[str, Any] | None
) -> None:
    stage.update()
    outcomes: list[Any] = []

    stage.control.alter_topic_configs(
        [TopicAlteration("t", False, {"retention.ms": "1"})],
        validate_only=False,
        on_done=outcomes.append,
    )
    stage.link.answer_all(answer)

    assert outcomes == [None]


def test_an_unknown_code_of_a_config_change_is_an_unknown_error(stage: HandlerStage) -> None:
    stage.update()
    outcomes: list[Any] = []

    stage.control.alter_topic_configs(
        [TopicAlteration("t", False, {"retention.ms": "1"})],
        validate_only=False,
        on_done=outcomes.append,
    )
    stage.link.answer_all({"outcomes": [("t", 31_000, "new")]})

    assert outcomes == [{"t": Outcome(ErrorCode.unknown_server_error, "new")}]


# -- controlled shutdown ---------------------------------------------------------------------------


def test_leaderships_are_moved_before_a_stop(stage: HandlerStage) -> None:
    stage.update()
    done: list[bool] = []

    stage.control.ask_controlled_shutdown(done.append, 3_000)
    (asked,) = stage.link.answer_all({"done": True})

    assert (asked.kind, asked.body) == ("controlled_shutdown", {"broker": BROKER})
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
    (asked,) = stage.link.answer_all({"done": True})

    assert asked.endpoint == "control-3-100"
    assert done == [True]


def test_one_that_is_the_controller_no_more_is_asked_again(stage: HandlerStage) -> None:
    stage.update()
    done: list[bool] = []
    stage.control.ask_controlled_shutdown(done.append, 3_000)
    stage.link.answer_all({"done": False})
    assert done == []

    stage.pass_time(20)
    stage.link.answer_all({"done": True})

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
    stage.link.answer_all({"done": True})  # too late
    assert done == [False]
