"""Every event in every state of a group: the table, compared with Kafka's behavior."""

import pytest

from cluster.coordinator.groups.requests import LeavingMember
from cluster.coordinator.groups.state.classic_states import RULES, GroupState
from cluster.model.error_codes import ErrorCode
from tests.support.group_stage import GROUP, GroupStage, protocols

ERROR = ErrorCode
STATES = ["Dead", "Empty", "PreparingRebalance", "CompletingRebalance", "Stable"]


def a_group(state: str) -> tuple[GroupStage, str, int]:
    """The id and generation of the static member and leader `s-1` of a group in this state.

    In the states without members, it was a member before.
    """
    stage = GroupStage().loaded()
    stage.join(instance="s-1")
    stage.pass_time(10_000)
    (member_id,) = [each.member_id for each in stage.described_classic().members]
    generation = 1
    if state == "Dead":
        stage.leave(member_id)
        stage.delete_groups(GROUP)
    elif state == "Empty":
        stage.leave(member_id)
    elif state != "CompletingRebalance":
        stage.sync(member_id, generation, {member_id: b"all"})
    if state == "PreparingRebalance":
        stage.join(instance="s-2")
    assert stage.state() == state
    return stage, member_id, generation


def test_the_table_has_every_state_and_transition():
    assert set(RULES) == set(GroupState)
    assert {state.value for state in GroupState} == set(STATES)
    ways = {
        (before.value, after.value) for after, rules in RULES.items() for before in rules.comes_from
    }
    # Kafka: `ClassicGroupState`
    assert ways - {("Dead", "Dead")} == {
        ("Empty", "PreparingRebalance"),
        ("Stable", "PreparingRebalance"),
        ("CompletingRebalance", "PreparingRebalance"),
        ("PreparingRebalance", "CompletingRebalance"),
        ("CompletingRebalance", "Stable"),
        ("PreparingRebalance", "Empty"),
        ("Empty", "Dead"),
        ("PreparingRebalance", "Dead"),
        ("CompletingRebalance", "Dead"),
        ("Stable", "Dead"),
    }


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("Dead", ERROR.unknown_member_id),
        ("Empty", ERROR.unknown_member_id),
        ("PreparingRebalance", ERROR.rebalance_in_progress),
        ("CompletingRebalance", ERROR.none),
        ("Stable", ERROR.none),
    ],
)
def test_heartbeat_is_answered_by_state(state, expected):
    stage, member_id, generation = a_group(state)
    assert stage.heartbeat(member_id, generation) is expected
    assert stage.heartbeat(member_id, generation, instance="s-1") is expected


@pytest.mark.parametrize("state", STATES[2:])
def test_heartbeat_of_another_client_is_refused(state):
    stage, member_id, generation = a_group(state)
    assert stage.heartbeat("nobody", generation) is ERROR.unknown_member_id
    assert stage.heartbeat("", generation) is ERROR.unknown_member_id
    assert stage.heartbeat(member_id, generation - 1) is ERROR.illegal_generation
    assert stage.heartbeat(member_id, generation + 1) is ERROR.illegal_generation
    assert stage.heartbeat(member_id, -1) is ERROR.illegal_generation
    assert stage.heartbeat("other", generation, instance="s-1") is ERROR.fenced_instance_id
    assert stage.heartbeat(member_id, generation, instance="s-9") is ERROR.unknown_member_id


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("Dead", ERROR.unknown_member_id),
        ("Empty", ERROR.unknown_member_id),
        ("PreparingRebalance", ERROR.rebalance_in_progress),
        ("CompletingRebalance", ERROR.none),
        ("Stable", ERROR.none),
    ],
)
def test_sync_is_answered_by_state(state, expected):
    stage, member_id, generation = a_group(state)
    reply = stage.synced(stage.sync(member_id, generation, {member_id: b"all"}))
    assert reply.error is expected
    assert reply.assignment == (b"all" if expected is ERROR.none else b"")
    kind = ("consumer", "range") if expected is ERROR.none else (None, None)
    assert (reply.protocol_type, reply.protocol_name) == kind


@pytest.mark.parametrize("state", STATES[2:])
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"member_id": "nobody"}, ERROR.unknown_member_id),
        ({"generation": 0}, ERROR.illegal_generation),
        ({"generation": 2}, ERROR.illegal_generation),
        ({"member_id": "other", "instance": "s-1"}, ERROR.fenced_instance_id),
        ({"instance": "s-9"}, ERROR.unknown_member_id),
        ({"protocol_type": "connect"}, ERROR.inconsistent_group_protocol),
        ({"protocol_name": "sticky"}, ERROR.inconsistent_group_protocol),
    ],
)
def test_invalid_sync_is_refused(state, change, expected):
    stage, member_id, generation = a_group(state)
    request = {"member_id": member_id, "generation": generation} | change
    assert stage.synced(stage.sync(**request)).error is expected


@pytest.mark.parametrize(
    ("state", "by_member", "anonymously"),
    [
        ("Dead", ERROR.illegal_generation, ERROR.none),
        ("Empty", ERROR.unknown_member_id, ERROR.none),
        ("PreparingRebalance", ERROR.none, ERROR.unknown_member_id),
        ("CompletingRebalance", ERROR.rebalance_in_progress, ERROR.unknown_member_id),
        ("Stable", ERROR.none, ERROR.unknown_member_id),
    ],
)
def test_commit_is_answered_by_state(state, by_member, anonymously):
    stage, member_id, generation = a_group(state)
    token = stage.commit({("orders", 0): 7}, member_id, generation)
    assert stage.commit_errors(token) == [by_member]
    assert stage.committed() == ({("orders", 0): 7} if by_member is ERROR.none else {})
    stage, *_ = a_group(state)
    assert stage.commit_errors(stage.commit({("orders", 0): 8})) == [anonymously]
    assert stage.committed() == ({("orders", 0): 8} if anonymously is ERROR.none else {})


@pytest.mark.parametrize("state", STATES[2:])
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"member_id": "nobody"}, ERROR.unknown_member_id),
        ({"generation": 0}, ERROR.illegal_generation),
        ({"generation": -1}, ERROR.illegal_generation),
        ({"member_id": "other", "instance": "s-1"}, ERROR.fenced_instance_id),
        ({"member_id": "", "generation": -1, "instance": "s-9"}, ERROR.unknown_member_id),
    ],
)
def test_invalid_commit_is_refused(state, change, expected):
    stage, member_id, generation = a_group(state)
    request = {"member_id": member_id, "generation": generation} | change
    assert stage.commit_errors(stage.commit(**request)) == [expected]
    assert stage.committed() == {}


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("Dead", ERROR.unknown_member_id),
        ("Empty", ERROR.unknown_member_id),
        ("PreparingRebalance", ERROR.none),
        ("CompletingRebalance", ERROR.none),
        ("Stable", ERROR.none),
    ],
)
@pytest.mark.parametrize("by_instance", [False, True])
def test_leave_is_answered_by_state(state, expected, by_instance):
    stage, member_id, _ = a_group(state)
    leaving = LeavingMember("", "s-1") if by_instance else LeavingMember(member_id)
    reply = stage.answers[stage.leave(leaving)]
    assert reply.error is ERROR.none
    assert [each.error for each in reply.members] == [expected]
    # without its only member the group is empty; the rebalancing group has another one
    after = {"Dead": "Dead", "PreparingRebalance": "CompletingRebalance"}.get(state, "Empty")
    assert stage.state() == after


@pytest.mark.parametrize("state", STATES[2:])
def test_leave_of_another_client_is_refused(state):
    stage, member_id, _ = a_group(state)
    leaving = [
        LeavingMember("nobody"),
        LeavingMember("other", "s-1"),
        LeavingMember(member_id, "s-9"),
        LeavingMember("", "s-9"),
        LeavingMember(""),
    ]
    reply = stage.answers[stage.leave(*leaving)]
    unknown = ERROR.unknown_member_id
    expected = [unknown, ERROR.fenced_instance_id, unknown, unknown, unknown]
    assert [each.error for each in reply.members] == expected
    assert stage.state() == state


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("Dead", ERROR.group_id_not_found),
        ("Empty", ERROR.none),
        ("PreparingRebalance", ERROR.non_empty_group),
        ("CompletingRebalance", ERROR.non_empty_group),
        ("Stable", ERROR.non_empty_group),
    ],
)
def test_delete_group_is_answered_by_state(state, expected):
    stage, *_ = a_group(state)
    (deleted,) = stage.answers[stage.delete_groups(GROUP)].groups
    assert deleted == (GROUP, expected)
    assert stage.state() == ("Dead" if expected is ERROR.none else state)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("Dead", [ERROR.group_id_not_found]),
        ("Empty", [ERROR.none, ERROR.none]),
        ("PreparingRebalance", [ERROR.group_subscribed_to_topic, ERROR.none]),
        ("CompletingRebalance", [ERROR.group_subscribed_to_topic, ERROR.none]),
        ("Stable", [ERROR.group_subscribed_to_topic, ERROR.none]),
    ],
)
def test_delete_offsets_is_answered_by_state(state, expected):
    stage, *_ = a_group(state)
    reply = stage.answers[stage.delete_offsets(("orders", 0), ("bills", 0))]
    errors = [each.error for each in reply.partitions] or [reply.error]
    assert errors == expected


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("Dead", ERROR.unknown_member_id),
        ("Empty", ERROR.unknown_member_id),
        ("PreparingRebalance", None),
        ("CompletingRebalance", ERROR.none),
        ("Stable", None),
    ],
)
def test_unchanged_join_of_the_leader_is_answered_by_state(state, expected):
    stage, member_id, generation = a_group(state)
    token = stage.join(member_id, instance="s-1")
    if expected is None:
        assert stage.state() in ("PreparingRebalance", "CompletingRebalance")
        assert token not in stage.answers or stage.joined(token).generation_id == generation + 1
        return
    reply = stage.joined(token)
    assert reply.error is expected
    assert stage.state() == state
    if expected is ERROR.none:
        assert (reply.generation_id, reply.leader) == (generation, member_id)
        assert [each.member_id for each in reply.members] == [member_id]


@pytest.mark.parametrize("state", STATES[2:])
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"member_id": "nobody", "instance": None}, ERROR.unknown_member_id),
        ({"member_id": "other"}, ERROR.fenced_instance_id),
        ({"instance": "s-9"}, ERROR.unknown_member_id),
        ({"protocol_type": "connect"}, ERROR.inconsistent_group_protocol),
        ({"offers": protocols("sticky")}, ERROR.inconsistent_group_protocol),
        ({"offers": ()}, ERROR.inconsistent_group_protocol),
        ({"session_ms": 5_999}, ERROR.invalid_session_timeout),
        ({"session_ms": 1_800_001}, ERROR.invalid_session_timeout),
    ],
)
def test_invalid_join_is_refused(state, change, expected):
    stage, member_id, _ = a_group(state)
    request = {"member_id": member_id, "instance": "s-1"} | change
    reply = stage.joined(stage.join(**request))
    assert reply.error is expected
    assert reply.member_id == request["member_id"]
    assert reply.generation_id == -1
    assert stage.state() == state
