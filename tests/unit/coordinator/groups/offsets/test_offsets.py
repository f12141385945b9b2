"""Offsets: commits, fetches, deletion, expiry, transactions, failed appends."""

import pytest

from cluster.coordinator.groups.offsets.removals import TOMBSTONES_PER_APPEND
from cluster.coordinator.groups.requests import (
    FetchedOffset,
    FetchOffsets,
    OffsetToCommit,
    TopicsDeleted,
    TransactionalCommit,
)
from cluster.coordinator.groups.shared.options import GroupOptions
from cluster.model.error_codes import ErrorCode
from tests.support.group_stage import GROUP, GroupStage, protocols

NONE = ErrorCode.none
DAY_MS = 24 * 60 * 60_000
ORDERS = ("orders", 0)
BILLS = ("bills", 3)
PRODUCER = 77


# ---------------------------------------------------------------------- committing, fetching


def test_an_offset_is_visible_when_it_is_stored():
    stage = GroupStage().loaded()
    stage.commit({ORDERS: 1})
    stage.holds_appends = True
    token = stage.commit({ORDERS: 5, BILLS: 6}, metadata="by hand")
    assert token not in stage.answers
    assert stage.committed() == {ORDERS: 1}
    assert stage.fetch(ORDERS, stable=True)[0].error is ErrorCode.unstable_offset_commit
    stage.settle()
    assert stage.commit_errors(token) == [NONE, NONE]
    assert stage.fetch(BILLS, ("orders", 9), stable=True) == [
        FetchedOffset("bills", 3, 6, -1, "by hand"),
        FetchedOffset("orders", 9, -1),
    ]
    assert stage.reloaded().committed() == {ORDERS: 5, BILLS: 6}


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ErrorCode.not_enough_replicas, ErrorCode.coordinator_not_available),
        (ErrorCode.unknown_topic_or_partition, ErrorCode.coordinator_not_available),
        (ErrorCode.not_leader_or_follower, ErrorCode.not_coordinator),
        (ErrorCode.kafka_storage_error, ErrorCode.not_coordinator),
        (ErrorCode.message_too_large, ErrorCode.invalid_commit_offset_size),
        (ErrorCode.record_list_too_large, ErrorCode.invalid_commit_offset_size),
        (ErrorCode.invalid_required_acks, ErrorCode.invalid_required_acks),
    ],
)
def test_an_offset_that_is_not_stored_is_unchanged(error, expected):
    stage = GroupStage().loaded()
    stage.commit({ORDERS: 1})
    stage.holds_appends = True
    token = stage.commit({ORDERS: 5})
    stage.settle(error)
    assert stage.commit_errors(token) == [expected]
    assert stage.committed() == {ORDERS: 1}
    assert stage.fetch(ORDERS, stable=True)[0].offset == 1


def test_an_offset_that_stays_in_the_log_is_committed_despite_an_error():
    stage = GroupStage().loaded()
    stage.holds_appends = True
    token = stage.commit({ORDERS: 5})
    stage.settle(ErrorCode.not_enough_replicas_after_append, is_in_log=True)
    assert stage.commit_errors(token) == [ErrorCode.coordinator_not_available]
    assert stage.committed() == {ORDERS: 5} == stage.reloaded().committed()


def test_a_late_commit_is_answered_and_visible_when_it_is_stored():
    stage = GroupStage().loaded()
    stage.holds_appends = True
    token = stage.commit({ORDERS: 5})
    (append,) = stage.in_flight
    for _ in range(2):
        stage.perform(stage.shard.on_append_late(append.append_id, stage.now))
    assert stage.commit_errors(token) == [ErrorCode.coordinator_not_available]
    assert stage.committed() == {}
    stage.settle()
    assert stage.committed() == {ORDERS: 5}


def test_the_first_commit_of_a_group_that_fails_leaves_no_group():
    stage = GroupStage().loaded()
    stage.holds_appends = True
    stage.commit({ORDERS: 5})
    stage.settle(ErrorCode.not_enough_replicas)
    assert stage.state() == "Dead"


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ("x" * 4_096, NONE),
        ("x" * 4_097, ErrorCode.offset_metadata_too_large),
        ("é" * 4_096, NONE),  # characters, as Java counts them
        ("😀" * 2_049, ErrorCode.offset_metadata_too_large),
    ],
)
def test_metadata_above_the_limit_is_refused(metadata, expected):
    stage = GroupStage().loaded()
    assert stage.commit_errors(stage.commit({ORDERS: 5}, metadata=metadata)) == [expected]
    assert stage.committed() == ({ORDERS: 5} if expected is NONE else {})
    assert stage.state() == ("Empty" if expected is NONE else "Dead")


def test_metadata_that_no_record_can_hold_is_too_large_whatever_the_setting_says():
    stage = GroupStage(GroupOptions(metadata_max_bytes=1 << 20)).loaded()
    for length, expected in ((0x7FFF, NONE), (0x8000, ErrorCode.offset_metadata_too_large)):
        token = stage.commit({ORDERS: 5}, metadata="x" * length)
        assert stage.commit_errors(token) == [expected]


def test_an_unknown_group_has_no_offsets():
    stage = GroupStage().loaded()
    assert stage.committed("nobody") == {}
    assert stage.fetch(ORDERS) == [FetchedOffset("orders", 0, -1)]
    assert stage.ask(FetchOffsets("nobody")).error is NONE


@pytest.mark.parametrize("offset", [-1, -5, 2**63 - 1])
def test_any_number_is_accepted_as_offset_as_in_kafka(offset):
    stage = GroupStage().loaded()
    assert stage.commit_errors(stage.commit({ORDERS: offset})) == [NONE]
    assert stage.committed() == {ORDERS: offset} == stage.reloaded().committed()


@pytest.mark.parametrize("group", ["", "g" * 300, "群组\n"])
def test_any_group_id_may_commit(group):
    stage = GroupStage().loaded()
    assert stage.commit_errors(stage.commit({ORDERS: 5}, group=group)) == [NONE]
    assert stage.reloaded().committed(group) == {ORDERS: 5}


# ---------------------------------------------------------------------- transactions


def commit_in_transaction(
    stage: GroupStage, offset: int, producer: int = PRODUCER, member_id: str = "", generation=-1
) -> int:
    entry = OffsetToCommit(*ORDERS, offset)
    request = TransactionalCommit(GROUP, producer, 0, (entry,), generation, member_id)
    return stage.submit(request)


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_transactional_offset_is_visible_when_the_transaction_ends(is_commit):
    stage = GroupStage().loaded()
    stage.commit({ORDERS: 1})
    stage.holds_appends = True
    token = commit_in_transaction(stage, 5)
    (append,) = stage.in_flight
    assert (append.producer_id, append.producer_epoch) == (PRODUCER, 0)
    stage.settle()
    assert stage.commit_errors(token) == [NONE]
    assert stage.committed() == {ORDERS: 1}
    assert stage.fetch(ORDERS)[0].offset == 1
    assert stage.fetch(ORDERS, stable=True)[0].error is ErrorCode.unstable_offset_commit
    stage.shard.replay_marker(PRODUCER, is_commit=is_commit)
    assert stage.committed() == {ORDERS: 5 if is_commit else 1}
    assert stage.fetch(ORDERS, stable=True)[0].error is NONE


def test_a_later_commit_takes_precedence_over_an_earlier_transaction():
    stage = GroupStage().loaded()
    commit_in_transaction(stage, 5)
    stage.commit({ORDERS: 9})
    stage.shard.replay_marker(PRODUCER, is_commit=True)
    assert stage.committed() == {ORDERS: 9}


@pytest.mark.parametrize("newer_commits", [True, False])
def test_the_later_of_two_transactional_commits_takes_precedence(newer_commits):
    stage = GroupStage().loaded()
    commit_in_transaction(stage, 5, producer=1)
    commit_in_transaction(stage, 9, producer=2)
    stage.shard.replay_marker(2, is_commit=newer_commits)
    stage.shard.replay_marker(1, is_commit=True)
    assert stage.committed() == {ORDERS: 9 if newer_commits else 5}


def test_transactional_commits_of_members_are_checked():
    stage = GroupStage().loaded()
    (member_id,) = stage.stable()
    good = commit_in_transaction(stage, 5, member_id=member_id, generation=1)
    old = commit_in_transaction(stage, 6, member_id=member_id, generation=0)
    nobody = commit_in_transaction(stage, 7, member_id="nobody", generation=1)
    anonymous = commit_in_transaction(stage, 8)
    errors = [stage.commit_errors(token)[0] for token in (good, old, nobody, anonymous)]
    assert errors == [NONE, ErrorCode.illegal_generation, ErrorCode.unknown_member_id, NONE]


def test_transactions_are_loaded():
    stage = GroupStage().loaded()
    stage.commit({ORDERS: 5})
    (record,) = stage.log
    for ending in (True, False, None):
        successor = GroupStage()
        successor.shard.replay(*record, producer_id=PRODUCER)
        if ending is not None:
            successor.shard.replay_marker(PRODUCER, is_commit=ending)
        successor.loaded()
        assert successor.committed() == ({ORDERS: 5} if ending else {})
        is_open = ending is None
        error = ErrorCode.unstable_offset_commit if is_open else NONE
        assert successor.fetch(ORDERS, stable=True)[0].error is error


# ---------------------------------------------------------------------- deleting


def test_offsets_of_a_group_without_members_are_deleted_and_the_last_takes_the_group():
    stage = GroupStage().loaded()
    stage.commit({ORDERS: 1, BILLS: 2})
    stage.holds_appends = True
    token = stage.delete_offsets(ORDERS, ("orders", 5))
    assert token not in stage.answers
    stage.settle()
    reply = stage.answers[token]
    assert [tuple(each) for each in reply.partitions] == [
        ("orders", 0, NONE),
        ("orders", 5, NONE),
    ]
    assert stage.committed() == {BILLS: 2} == stage.reloaded().committed()
    stage.holds_appends = False
    stage.delete_offsets(BILLS)
    assert stage.state() == "Dead" == stage.reloaded().state()


def test_offsets_of_subscribed_topics_are_not_deleted():
    stage = GroupStage().loaded()
    (member_id,) = stage.stable()
    stage.commit({ORDERS: 1, BILLS: 2}, member_id, 1)
    reply = stage.answers[stage.delete_offsets(ORDERS, BILLS)]
    subscribed = ErrorCode.group_subscribed_to_topic
    assert [each.error for each in reply.partitions] == [subscribed, NONE]
    assert stage.committed() == {ORDERS: 1}
    assert stage.state() == "Stable"


def test_offsets_of_a_group_of_another_type_are_not_deleted_while_it_has_members():
    stage = GroupStage().loaded()
    stage.stable(protocol_type="connect")
    assert stage.answers[stage.delete_offsets(BILLS)].error is ErrorCode.non_empty_group


def test_no_offset_is_deleted_while_a_subscription_cannot_be_decoded():
    stage = GroupStage().loaded()
    broken = (protocols()[0]._replace(metadata=b"\x00"),)
    (member_id,) = stage.stable(offers=broken)
    stage.commit({BILLS: 2}, member_id, 1)
    reply = stage.answers[stage.delete_offsets(BILLS)]
    assert [each.error for each in reply.partitions] == [ErrorCode.group_subscribed_to_topic]


def test_a_deletion_that_is_not_stored_changes_nothing():
    stage = GroupStage().loaded()
    stage.commit({ORDERS: 1})
    stage.holds_appends = True
    offsets, groups = stage.delete_offsets(ORDERS), stage.delete_groups(GROUP)
    stage.settle(ErrorCode.not_enough_replicas)
    assert stage.answers[offsets].error is ErrorCode.coordinator_not_available
    assert stage.answers[groups].groups[0].error is ErrorCode.coordinator_not_available
    assert stage.committed() == {ORDERS: 1}


def test_several_groups_are_deleted_at_once_each_with_its_own_outcome():
    stage = GroupStage().loaded()
    stage.stable()
    for group in ("a", "b"):
        stage.commit({ORDERS: 1}, group=group)
    stage.holds_appends = True
    token = stage.delete_groups("a", GROUP, "nobody", "b", "a")
    stage.settle()
    assert [tuple(each) for each in stage.answers[token].groups] == [
        ("a", NONE),
        (GROUP, ErrorCode.non_empty_group),
        ("nobody", ErrorCode.group_id_not_found),
        ("b", NONE),
        ("a", NONE),
    ]
    assert [each.group_id for each in stage.listed()] == [GROUP]
    assert [each.group_id for each in stage.reloaded().listed()] == [GROUP]


def test_a_group_with_many_offsets_is_deleted_in_several_appends():
    stage = GroupStage().loaded()
    count = 2 * TOMBSTONES_PER_APPEND + 1
    stage.commit({("orders", number): number for number in range(count)})
    stage.holds_appends = True
    token = stage.delete_groups(GROUP)
    assert [len(each.records) for each in stage.in_flight] == [
        TOMBSTONES_PER_APPEND,
        TOMBSTONES_PER_APPEND,
        1,
    ]
    stage.settle()
    assert stage.answers[token].groups[0].error is NONE
    assert stage.state() == "Dead" == stage.reloaded().state()


def test_a_pending_commit_is_deleted_with_its_group():
    stage = GroupStage().loaded()
    stage.holds_appends = True
    stage.commit({ORDERS: 1})
    stage.delete_groups(GROUP)
    stage.settle()
    assert stage.state() == "Dead" == stage.reloaded().state()


def test_a_commit_during_the_deletion_of_its_group_stays():
    stage = GroupStage().loaded()
    (member_id,) = stage.stable()
    stage.leave(member_id)
    stage.holds_appends = True
    stage.delete_groups(GROUP)
    stage.commit({BILLS: 2})
    stage.settle()
    assert stage.committed() == {BILLS: 2} == stage.reloaded().committed()
    assert stage.listed() == stage.reloaded().listed()


def test_a_member_that_joins_during_the_deletion_keeps_its_group():
    stage = GroupStage().loaded()
    stage.commit({ORDERS: 1})
    stage.holds_appends = True
    stage.delete_groups(GROUP)
    token = stage.join(instance="s-1")
    stage.settle()
    stage.pass_time(10_000)
    assert stage.joined(token).error is NONE
    assert stage.committed() == {}


def test_offsets_of_deleted_topics_are_removed():
    stage = GroupStage().loaded()
    (member_id,) = stage.stable()
    stage.commit({ORDERS: 1, BILLS: 2}, member_id, 1)
    stage.commit({ORDERS: 1}, group="other")
    stage.submit(TopicsDeleted(["orders", "unheard-of"]))
    stage.pass_time(0)
    assert stage.committed() == {BILLS: 2} == stage.reloaded().committed()
    assert stage.state("other") == "Dead" == stage.reloaded().state("other")


def test_offsets_of_a_recreated_topic_stay():
    stage = GroupStage().loaded()
    stage.commit({ORDERS: 1}, group="before")
    stage.submit(TopicsDeleted(["orders"]))
    stage.submit(TopicsDeleted([]))
    stage.now_ms += 1
    stage.commit({ORDERS: 2}, group="after")
    stage.pass_time(0)
    assert (stage.committed("before"), stage.committed("after")) == ({}, {ORDERS: 2})


def test_deleted_topics_of_many_groups_take_many_turns():
    stage = GroupStage().loaded()
    for number in range(3_000):
        stage.commit({ORDERS: 1, BILLS: 2}, group=f"g-{number}")
    stage.submit(TopicsDeleted(["orders"]))
    turns = 0
    while stage.shard.next_deadline_ms() <= stage.now_ms:
        stage.perform(stage.shard.on_tick(stage.now))
        turns += 1
        if turns == 1:
            stage.submit(TopicsDeleted(["bills"]))
    assert turns > 4
    assert stage.listed() == []


# ---------------------------------------------------------------------- expiry


def retention(days: int) -> GroupOptions:
    return GroupOptions(offsets_retention_ms=days * DAY_MS, retention_check_interval_ms=DAY_MS // 4)


def test_offsets_of_a_group_that_only_commits_expire_after_the_last_commit():
    stage = GroupStage(retention(2)).loaded()
    stage.commit({ORDERS: 1})
    stage.pass_time(DAY_MS)
    stage.commit({BILLS: 2})
    stage.pass_time(DAY_MS + DAY_MS // 4)
    assert stage.committed() == {BILLS: 2} == stage.reloaded().committed()
    stage.pass_time(DAY_MS)
    assert stage.state() == "Dead" == stage.reloaded().state()


def test_offsets_of_a_group_that_had_members_expire_after_the_last_one_left():
    stage = GroupStage(retention(2)).loaded()
    (member_id,) = stage.stable()
    stage.commit({ORDERS: 1}, member_id, 1)
    stage.leave(member_id)
    stage.pass_time(2 * DAY_MS - DAY_MS // 2)
    successor = stage.reloaded()  # the time at which the group became empty is known
    successor.pass_time(DAY_MS // 4)
    assert successor.committed() == {ORDERS: 1}
    successor.pass_time(DAY_MS // 2)
    assert successor.state() == "Dead"
    assert successor.reloaded().state() == "Dead"


def test_offsets_of_subscribed_topics_do_not_expire():
    stage = GroupStage(GroupOptions(offsets_retention_ms=60_000, retention_check_interval_ms=1_000))
    stage.loaded()
    (member_id,) = stage.stable()
    stage.commit({ORDERS: 1, BILLS: 2}, member_id, 1)
    for _ in range(20):
        stage.pass_time(5_000)
        stage.heartbeat(member_id, 1)
    assert stage.committed() == {ORDERS: 1}


def test_offsets_of_members_of_another_type_do_not_expire():
    stage = GroupStage(GroupOptions(offsets_retention_ms=60_000, retention_check_interval_ms=1_000))
    stage.loaded()
    (member_id,) = stage.stable(protocol_type="connect")
    stage.commit({BILLS: 2}, member_id, 1)
    for _ in range(20):
        stage.pass_time(5_000)
        stage.heartbeat(member_id, 1)
    assert stage.committed() == {BILLS: 2}


def test_an_expiry_set_by_the_client_is_used_and_stored():
    stage = GroupStage(retention(7)).loaded()
    stage.commit({ORDERS: 1}, retention_ms=DAY_MS)
    successor = stage.reloaded()
    successor.pass_time(DAY_MS - 1)
    assert successor.committed() == {ORDERS: 1}
    successor.pass_time(DAY_MS // 4 + 1)
    assert successor.committed() == {}


def test_an_offset_with_a_pending_commit_does_not_expire():
    stage = GroupStage(retention(1)).loaded()
    stage.commit({ORDERS: 1})
    stage.pass_time(DAY_MS - 10)
    stage.holds_appends = True
    stage.commit({ORDERS: 2})
    stage.pass_time(DAY_MS // 4)
    stage.settle()
    assert stage.committed() == {ORDERS: 2}


def test_the_check_takes_many_turns_for_many_groups():
    stage = GroupStage(retention(1)).loaded()
    for number in range(3_000):
        stage.commit({ORDERS: 1}, group=f"g-{number}")
    stage.now_ms += 2 * DAY_MS
    turns = 0
    while stage.shard.next_deadline_ms() <= stage.now_ms:
        before = len(stage.log)
        stage.perform(stage.shard.on_tick(stage.now))
        assert len(stage.log) - before <= 1_000
        turns += 1
    assert turns > 2
    assert stage.listed() == []
