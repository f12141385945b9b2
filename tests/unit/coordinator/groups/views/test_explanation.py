"""The contents of `groups explain`, and their encoding."""

import contextlib
import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.consumer_protocol_assignment import v0, v3
from kio.schema.types import TopicName
from kio.serial import entity_writer
from kio.static.primitive import i32

from cluster.coordinator.groups.history.explanation import (
    ExplainAnswer,
    FormerCoordinator,
    GroupExplanation,
    pack_answer,
    pack_question,
    read_answer,
    read_question,
)
from cluster.coordinator.groups.history.rebalances import CauseKind
from cluster.coordinator.groups.requests import GroupProtocol, TopicPartitions
from cluster.coordinator.groups.shared.subscription import assigned_partitions
from cluster.coordinator.groups.views.queries import ExplainGroup, ListRebalances
from cluster.model.errors import ErrorCode, PeerError
from tests.support.group_stage import (
    DELAY_MS,
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    GroupStage,
    protocols,
)

PARTITIONS = st.lists(
    st.tuples(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
        st.lists(st.integers(0, 2**31 - 1), max_size=5),
    ),
    max_size=5,
)


def explained(stage: GroupStage) -> GroupExplanation:
    found = stage.ask(ExplainGroup(GROUP))
    assert found is not None
    return found


def assigned(*partitions: tuple[str, list[int]]) -> bytes:
    """A consumer's assignment, encoded by kio."""
    out = io.BytesIO()
    topics = tuple(
        v0.data.TopicPartition(topic=TopicName(name), partitions=tuple(map(i32, numbers)))
        for name, numbers in partitions
    )
    message = v0.ConsumerProtocolAssignment(assigned_partitions=topics, user_data=b"x")
    entity_writer(v0.ConsumerProtocolAssignment)(out, message)
    return struct.pack(">h", 0) + out.getvalue()


@given(PARTITIONS)
def test_assigned_partitions_reads_what_clients_write(partitions):
    expected = tuple(TopicPartitions(name, tuple(numbers)) for name, numbers in partitions)
    assert assigned_partitions(assigned(*partitions)) == expected
    topics = tuple(
        v3.data.TopicPartition(topic=TopicName(name), partitions=tuple(map(i32, numbers)))
        for name, numbers in partitions
    )
    out = io.BytesIO()
    message = v3.ConsumerProtocolAssignment(assigned_partitions=topics, user_data=None)
    entity_writer(v3.ConsumerProtocolAssignment)(out, message)
    assert assigned_partitions(struct.pack(">h", 3) + out.getvalue()) == expected


@given(st.binary(max_size=40))
def test_assigned_partitions_accepts_any_bytes(assignment):
    found = assigned_partitions(assignment)
    assert found is None or isinstance(found, tuple)


def test_a_stable_group_shows_assignments_and_last_requests():
    stage = GroupStage().loaded()
    (member_id, joins) = stage.join_new(client="billing")
    stage.pass_time(DELAY_MS)
    generation = stage.joined(joins).generation_id
    stage.sync(member_id, generation, {member_id: assigned(("orders", [1, 0]))})
    stage.pass_time(4_000)
    stage.heartbeat(member_id, generation)
    stage.pass_time(1_500)
    found = explained(stage)
    assert (found.group_type, found.state, found.protocol_name) == ("classic", "Stable", "range")
    (member,) = found.members
    assert found.leader == member.who
    assert (member.who.client_id, member.who.client_host) == ("billing", "/127.0.0.1")
    assert member.assigned == (TopicPartitions("orders", (1, 0)),)
    assert (member.quiet_ms, member.session_timeout_ms) == (1_500, SESSION_MS)
    assert member.has_synced
    assert found.waits_at_most_ms is None
    assert found.in_state_ms == 5_500
    assert found.state_times_ms["Stable"] == 5_500
    assert found.state_times_ms["PreparingRebalance"] == DELAY_MS


def test_a_running_rebalance_shows_its_remaining_time():
    stage = GroupStage().loaded()
    first, second = stage.stable(2)
    token = stage.leave(second)
    stage.pass_time(2_000)
    found = explained(stage)
    assert stage.answers[token]
    assert found.waits_at_most_ms == REBALANCE_MS - 2_000
    assert [(each.who.member_id, each.has_joined) for each in found.members] == [(first, False)]
    assert found.members[0].assigned is None  # the stage's assignment is not a consumer's
    stage.join(first)
    found = explained(stage)
    assert found.state == "CompletingRebalance"
    assert found.waits_at_most_ms == REBALANCE_MS
    assert not found.members[0].has_synced
    running = found.rebalances[-1]
    assert (running.leader, running.is_over) == (found.leader, False)


def test_an_unused_member_id_is_shown_as_expected():
    stage = GroupStage().loaded()
    (first,) = stage.stable(1)
    stage.join_new(client="second")
    stage.join(client="third")  # it is only assigned a member id
    stage.join(first)
    waits = explained(stage).rebalances[-1].slowest
    assert [(each.is_expected, each.has_joined) for each in waits] == [
        (True, False),
        (False, True),
        (False, True),
    ]
    assert waits[0].member.member_id.startswith("third-")


def test_a_cooperative_second_rebalance_changes_no_subscription():
    stage = GroupStage().loaded()
    first, _ = stage.stable(2)
    ((name, metadata),) = protocols()
    stage.join(first, offers=(GroupProtocol(name, metadata[:-4] + b"\0\0\0\1x"),))
    assert explained(stage).rebalances[-1].causes[0].kind is CauseKind.OWNED_PARTITIONS_CHANGED


def test_long_names_are_cut():
    stage = GroupStage().loaded()
    stage.join_new(client="c" * 5_000, reason="r" * 5_000)
    found = explained(stage)
    assert len(found.members[0].who.client_id) == 500
    assert len(found.rebalances[0].causes[0].detail) == 500
    assert len(pack_answer(answer(found))) < 10_000


def answer(group: GroupExplanation | None, *former: FormerCoordinator) -> ExplainAnswer:
    return ExplainAnswer(ErrorCode.none, 1, 2_000, 1_700_000_002_000, 5, group, former)


def test_an_answer_is_decoded_as_encoded():
    stage = GroupStage().loaded()
    first, second = stage.stable(2)
    stage.leave(second)
    stage.pass_time(1_000)
    stage.join_new(instance=None)
    stage.join(first)
    found = explained(stage)
    whole = answer(found, FormerCoordinator(2, 1, 4, found.rebalances))
    assert read_answer(pack_answer(whole)) == whole
    assert read_answer(pack_answer(answer(None))) == answer(None)
    assert read_question(pack_question("a group")) == "a group"


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x93\x01\x02\x03", pack_question("x" * 40_001)])
def test_malformed_questions_and_answers_are_refused(body):
    with pytest.raises(PeerError):
        read_answer(body)
    with pytest.raises(PeerError):
        read_question(body)


@given(st.binary(max_size=60))
def test_any_bytes_are_decoded_or_refused(body):
    with contextlib.suppress(PeerError):
        read_answer(body)


def test_an_unloaded_group_keeps_its_running_rebalance():
    stage = GroupStage().loaded()
    _, second = stage.stable(2)
    stage.leave(second)
    kept = stage.ask(ListRebalances())
    stage.unload()
    (done, abandoned) = kept[GROUP]
    assert (done.is_over, done.is_abandoned) == (True, False)
    assert (abandoned.is_over, abandoned.is_abandoned) == (True, True)
