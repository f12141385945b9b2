"""The recorded rebalances of a group: causes, durations, members that the others waited for."""

from cluster.coordinator.groups.history.rebalances import (
    CAUSES_KEPT,
    REBALANCES_KEPT,
    SLOWEST_KEPT,
    CauseKind,
    Rebalance,
    SlowMember,
    WhoseMember,
)
from cluster.model.error_codes import ErrorCode
from tests.support.group_stage import DELAY_MS, WALL_MS, GroupStage, protocols


def last(stage: GroupStage) -> Rebalance:
    return stage.rebalances()[-1]


def test_the_first_rebalance_is_recorded():
    stage = GroupStage().loaded()
    first, first_joins = stage.join_new(client="billing", reason="started")
    stage.pass_time(1_000)
    second, second_joins = stage.join_new(client="audit")
    stage.pass_time(2 * DELAY_MS)
    stage.pass_time(200)
    stage.assign([(first, first_joins), (second, second_joins)])
    who = WhoseMember(first, "billing", "/127.0.0.1")
    found = last(stage)
    assert (found.started_ms, found.started_wall_ms) == (1_000, WALL_MS + 1_000)
    assert (found.from_generation, found.generation_id) == (0, 1)
    assert (found.members_before, found.members_after) == (0, 2)
    assert found.initial_delay_ms == 2 * DELAY_MS  # it was extended once
    assert (found.joining_ms, found.assigning_ms) == (2 * DELAY_MS, 1_200)
    assert (found.leader, found.protocol_name) == (who, "range")
    assert [(each.kind, each.after_ms, each.detail) for each in found.causes] == [
        (CauseKind.MEMBER_JOINED, 0, "started"),
        (CauseKind.MEMBER_JOINED, 1_000, ""),
    ]
    assert found.slowest[0].waited_ms == 1_000
    assert found.slowest[0].member.client_id == "audit"
    assert found.is_over


def test_a_running_rebalance_names_missing_members():
    stage = GroupStage().loaded()
    first, second = stage.stable(2)
    stage.join_new(client="audit")
    stage.pass_time(4_000)
    stage.join(first)
    stage.pass_time(500)
    found = last(stage)
    assert not found.is_over
    assert found.joining_ms is None
    assert found.rebalance_timeout_ms == 60_000
    assert [(each.member.member_id, each.has_joined) for each in found.slowest][:2] == [
        (second, False),
        (first, True),
    ]
    assert [each.waited_ms for each in found.slowest] == [4_500, 4_000, 0]


def test_the_causes_of_rebalances_are_recorded():
    stage = GroupStage().loaded()
    first, second = stage.stable(2)
    bills = protocols(topics=["bills"])
    token = stage.join(second, offers=bills, reason="subscribed anew")
    joins = [(first, stage.join(first)), (second, token)]
    assert last(stage).causes[0].kind is CauseKind.SUBSCRIPTION_CHANGED
    assert last(stage).causes[0].detail == "subscribed anew"
    stage.assign(joins)
    joins = [(first, stage.join(first)), (second, stage.join(second, offers=bills))]
    assert last(stage).causes[0].kind is CauseKind.LEADER_JOINED_AGAIN
    stage.assign(joins)
    stage.leave(second)
    assert last(stage).causes[0].kind is CauseKind.MEMBER_LEFT


def test_an_assignment_that_is_not_stored_is_recorded_as_cause():
    stage = GroupStage().loaded()
    (member_id,) = stage.completing()
    stage.holds_appends = True
    stage.sync(member_id, 1, {})
    stage.settle(ErrorCode.not_enough_replicas)
    disturbed, running = stage.rebalances()
    assert disturbed.is_over
    assert disturbed.generation_id is None
    cause = running.causes[0]
    assert (cause.kind, cause.detail) == (
        CauseKind.ASSIGNMENT_NOT_STORED,
        "COORDINATOR_NOT_AVAILABLE",
    )


def test_the_history_is_bounded():
    stage = GroupStage().loaded()
    for _ in range(REBALANCES_KEPT + 5):
        member_id, token = stage.join_new()
        stage.pass_time(DELAY_MS)
        stage.assign([(member_id, token)])
        stage.leave(member_id)
    kept = stage.rebalances()
    assert len(kept) == REBALANCES_KEPT
    assert kept[-1].members_after == 0
    stage = GroupStage().loaded()
    for _ in range(CAUSES_KEPT + 7):
        stage.join_new(rebalance_ms=1_000_000)
    assert len(last(stage).causes) == CAUSES_KEPT
    assert last(stage).causes_left_off == 7
    assert len(last(stage).slowest) == SLOWEST_KEPT
    assert isinstance(last(stage).slowest[0], SlowMember)


def test_a_group_without_rebalances_has_no_history():
    stage = GroupStage().loaded()
    stage.commit()
    assert stage.rebalances() == ()
    assert stage.rebalances("nobody") == ()
