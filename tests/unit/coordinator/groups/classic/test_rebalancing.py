"""The phases of a rebalance: timeouts, stored and failed assignments, unloading."""

import pytest

from cluster.coordinator.groups.classic.rebalancing import NEW_MEMBER_JOIN_TIMEOUT_MS
from cluster.coordinator.groups.history.rebalances import CauseKind
from cluster.coordinator.groups.requests import LeavingMember
from cluster.coordinator.groups.shared.options import GroupOptions
from cluster.coordinator.groups.views.queries import MeasureProgress
from cluster.model.error_codes import ErrorCode
from tests.support.group_stage import DELAY_MS, GROUP, REBALANCE_MS, SESSION_MS, GroupStage

NONE = ErrorCode.none


def keep_alive(stage: GroupStage, member_ids: list[str], generation: int, duration_ms: int) -> None:
    """Let whole seconds pass, in which these members send heartbeats."""
    for _ in range(duration_ms // 1_000):
        stage.pass_time(1_000)
        for member_id in member_ids:
            stage.heartbeat(member_id, generation)


# ---------------------------------------------------------------------- sessions


def test_a_member_is_removed_after_its_session_timeout():
    stage = GroupStage().loaded()
    first, second = stage.stable(2)
    keep_alive(stage, [first], 1, SESSION_MS - 1_000)
    assert stage.heartbeat(first, 1) is NONE
    stage.pass_time(1_000)
    assert stage.heartbeat(first, 1) is ErrorCode.rebalance_in_progress
    assert stage.heartbeat(second, 1) is ErrorCode.unknown_member_id
    reply = stage.joined(stage.join(first))
    assert [each.member_id for each in reply.members] == [first]
    cause = stage.rebalances()[-1].causes[0]
    assert (cause.kind, cause.member.member_id, cause.timeout_ms) == (
        CauseKind.SESSION_TIMEOUT,
        second,
        SESSION_MS,
    )


@pytest.mark.parametrize("what", ["heartbeat", "commit", "sync"])
def test_requests_of_a_member_restart_its_session(what):
    stage = GroupStage().loaded()
    (member_id,) = stage.stable()
    for _ in range(5):
        stage.pass_time(SESSION_MS - 1)
        if what == "heartbeat":
            assert stage.heartbeat(member_id, 1) is NONE
        elif what == "commit":
            assert stage.commit_errors(stage.commit(None, member_id, 1)) == [NONE]
        else:
            assert stage.synced(stage.sync(member_id, 1)).error is NONE
    stage.pass_time(SESSION_MS)
    assert stage.state() == "Empty"


def test_a_member_does_not_time_out_while_its_join_waits():
    stage = GroupStage().loaded()
    first, second = stage.stable(2)
    stage.join_new()
    waiting = stage.join(first)
    keep_alive(stage, [second], 1, REBALANCE_MS - 1_000)
    assert stage.state() == "PreparingRebalance"
    stage.pass_time(1_000)
    assert stage.joined(waiting).generation_id == 2


def test_a_member_does_not_time_out_while_its_sync_waits():
    stage = GroupStage().loaded()
    leader, follower = stage.completing(2)
    waiting = stage.sync(follower, 1)
    keep_alive(stage, [leader], 1, SESSION_MS * 3)
    stage.sync(leader, 1, {follower: b"half"})
    assert stage.synced(waiting).assignment == b"half"


def test_the_join_of_a_new_member_times_out_after_five_minutes():
    stage = GroupStage().loaded()
    timeout_ms = NEW_MEMBER_JOIN_TIMEOUT_MS * 2
    old = stage.stable(rebalance_ms=timeout_ms)
    _, token = stage.join_new(rebalance_ms=timeout_ms)
    keep_alive(stage, old, 1, NEW_MEMBER_JOIN_TIMEOUT_MS - 1_000)
    assert token not in stage.answers
    keep_alive(stage, old, 1, 1_000)
    assert stage.joined(token).error is ErrorCode.unknown_member_id
    assert stage.state() == "PreparingRebalance"


# ---------------------------------------------------------------------- rebalance timeout


def test_members_that_do_not_rejoin_are_removed_after_the_rebalance_timeout():
    stage = GroupStage().loaded()
    first, second = stage.stable(2, rebalance_ms=20_000)
    third, token = stage.join_new(rebalance_ms=30_000)
    again = stage.join(first, rebalance_ms=20_000)
    keep_alive(stage, [second], 1, 29_000)
    assert stage.state() == "PreparingRebalance"  # the longest timeout counts
    stage.pass_time(1_000)
    assert stage.joined(token).generation_id == 2
    assert {each.member_id for each in stage.joined(again).members} == {first, third}
    assert stage.heartbeat(second, 1) is ErrorCode.unknown_member_id
    rebalance = stage.rebalances()[-1]
    assert [(cause.kind, cause.timeout_ms) for cause in rebalance.causes] == [
        (CauseKind.MEMBER_JOINED, None),
        (CauseKind.JOIN_TIMEOUT, 30_000),
    ]


def test_a_member_that_does_not_sync_is_removed_after_the_rebalance_timeout():
    stage = GroupStage().loaded()
    leader, follower = stage.completing(2, rebalance_ms=20_000)
    stage.sync(leader, 1, {leader: b"a", follower: b"b"})
    assert stage.state() == "Stable"
    keep_alive(stage, [leader, follower], 1, 20_000 - DELAY_MS - 1_000)
    assert stage.state() == "Stable"
    stage.pass_time(1_000)
    assert stage.heartbeat(follower, 1) is ErrorCode.unknown_member_id
    assert stage.heartbeat(leader, 1) is ErrorCode.rebalance_in_progress


def test_followers_rejoin_when_the_leader_does_not_sync():
    stage = GroupStage().loaded()
    leader, follower = stage.completing(2, rebalance_ms=20_000)
    waiting = stage.sync(follower, 1)
    keep_alive(stage, [leader], 1, 20_000)
    assert stage.synced(waiting).error is ErrorCode.rebalance_in_progress
    reply = stage.joined(stage.join(follower))
    assert (reply.generation_id, reply.leader) == (2, follower)
    assert stage.heartbeat(leader, 1) is ErrorCode.unknown_member_id


def test_members_stay_after_the_rebalance_timeout_when_all_have_synced():
    stage = GroupStage().loaded()
    members = stage.stable(2, rebalance_ms=20_000)
    keep_alive(stage, members, 1, 60_000)
    assert stage.state() == "Stable"


# ---------------------------------------------------------------------- the assignment


def test_assignments_are_sent_when_they_are_stored():
    stage = GroupStage().loaded()
    leader, follower = stage.completing(2)
    stage.holds_appends = True
    waiting = stage.sync(follower, 1)
    leaders = stage.sync(leader, 1, {leader: b"a", "nobody": b"x"})
    assert stage.answers.keys().isdisjoint({waiting, leaders})
    assert stage.state() == "CompletingRebalance"
    stage.settle()
    assert stage.synced(leaders).assignment == b"a"
    assert stage.synced(waiting).assignment == b""  # the leader left it out
    assert stage.state() == "Stable"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ErrorCode.not_enough_replicas, ErrorCode.coordinator_not_available),
        (ErrorCode.unknown_topic_or_partition, ErrorCode.coordinator_not_available),
        (ErrorCode.not_leader_or_follower, ErrorCode.not_coordinator),
        (ErrorCode.kafka_storage_error, ErrorCode.not_coordinator),
        (ErrorCode.message_too_large, ErrorCode.unknown_server_error),
        (ErrorCode.invalid_required_acks, ErrorCode.invalid_required_acks),
    ],
)
def test_an_assignment_that_is_not_stored_starts_a_rebalance(error, expected):
    stage = GroupStage().loaded()
    leader, follower = stage.completing(2)
    stage.holds_appends = True
    waiting = stage.sync(follower, 1)
    leaders = stage.sync(leader, 1, {leader: b"a", follower: b"b"})
    stage.settle(error)
    assert {stage.synced(token).error for token in (waiting, leaders)} == {expected}
    assert stage.state() == "PreparingRebalance"
    stage.holds_appends = False
    joins = [(member_id, stage.join(member_id)) for member_id in (leader, follower)]
    stage.assign(joins)


def test_a_late_append_is_answered_and_its_outcome_is_ignored():
    stage = GroupStage().loaded()
    (leader,) = stage.completing()
    stage.holds_appends = True
    token = stage.sync(leader, 1, {leader: b"a"})
    (append,) = stage.in_flight
    stage.perform(stage.shard.on_append_late(append.append_id, stage.now))
    assert stage.synced(token).error is ErrorCode.coordinator_not_available
    assert stage.state() == "PreparingRebalance"
    stage.settle()
    assert stage.state() == "PreparingRebalance"


def test_a_new_member_invalidates_an_assignment_that_is_being_stored():
    stage = GroupStage().loaded()
    (leader,) = stage.completing()
    stage.holds_appends = True
    token = stage.sync(leader, 1, {leader: b"a"})
    stage.join_new()
    assert stage.synced(token).error is ErrorCode.rebalance_in_progress
    stage.settle()
    assert stage.state() == "PreparingRebalance"


def test_a_member_that_leaves_while_it_waits_for_its_assignment_is_answered():
    stage = GroupStage().loaded()
    leader, follower = stage.completing(2)
    token = stage.sync(follower, 1)
    stage.leave(follower)
    assert stage.synced(token).error is ErrorCode.unknown_member_id
    assert stage.heartbeat(leader, 1) is ErrorCode.rebalance_in_progress


def test_a_repeated_sync_replaces_the_earlier_one():
    stage = GroupStage().loaded()
    leader, follower = stage.completing(2)
    earlier = stage.sync(follower, 1)
    later = stage.sync(follower, 1)
    assert stage.synced(earlier).error is ErrorCode.rebalance_in_progress
    stage.sync(leader, 1, {follower: b"b"})
    assert stage.synced(later).assignment == b"b"


# ---------------------------------------------------------------------- the end of a shard


def test_the_successor_knows_the_members_and_their_assignments():
    stage = GroupStage().loaded()
    members = stage.stable(3)
    successor = stage.reloaded()
    assert successor.described_classic() == stage.described_classic()
    assert [successor.heartbeat(member_id, 1) for member_id in members] == [NONE] * 3
    successor.pass_time(SESSION_MS - 1)
    assert successor.state() == "Stable"
    successor.pass_time(1)  # no heartbeat reached the new one
    assert successor.state() == "Empty"


def test_unload_answers_all_waiting_requests():
    stage = GroupStage(GroupOptions(initial_rebalance_delay_ms=0)).loaded()
    leader, follower = stage.completing(2)
    stage.holds_appends = True
    tokens = [stage.sync(follower, 1), stage.sync(leader, 1, {})]
    commits = stage.commit(group="another")
    joins = stage.join(group="third", instance="s-1")
    stage.unload()
    assert {stage.synced(token).error for token in tokens} == {ErrorCode.not_coordinator}
    assert stage.commit_errors(commits) == [ErrorCode.not_coordinator]
    assert stage.joined(joins).error is ErrorCode.not_coordinator
    stage.settle(ErrorCode.not_leader_or_follower)
    assert stage.answers.keys() == stage.asked.keys()


def test_an_empty_shard_has_no_deadline_but_the_expiry_check():
    stage = GroupStage().loaded()
    interval_ms = stage.options.retention_check_interval_ms
    assert stage.shard.next_deadline_ms() == stage.now_ms + interval_ms
    stage.pass_time(interval_ms)
    assert stage.shard.next_deadline_ms() == stage.now_ms + interval_ms


def test_the_time_in_each_state_is_measured():
    stage = GroupStage().loaded()
    (member_id,) = stage.completing()
    stage.pass_time(500)
    stage.sync(member_id, 1, {})
    keep_alive(stage, [member_id], 1, 7_000)
    stage.leave(member_id)
    stage.pass_time(300)
    assert stage.ask(MeasureProgress(GROUP)).state_times_ms == {
        "Empty": 300,
        "PreparingRebalance": DELAY_MS,
        "CompletingRebalance": DELAY_MS + 500,  # the stage passes twice the delay
        "Stable": 7_000,
    }
    assert stage.ask(MeasureProgress("nobody")) is None


def test_absent_static_members_cause_few_retries(caplog):
    stage = GroupStage(GroupOptions(initial_rebalance_delay_ms=0)).loaded()
    first = stage.join(instance="s-1", rebalance_ms=1)
    stage.pass_time(0)
    static = stage.joined(first).member_id
    stage.sync(static, 1)
    stage.join(instance="s-2", rebalance_ms=1)  # none has joined when this one is removed
    stage.leave(LeavingMember("", "s-2"))
    caplog.clear()
    stage.pass_time(SESSION_MS - 1_000)
    tries = [each for each in caplog.messages if "no member has rejoined" in each]
    assert 1 <= len(tries) <= SESSION_MS // 1_000
    stage.pass_time(1_000)
    assert stage.state() == "Empty"
