"""JoinGroup: ids, the initial delay, the leader, the protocol, static members."""

import pytest

from cluster.coordinator.groups.requests import GroupProtocol, JoinedMember, LeavingMember
from cluster.coordinator.groups.shared.options import GroupOptions
from cluster.model.error_codes import ErrorCode
from tests.support.group_stage import (
    DELAY_MS,
    REBALANCE_MS,
    SESSION_MS,
    GroupStage,
    protocols,
    subscription,
)

NONE = ErrorCode.none


def test_a_new_member_joins_with_its_assigned_id():
    stage = GroupStage().loaded()
    refusal = stage.joined(stage.join(client="billing"))
    assert refusal.error is ErrorCode.member_id_required
    assert refusal.member_id == "billing-id-1"
    assert stage.described_classic().members == ()
    token = stage.join(refusal.member_id)
    stage.pass_time(DELAY_MS)
    reply = stage.joined(token)
    assert (reply.error, reply.member_id, reply.generation_id) == (NONE, refusal.member_id, 1)
    assert (reply.protocol_type, reply.protocol_name) == ("consumer", "range")
    assert reply.leader == refusal.member_id
    assert reply.members == (JoinedMember(refusal.member_id, None, subscription("orders")),)


def test_an_older_client_and_a_static_member_join_at_once():
    stage = GroupStage().loaded()
    older = stage.join(knows_ids=False)
    static = stage.join(instance="s-1")
    stage.pass_time(2 * DELAY_MS)
    assert stage.joined(older).member_id == "client-id-1"
    assert stage.joined(static).member_id == "s-1-id-2"


def test_an_unused_member_id_expires_with_its_group():
    stage = GroupStage().loaded()
    member_id = stage.joined(stage.join()).member_id
    stage.pass_time(SESSION_MS - 1)
    assert stage.state() == "Empty"
    stage.pass_time(1)
    assert stage.state() == "Dead"
    assert stage.joined(stage.join(member_id)).error is ErrorCode.unknown_member_id


def test_a_rebalance_waits_for_an_unused_member_id():
    stage = GroupStage().loaded()
    (first,) = stage.stable()
    second = stage.joined(stage.join()).member_id
    third, third_joins = stage.join_new()
    first_joins = stage.join(first)
    stage.pass_time(SESSION_MS - 1)
    assert stage.state() == "PreparingRebalance"
    stage.pass_time(1)
    assert stage.joined(first_joins).generation_id == 2
    assert [each.member_id for each in stage.joined(first_joins).members] == [first, third]
    assert stage.joined(third_joins).members == ()
    assert stage.joined(stage.join(second)).error is ErrorCode.unknown_member_id


def test_an_unused_member_id_can_leave():
    stage = GroupStage().loaded()
    (first,) = stage.stable()
    second = stage.joined(stage.join()).member_id
    third_joins = stage.join_new()[1]
    stage.join(first)
    assert third_joins not in stage.answers
    stage.leave(second)
    assert stage.joined(third_joins).generation_id == 2


def test_a_refused_first_join_creates_no_group():
    stage = GroupStage().loaded()
    reply = stage.joined(stage.join(offers=()))
    assert reply.error is ErrorCode.inconsistent_group_protocol
    reply = stage.joined(stage.join(protocol_type=""))
    assert reply.error is ErrorCode.inconsistent_group_protocol
    assert stage.state() == "Dead"
    assert stage.listed() == []


# ---------------------------------------------------------------------- the initial delay


def test_the_initial_delay_is_extended_while_members_join():
    stage = GroupStage().loaded()
    tokens = [stage.join_new(rebalance_ms=8_000)[1]]
    stage.pass_time(2_000)
    tokens.append(stage.join_new(rebalance_ms=8_000)[1])
    stage.pass_time(1_000)  # the delay has passed, but a member joined: 3 s more
    assert stage.state() == "PreparingRebalance"
    stage.pass_time(2_999)
    assert stage.state() == "PreparingRebalance"
    stage.pass_time(1)
    assert {stage.joined(token).generation_id for token in tokens} == {1}


def test_the_initial_delay_is_never_longer_than_the_rebalance_timeout():
    stage = GroupStage().loaded()
    stage.join_new(rebalance_ms=7_000)
    for _ in range(6):
        stage.pass_time(1_000)
        stage.join_new(rebalance_ms=7_000)
    stage.pass_time(999)
    assert stage.state() == "PreparingRebalance"
    stage.pass_time(1)
    assert stage.state() == "CompletingRebalance"


def test_the_first_member_starts_at_once_without_initial_delay():
    stage = GroupStage(GroupOptions(initial_rebalance_delay_ms=0)).loaded()
    _, token = stage.join_new()
    stage.pass_time(0)
    assert stage.joined(token).generation_id == 1


def test_an_emptied_group_has_the_initial_delay_again():
    stage = GroupStage().loaded()
    (first,) = stage.stable()
    stage.leave(first)
    _, token = stage.join_new()
    stage.pass_time(DELAY_MS - 1)
    assert token not in stage.answers
    stage.pass_time(1)
    assert stage.joined(token).generation_id == 3  # 2 was the empty one


# ---------------------------------------------------------------------- who leads, by what


def test_the_protocol_with_most_votes_is_selected():
    stage = GroupStage().loaded()
    offers = [("sticky", "range", "robin"), ("robin", "range"), ("range", "robin")]
    tokens = [stage.join_new(offers=protocols(*each))[1] for each in offers]
    stage.pass_time(4 * DELAY_MS)
    # sticky is not supported by all, so the first one votes for range
    assert {stage.joined(token).protocol_name for token in tokens} == {"range"}


def test_a_member_without_a_protocol_in_common_is_refused():
    stage = GroupStage().loaded()
    stage.join_new(offers=protocols("sticky", "range"))
    stage.join_new(offers=protocols("robin", "range"))
    refused = stage.joined(stage.join(offers=protocols("sticky", "robin")))
    assert refused.error is ErrorCode.inconsistent_group_protocol
    other_type = stage.joined(stage.join(protocol_type="connect"))
    assert other_type.error is ErrorCode.inconsistent_group_protocol


@pytest.mark.parametrize("protocol_type", ["connect", "sr"])
def test_any_protocol_type_and_metadata_are_accepted(protocol_type):
    stage = GroupStage().loaded()
    (member_id,) = stage.stable(protocol_type=protocol_type)
    described = stage.described_classic()
    assert (described.protocol_type, described.state) == (protocol_type, "Stable")
    assert stage.heartbeat(member_id, 1) is NONE


def test_only_the_leader_sees_the_members():
    stage = GroupStage().loaded()
    joins = [stage.join_new() for _ in range(3)]
    stage.pass_time(4 * DELAY_MS)
    replies = [stage.joined(token) for _, token in joins]
    assert {reply.leader for reply in replies} == {joins[0][0]}
    assert [len(reply.members) for reply in replies] == [3, 0, 0]


def test_another_member_leads_when_the_leader_does_not_rejoin():
    stage = GroupStage().loaded()
    leader, second = stage.stable(2)
    third, _ = stage.join_new()
    token = stage.join(second)
    stage.pass_time(SESSION_MS)  # the leader has sent no heartbeat
    reply = stage.joined(token)
    assert reply.leader == second
    assert {each.member_id for each in reply.members} == {second, third}
    assert stage.heartbeat(leader, 2) is ErrorCode.unknown_member_id


# ---------------------------------------------------------------------- joining again


def test_a_follower_that_rejoins_unchanged_gets_the_current_generation():
    stage = GroupStage().loaded()
    leader, follower = stage.stable(2)
    reply = stage.joined(stage.join(follower))
    assert (reply.error, reply.generation_id, reply.leader) == (NONE, 1, leader)
    assert reply.members == ()
    assert stage.state() == "Stable"


def test_a_follower_with_another_subscription_starts_a_rebalance():
    stage = GroupStage().loaded()
    leader, follower = stage.stable(2)
    token = stage.join(follower, offers=protocols("range", topics=["orders", "bills"]))
    assert stage.state() == "PreparingRebalance"
    leader_joins = stage.join(leader)
    assert stage.joined(token).generation_id == 2
    seen = {each.member_id: each.metadata for each in stage.joined(leader_joins).members}
    assert seen[follower] == subscription("orders", "bills")


def test_a_repeated_join_replaces_the_earlier_one():
    stage = GroupStage().loaded()
    member_id, first = stage.join_new()
    second = stage.join(member_id)
    assert stage.joined(first).error is ErrorCode.rebalance_in_progress
    stage.pass_time(2 * DELAY_MS)
    assert stage.joined(second).generation_id == 1


@pytest.mark.parametrize(
    "change",
    [
        {"instance": "i" * (0x8000 - 37)},
        {"client": "c" * (0x8000 - 37)},
        {"protocol_type": "t" * 0x8000},
        {"offers": (*protocols(), GroupProtocol("é" * 0x4000, b""))},
    ],
)
def test_a_join_is_refused_when_its_record_would_be_too_large(change):
    stage = GroupStage().loaded()
    assert stage.joined(stage.join(**change)).error is ErrorCode.invalid_request
    assert stage.state() == "Dead"


# ---------------------------------------------------------------------- group.max.size


def test_a_full_group_refuses_new_members():
    stage = GroupStage(GroupOptions(max_size=2)).loaded()
    members = stage.stable(2)
    refused = stage.joined(stage.join())
    assert (refused.error, refused.member_id) == (ErrorCode.group_max_size_reached, "")
    assert stage.heartbeat(members[1], 1) is NONE


def test_assigned_ids_do_not_exceed_the_group_size():
    stage = GroupStage(GroupOptions(max_size=2)).loaded()
    ids = [stage.joined(stage.join()).member_id for _ in range(3)]
    tokens = [stage.join(member_id) for member_id in ids]
    assert stage.joined(tokens[2]).error is ErrorCode.group_max_size_reached
    stage.pass_time(3 * DELAY_MS)
    assert [stage.joined(token).error for token in tokens[:2]] == [NONE, NONE]


def test_a_loaded_group_that_is_too_large_loses_the_last_to_join():
    stage = GroupStage().loaded()
    members = stage.stable(3)
    smaller = GroupStage(GroupOptions(max_size=2)).loaded(stage.log)
    assert smaller.state() == "PreparingRebalance"
    tokens = [smaller.join(member_id) for member_id in members]
    assert smaller.joined(tokens[2]).error is ErrorCode.group_max_size_reached
    assert [smaller.joined(token).generation_id for token in tokens[:2]] == [2, 2]


# ---------------------------------------------------------------------- static members


def a_static_group(stage: GroupStage, *, skips: bool = True) -> tuple[str, str]:
    """The ids of an assigned leader with instance id s-1 and follower s-2."""
    joins = [stage.join(instance=f"s-{number}", skips=skips) for number in (1, 2)]
    stage.pass_time(3 * DELAY_MS)
    leader, follower = (stage.joined(token).member_id for token in joins)
    stage.assign([(leader, joins[0]), (follower, joins[1])])
    return leader, follower


def test_a_static_follower_returns_without_a_rebalance():
    stage = GroupStage().loaded()
    leader, follower = a_static_group(stage)
    reply = stage.joined(stage.join(instance="s-2"))
    assert reply.error is NONE
    assert reply.member_id not in (leader, follower)
    assert (reply.generation_id, reply.leader, reply.members) == (1, leader, ())
    assert stage.state() == "Stable"
    again = stage.synced(stage.sync(reply.member_id, 1, instance="s-2"))
    assert again.assignment == follower.encode()
    # the earlier one is fenced
    assert stage.heartbeat(follower, 1, instance="s-2") is ErrorCode.fenced_instance_id
    assert stage.heartbeat(follower, 1) is ErrorCode.unknown_member_id
    fenced = stage.joined(stage.join(follower, instance="s-2"))
    assert fenced.error is ErrorCode.fenced_instance_id


def test_a_static_leader_returns_and_skips_the_assignment():
    stage = GroupStage().loaded()
    _, follower = a_static_group(stage)
    reply = stage.joined(stage.join(instance="s-1"))
    assert reply.skip_assignment
    assert reply.leader == reply.member_id
    assert {each.member_id for each in reply.members} == {reply.member_id, follower}


def test_an_older_static_leader_is_not_told_that_it_leads():
    stage = GroupStage().loaded()
    leader, _ = a_static_group(stage, skips=False)
    reply = stage.joined(stage.join(instance="s-1", skips=False))
    assert (reply.leader, reply.members, reply.skip_assignment) == (leader, (), False)


def test_the_new_id_of_a_static_member_is_answered_when_it_is_stored():
    stage = GroupStage().loaded()
    _, follower = a_static_group(stage)
    stage.holds_appends = True
    token = stage.join(instance="s-2")
    assert token not in stage.answers
    stage.settle()
    new_id = stage.joined(token).member_id
    successor = stage.reloaded()
    assert successor.heartbeat(new_id, 1, instance="s-2") is NONE
    assert successor.heartbeat(follower, 1, instance="s-2") is ErrorCode.fenced_instance_id
    assert successor.synced(successor.sync(new_id, 1)).assignment == follower.encode()


def test_a_new_id_that_is_not_stored_is_rolled_back():
    stage = GroupStage().loaded()
    leader, follower = a_static_group(stage)
    stage.holds_appends = True
    token = stage.join(instance="s-2")
    stage.settle(ErrorCode.not_enough_replicas)
    reply = stage.joined(token)
    assert (reply.error, reply.member_id) == (ErrorCode.coordinator_not_available, "")
    assert stage.heartbeat(follower, 1, instance="s-2") is NONE
    assert stage.heartbeat(leader, 1, instance="s-1") is NONE


def test_a_rebalance_while_a_new_id_is_stored_answers_it():
    stage = GroupStage().loaded()
    leader, _ = a_static_group(stage)
    stage.holds_appends = True
    token = stage.join(instance="s-2")
    stage.join(instance="s-3")
    stage.join(leader, instance="s-1")
    assert stage.joined(token).generation_id == 2
    stage.settle(ErrorCode.not_enough_replicas)
    assert stage.heartbeat(stage.joined(token).member_id, 2, instance="s-2") is NONE


def test_a_static_member_with_another_protocol_starts_a_rebalance():
    stage = GroupStage().loaded()
    tokens = [stage.join(instance=f"s-{n}", offers=protocols("range", "robin")) for n in (1, 2, 3)]
    stage.pass_time(4 * DELAY_MS)
    ids = [stage.joined(token).member_id for token in tokens]
    stage.assign(list(zip(ids, tokens, strict=True)))
    stage.join(instance="s-3", offers=protocols("robin", "range"))
    assert stage.state() == "Stable"  # two of three still prefer range
    stage.join(instance="s-2", offers=protocols("robin", "range"))
    assert stage.state() == "PreparingRebalance"


def test_a_static_member_that_returns_before_the_assignment_starts_a_rebalance():
    stage = GroupStage().loaded()
    tokens = [stage.join(instance=f"s-{number}") for number in (1, 2)]
    stage.pass_time(3 * DELAY_MS)
    leader, follower = (stage.joined(token).member_id for token in tokens)
    waiting = stage.sync(follower, 1)
    back = stage.join(instance="s-2")
    assert stage.synced(waiting).error is ErrorCode.fenced_instance_id
    assert stage.state() == "PreparingRebalance"
    stage.join(leader, instance="s-1")
    assert stage.joined(back).generation_id == 2


def test_the_second_join_with_an_instance_id_fences_the_first():
    stage = GroupStage().loaded()
    first = stage.join(instance="s-1")
    second = stage.join(instance="s-1")
    assert stage.joined(first).error is ErrorCode.fenced_instance_id
    stage.pass_time(2 * DELAY_MS)
    reply = stage.joined(second)
    assert (reply.error, len(reply.members)) == (NONE, 1)


def test_a_static_member_that_does_not_rejoin_stays_until_its_session_expires():
    stage = GroupStage().loaded()
    tokens = [
        stage.join(instance=f"s-{n}", session_ms=600_000, rebalance_ms=20_000) for n in (1, 2)
    ]
    stage.pass_time(3 * DELAY_MS)
    ids = [stage.joined(token).member_id for token in tokens]
    stage.assign(list(zip(ids, tokens, strict=True)))
    stage.join(instance="s-3", session_ms=600_000, rebalance_ms=20_000)
    again = stage.join(ids[1], instance="s-2")
    stage.pass_time(60_000)
    reply = stage.joined(again)
    assert {each.group_instance_id for each in reply.members} == {"s-1", "s-2", "s-3"}
    assert reply.leader == ids[1]


def test_absent_static_members_stay_until_their_sessions_expire():
    stage = GroupStage().loaded()
    token = stage.join(instance="s-1", session_ms=120_000, rebalance_ms=20_000)
    stage.pass_time(2 * DELAY_MS)
    member_id = stage.joined(token).member_id
    stage.assign([(member_id, token)])
    second, _ = stage.join_new(rebalance_ms=20_000)
    stage.leave(second)
    stage.pass_time(100_000)
    assert stage.state() == "PreparingRebalance"
    stage.pass_time(30_000)
    assert stage.state() == "Empty"


def test_an_administrator_removes_a_static_member():
    stage = GroupStage().loaded()
    leader, follower = a_static_group(stage)
    reply = stage.answers[stage.leave(LeavingMember("", "s-2"))]
    assert [(each.member_id, each.group_instance_id, each.error) for each in reply.members] == [
        ("", "s-2", NONE)
    ]
    assert stage.heartbeat(follower, 1, instance="s-2") is ErrorCode.unknown_member_id
    assert stage.heartbeat(leader, 1, instance="s-1") is ErrorCode.rebalance_in_progress


def test_a_rejoining_member_gets_its_new_timeouts():
    stage = GroupStage().loaded()
    (member_id,) = stage.stable()
    token = stage.join(member_id, session_ms=30_000, rebalance_ms=REBALANCE_MS)
    stage.sync(member_id, stage.joined(token).generation_id, {})
    stage.pass_time(29_999)
    assert stage.state() == "Stable"
    stage.pass_time(1)
    assert stage.state() == "Empty"
