"""The ExplainGroup request through a whole broker."""

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.brokers.groups.former_histories import FORMER_COORDINATORS_MAX, FormerHistories
from cluster.brokers.groups.history_handover import BYTES_MAX
from cluster.coordinator.groups.history.explanation import (
    ExplainAnswer,
    FormerCoordinator,
    pack_question,
    read_answer,
    read_kept,
)
from cluster.coordinator.groups.history.rebalances import Rebalance
from cluster.model.clocks import MonotonicMs, WallMs
from cluster.model.errors import ErrorCode
from cluster.model.ids import LeaderEpoch
from cluster.model.topics import CONSUMER_OFFSETS_TOPIC
from cluster.protocol.api import OwnApiKey
from cluster.protocol.peer.control import Acknowledged, KeepHistories, Refusal
from tests.support.cluster_states import a_broker, a_partition, a_topic
from tests.support.group_requests import Member, lead_offsets_topic, leave_group
from tests.support.handler_stage import BROKER, OTHER, THIRD, HandlerStage


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[HandlerStage]:
    settings = {"group.initial.rebalance.delay.ms": "0"}
    with HandlerStage(tmp_path / "data", settings) as made:
        yield made


def frame(body: bytes, version: int = 0) -> bytes:
    """A request with a non-flexible header and the client id `tool`."""
    return struct.pack(">hhih", OwnApiKey.EXPLAIN_GROUP, version, 7, 4) + b"tool" + body


def explain(stage: HandlerStage, group: str = "g") -> ExplainAnswer:
    answer = stage.connect().exchange(frame(pack_question(group)))
    assert answer is not None
    assert struct.unpack_from(">ii", answer) == (len(answer) - 4, 7)
    return read_answer(answer[8:])


def one_member(stage: HandlerStage) -> Member:
    member = Member(stage)
    assert member.join().error_code == 0
    assert member.sync().error_code == 0
    return member


def test_the_coordinator_explains_a_group(stage: HandlerStage) -> None:
    lead_offsets_topic(stage)
    member = one_member(stage)
    stage.pass_time(1_000)
    told = explain(stage)
    assert (told.code, told.broker, told.former) == (ErrorCode.none, BROKER, ())
    assert told.since_wall_ms == stage.clock.wall_ms() - 1_000
    assert told.group is not None
    assert (told.group.state, told.group.in_state_ms) == ("Stable", 1_000)
    assert [each.who.member_id for each in told.group.members] == [member.id]
    (rebalance,) = told.group.rebalances
    assert (rebalance.generation_id, rebalance.is_over) == (1, True)


def test_a_former_coordinator_returns_the_history_it_kept(stage: HandlerStage) -> None:
    lead_offsets_topic(stage)
    first, second = one_member(stage), Member(stage)
    stage.pass_time(500)
    assert second.join() is None  # until the first has rejoined
    stage.update(a_topic(CONSUMER_OFFSETS_TOPIC, a_partition([OTHER, BROKER], leader_epoch=1)))
    stage.pass_time(500)
    told = explain(stage)
    assert (told.code, told.group) == (ErrorCode.not_coordinator, None)
    (former,) = told.former
    assert (former.broker, former.until_wall_ms) == (BROKER, stage.clock.wall_ms() - 500)
    assert [each.is_abandoned for each in former.rebalances] == [False, True]
    assert first.id in [each.member.member_id for each in former.rebalances[1].slowest]

    lead_offsets_topic(stage, leader_epoch=LeaderEpoch(2))  # and back
    told = explain(stage)
    assert told.code is ErrorCode.none
    assert told.group is not None
    assert told.group.rebalances == ()
    assert len(told.former) == 1


def test_an_unknown_group_is_not_found(stage: HandlerStage) -> None:
    assert explain(stage).code is ErrorCode.group_id_not_found  # the topic does not exist yet
    lead_offsets_topic(stage, replicas=[OTHER])
    assert explain(stage).code is ErrorCode.not_coordinator
    lead_offsets_topic(stage, leader_epoch=LeaderEpoch(1))
    assert explain(stage).code is ErrorCode.group_id_not_found
    member = one_member(stage)
    member.connection.call(leave_group("g", member.id))
    assert explain(stage).code is ErrorCode.none


def test_an_invalid_group_id_is_refused(stage: HandlerStage) -> None:
    for _ in range(2):
        told = explain(stage, "g" * 0x8000)
        assert (told.code, told.group) == (ErrorCode.invalid_group_id, None)
        lead_offsets_topic(stage)


def test_a_request_is_refused_while_the_partition_is_loading(stage: HandlerStage) -> None:
    lead_offsets_topic(stage)
    one_member(stage)
    partition, groups = stage.partition(CONSUMER_OFFSETS_TOPIC), stage.core.groups.coordinator
    groups.on_resigned(partition.id)
    groups.on_elected(partition, LeaderEpoch(1))
    told = explain(stage)
    assert (told.code, told.group) == (ErrorCode.coordinator_load_in_progress, None)
    assert told.since_wall_ms == -1
    assert len(told.former) == 1


@pytest.mark.parametrize("request_frame", [frame(b""), frame(b"\xc1"), frame(b"\x93\x01\x02\x03")])
def test_a_malformed_request_closes_its_connection(
    stage: HandlerStage, request_frame: bytes
) -> None:
    connection = stage.connect()
    assert connection.exchange(request_frame) is None
    assert not connection.is_open


def test_another_version_is_refused(stage: HandlerStage) -> None:
    connection = stage.connect()
    assert connection.exchange(frame(pack_question("g"), version=1)) is None
    assert "EXPLAIN_GROUP version 1 is not supported" in str(connection.closed_because)


# -- what former coordinators keep, and hand on ----------------------------------------------------


def former(count: int, since_ms: int = 0, broker: int = OTHER) -> FormerCoordinator:
    rebalances = tuple(
        Rebalance(MonotonicMs(n), WallMs(n), n, 0, protocol_name="range" * 10) for n in range(count)
    )
    return FormerCoordinator(broker, since_ms, since_ms + 1, rebalances)


def test_kept_histories_are_bounded_and_the_oldest_are_evicted() -> None:
    kept = FormerHistories(most=10)
    kept.keep(0, "a", [former(4)])
    kept.keep(1, "b", [former(4)])
    kept.keep(0, "a", [former(2, 5), former(4)])  # one of them is known already
    assert [len(each.rebalances) for each in kept.of("a")] == [4, 2]
    kept.keep(0, "c", [former(3)])
    assert kept.of("b") == ()
    assert [each.group_id for each in kept.of_partition(0)] == ["c", "a"]
    assert kept.of_partition(1) == []
    kept.keep(0, "d", [former(11)])
    assert [kept.of(each) for each in "abcd"] == [()] * 4
    kept.keep(0, "e", [former(1, number) for number in range(FORMER_COORDINATORS_MAX + 3)])
    assert kept.of("e")[0].since_wall_ms == 3
    assert len(kept.of("e")) == FORMER_COORDINATORS_MAX


def asked_to_keep(stage: HandlerStage) -> list[tuple[str, KeepHistories]]:
    return [
        (each.endpoint, each.request)
        for each in stage.link.asked
        if isinstance(each.request, KeepHistories)
    ]


def test_histories_are_sent_to_the_next_coordinator(stage: HandlerStage, tmp_path: Path) -> None:
    lead_offsets_topic(stage)
    one_member(stage)
    moved = a_topic(CONSUMER_OFFSETS_TOPIC, a_partition([OTHER, BROKER], leader_epoch=1))
    stage.update(moved)
    ((endpoint, message),) = asked_to_keep(stage)
    assert endpoint == a_broker(OTHER).control_endpoint
    with HandlerStage(tmp_path / "other", number=OTHER) as other:
        replies: list[object] = []
        other.link.receive(message, replies.append)
        assert isinstance(replies[0], Refusal)  # its metadata has no offsets topic yet
        other.update(moved)
        other.link.receive(message, replies.append)
        other.link.receive(message, replies.append)
        assert replies[1:] == [Acknowledged(ErrorCode.none)] * 2
        (known,) = explain(other).former
        assert (known.broker, len(known.rebalances)) == (BROKER, 1)
        # which sends them to its own successor
        other.update(a_topic(CONSUMER_OFFSETS_TOPIC, a_partition([THIRD, OTHER], leader_epoch=2)))
        ((_, again),) = asked_to_keep(other)
        assert again == message
        other.link.receive(KeepHistories((b"no history",)), replies.append)
        assert isinstance(replies[-1], Refusal)


def test_no_message_is_sent_without_histories(stage: HandlerStage) -> None:
    lead_offsets_topic(stage)
    stage.update(a_topic(CONSUMER_OFFSETS_TOPIC, a_partition([OTHER, BROKER], leader_epoch=1)))
    assert asked_to_keep(stage) == []


def test_message_with_histories_is_bounded(stage: HandlerStage) -> None:
    lead_offsets_topic(stage)
    for number in range(249):
        stage.core.groups.coordinator.former.keep(
            0, f"g{number}", [former(20, 1 << 40, broker=BROKER)]
        )
    stage.core.groups.coordinator.former.keep(0, "last", [former(20)])
    stage.update(a_topic(CONSUMER_OFFSETS_TOPIC, a_partition([OTHER, BROKER], leader_epoch=1)))
    ((_, message),) = asked_to_keep(stage)
    size = sum(map(len, message.histories))
    assert BYTES_MAX * 0.9 < size <= BYTES_MAX
    assert read_kept(message.histories[0]).group_id == "last"


def test_the_request_is_not_in_api_versions(stage: HandlerStage) -> None:
    answer = stage.connect().exchange(struct.pack(">hhih", 18, 0, 7, -1))
    assert answer is not None
    assert struct.pack(">h", OwnApiKey.EXPLAIN_GROUP) not in answer
