"""Offsets of groups of the newer consumer protocol, and the removal of whole groups."""

import random

import pytest

from cluster.coordinator.groups.consumer.records import ConsumerKey, consumer_key, read_consumer_key
from cluster.coordinator.groups.history.rebalances import CauseKind
from cluster.coordinator.groups.requests import (
    CommitOffsets,
    FetchOffsets,
    OffsetToCommit,
    TopicsDeleted,
    TransactionalCommit,
)
from cluster.coordinator.groups.shared.options import GroupOptions
from cluster.coordinator.groups.views.queries import ExplainGroup, ListRebalances, MeasureProgress
from cluster.model.error_codes import ErrorCode
from tests.support.consumer_stage import ConsumerStage
from tests.support.group_stage import GROUP

NONE = ErrorCode.none
STALE = ErrorCode.stale_member_epoch
UNKNOWN = ErrorCode.unknown_member_id
DAY_MS = 24 * 3_600_000


@pytest.fixture
def stage() -> ConsumerStage:
    return ConsumerStage().loaded()


# ---------------------------------------------------------------------- offsets


@pytest.mark.parametrize(
    ("member", "epoch", "error"),
    [("a", 2, NONE), ("a", 1, STALE), ("a", 3, STALE), ("c", 2, UNKNOWN), ("", -1, UNKNOWN)],
)
def test_members_may_commit_in_their_epoch(
    stage: ConsumerStage, member: str, epoch: int, error: ErrorCode
) -> None:
    a, b = stage.consumer("a"), stage.consumer("b")
    stage.settle_down(a, b)
    token = stage.commit({("orders", 1): 7}, member, epoch)
    assert stage.commit_errors(token) == [error]
    assert stage.committed() == ({("orders", 1): 7} if error is NONE else {})


def test_clients_without_group_may_commit_while_it_is_empty(stage: ConsumerStage) -> None:
    a = stage.consumer("a")
    a.leave()
    assert stage.commit_errors(stage.commit({("orders", 1): 7})) == [NONE]
    assert stage.reloaded().committed() == {("orders", 1): 7}


def test_commits_of_versions_without_member_epochs_are_refused(stage: ConsumerStage) -> None:
    a = stage.consumer("a")
    request = CommitOffsets(
        GROUP, (OffsetToCommit("orders", 0, 5),), a.epoch, "a", knows_member_epochs=False
    )
    assert stage.commit_errors(stage.submit(request)) == [ErrorCode.unsupported_version]


@pytest.mark.parametrize(
    ("member", "epoch", "error"),
    [
        ("a", 1, NONE),
        ("", -1, NONE),
        ("a", 4, ErrorCode.illegal_generation),
        ("c", 1, UNKNOWN),
    ],
)
def test_transactional_commits_are_checked(
    stage: ConsumerStage, member: str, epoch: int, error: ErrorCode
) -> None:
    stage.consumer("a")
    request = TransactionalCommit(GROUP, 9, 0, (OffsetToCommit("orders", 0, 5),), epoch, member)
    assert stage.commit_errors(stage.submit(request)) == [error]
    stage.shard.replay_marker(9, is_commit=True)
    assert stage.committed() == ({("orders", 0): 5} if error is NONE else {})


@pytest.mark.parametrize(
    ("member", "epoch", "error"),
    [(None, -1, NONE), ("a", 1, NONE), ("a", 0, STALE), ("c", 1, UNKNOWN), (None, 1, UNKNOWN)],
)
def test_fetches_are_checked(
    stage: ConsumerStage, member: str | None, epoch: int, error: ErrorCode
) -> None:
    a = stage.consumer("a")
    stage.commit({("orders", 1): 7}, "a", a.epoch)
    found = stage.ask(FetchOffsets(GROUP, member_id=member, member_epoch=epoch))
    assert found.error is error
    assert [each.offset for each in found.offsets] == ([7] if error is NONE else [])


def test_offsets_of_subscribed_topics_are_not_deleted(stage: ConsumerStage) -> None:
    a = stage.stranger("a", regex="bi.*")
    a.beat()
    for topic in ("orders", "bills", "others"):
        stage.commit({(topic, 0): 7}, "a", a.epoch)
    token = stage.delete_offsets(("orders", 0), ("bills", 0), ("others", 0), ("others", 1))
    refused = ErrorCode.group_subscribed_to_topic
    errors = [each.error for each in stage.answers[token].partitions]
    assert errors == [refused, refused, NONE, NONE]
    assert set(stage.committed()) == {("orders", 0), ("bills", 0)}


def test_offsets_expire_when_no_member_subscribes_to_their_topic() -> None:
    stage = ConsumerStage(GroupOptions(offsets_retention_ms=DAY_MS)).loaded()
    a = stage.consumer("a")
    stage.commit({("orders", 0): 7, ("bills", 0): 8}, "a", a.epoch)
    for _ in range(2 * 24 * 60 * 2):
        stage.pass_time(30_000)
        a.beat()
    assert stage.committed() == {("orders", 0): 7}
    a.leave()
    stage.pass_time(GroupOptions().retention_check_interval_ms)
    assert stage.listed() == []
    assert stage.reloaded().listed() == []


def test_an_empty_group_is_kept_for_its_offsets() -> None:
    stage = ConsumerStage(GroupOptions(offsets_retention_ms=DAY_MS)).loaded()
    a = stage.consumer("a")
    stage.commit({("orders", 0): 7}, "a", a.epoch)
    a.leave()
    stage.pass_time(DAY_MS // 2)
    assert [each.state for each in stage.listed()] == ["Empty"]


def test_a_commit_after_the_last_offsets_were_removed_stays(
    stage: ConsumerStage,
) -> None:
    a = stage.consumer("a")
    stage.commit({("bills", 0): 8}, "a", a.epoch)
    stage.holds_appends = True
    a.ask(epoch=-1)
    deleted = stage.delete_offsets(("bills", 0))
    committed = stage.commit({("orders", 0): 9})
    stage.holds_appends = False
    stage.settle()
    assert stage.answers[deleted].error is NONE
    assert stage.commit_errors(committed) == [NONE]
    for each in (stage, stage.reloaded()):
        assert each.committed() == {("orders", 0): 9}


def test_offsets_of_deleted_topics_are_removed(stage: ConsumerStage) -> None:
    a = stage.consumer("a")
    stage.commit({("orders", 0): 7, ("bills", 0): 8}, "a", a.epoch)
    stage.submit(TopicsDeleted(["bills"]))
    stage.pass_time(1)
    assert stage.committed() == {("orders", 0): 7}


# ---------------------------------------------------------------------- whole groups


def test_groups_are_listed_by_state_and_type(stage: ConsumerStage) -> None:
    stage.consumer("a")
    stage.commit(group="simple")
    listed = stage.listed()
    assert [(each.group_id, each.group_type, each.state) for each in listed] == [
        ("simple", "classic", "Empty"),
        (GROUP, "consumer", "Stable"),
    ]
    assert listed[1].protocol_type == "consumer"
    assert stage.listed(types=["Consumer"]) == [listed[1]]
    assert stage.listed(states=["empty"]) == [listed[0]]
    assert stage.listed(["stable"], ["classic"]) == []
    assert stage.described_classic() is None
    assert stage.described_consumers("simple") is None


def test_a_group_is_described(stage: ConsumerStage) -> None:
    stage.consumer("a", "orders", "bills", instance="s-1", regex="b.*", assignor="range")
    group = stage.described()
    (member,) = group.members
    assert (group.state, group.group_epoch, group.assignment_epoch) == ("Stable", 1, 1)
    assert (member.instance_id, member.client_id, member.client_host) == (
        "s-1",
        "client",
        "/127.0.0.1",
    )
    assert (member.subscribed_topic_names, member.subscribed_topic_regex) == (
        ("bills", "orders"),
        "b.*",
    )
    assert [(each.topic, each.partitions) for each in member.assignment] == [
        ("bills", (0, 1)),
        ("orders", (0, 1, 2, 3)),
    ]
    assert member.assignment == member.target_assignment
    assert not member.is_classic


def test_a_group_with_members_is_not_deleted(stage: ConsumerStage) -> None:
    stage.consumer("a")
    (deleted,) = stage.answers[stage.delete_groups(GROUP)].groups
    assert deleted.error is ErrorCode.non_empty_group


def test_an_empty_group_is_deleted_with_all_its_records(stage: ConsumerStage) -> None:
    a = stage.consumer("a", regex="b.*")
    stage.commit({("orders", 0): 7}, "a", a.epoch)
    a.leave()
    (deleted,) = stage.answers[stage.delete_groups(GROUP)].groups
    assert deleted.error is NONE
    assert stage.listed() == []
    newest = dict(stage.log)
    assert set(newest.values()) == {None}
    assert stage.reloaded().listed() == []
    assert stage.consumer("a").epoch == 1


def test_a_group_stays_when_its_deletion_is_not_stored(stage: ConsumerStage) -> None:
    stage.consumer("a").leave()
    before = stage.described()
    stage.holds_appends = True
    token = stage.delete_groups(GROUP)
    joining = stage.stranger("b").ask()
    append = stage.in_flight.pop(0)
    error = ErrorCode.not_enough_replicas
    stage.perform(stage.shard.on_appended(append.append_id, error, stage.now))
    stage.settle()
    (deleted,) = stage.answers[token].groups
    assert deleted.error is ErrorCode.coordinator_not_available
    assert stage.beaten(joining).error is NONE
    assert stage.described().group_epoch == before.group_epoch + 1


def test_a_member_that_joins_during_the_deletion_joins_a_new_group(stage: ConsumerStage) -> None:
    stage.consumer("a").leave()
    stage.holds_appends = True
    stage.delete_groups(GROUP)
    joining, committing = stage.stranger("b").ask(), stage.commit({("orders", 0): 5})
    stage.settle()
    assert stage.beaten(joining).member_epoch == 1
    assert stage.commit_errors(committing) == [NONE]
    assert stage.reloaded().described() == stage.described()
    assert stage.committed() == stage.reloaded().committed() == {("orders", 0): 5}


def test_a_commit_during_the_deletion_stays(stage: ConsumerStage) -> None:
    stage.consumer("a").leave()
    stage.holds_appends = True
    stage.delete_groups(GROUP)
    stage.commit({("orders", 0): 5})
    stage.settle()
    assert [each.group_type for each in stage.listed()] == ["classic"]
    assert stage.committed() == stage.reloaded().committed() == {("orders", 0): 5}


def test_deletion_waits_for_the_pending_removal_of_the_last_member(stage: ConsumerStage) -> None:
    a = stage.consumer("a")
    stage.holds_appends = True
    a.ask(epoch=-1)
    token = stage.delete_groups(GROUP)
    stage.settle()
    (deleted,) = stage.answers[token].groups
    assert deleted.error is NONE
    assert stage.listed() == []


# ---------------------------------------------------------------------- other types


def test_an_empty_classic_group_becomes_one_of_the_newer_protocol(stage: ConsumerStage) -> None:
    (old,) = stage.stable()
    stage.commit({("orders", 0): 7}, old, 1)
    stage.leave(old)
    a = stage.consumer("a")
    assert a.epoch == 1
    for each in (stage, stage.reloaded()):
        assert [group.group_type for group in each.listed()] == ["consumer"]
        assert each.committed() == {("orders", 0): 7}


def test_an_empty_classic_group_stays_when_its_conversion_is_not_stored(
    stage: ConsumerStage,
) -> None:
    stage.leave(*stage.stable())
    stage.holds_appends = True
    joining = stage.stranger("a").ask()
    stage.settle(ErrorCode.not_enough_replicas)
    assert stage.beaten(joining).error is ErrorCode.coordinator_not_available
    assert [group.group_type for group in stage.listed()] == ["classic"]
    assert stage.state() == "Empty"


# ---------------------------------------------------------------------- loading


def busy_log() -> ConsumerStage:
    stage = ConsumerStage().loaded()
    a, b = stage.consumer("a", instance="s-1", regex="b.*"), stage.consumer("b")
    stage.settle_down(a, b)
    a.leave(for_a_while=True)
    a2, c = stage.consumer("a2", instance="s-1"), stage.consumer("c")
    stage.settle_down(a2, b, rounds=1)
    stage.commit({("orders", 0): 7}, "c", c.epoch)
    return stage


def test_the_newest_record_of_each_key_is_enough_in_any_order() -> None:
    stage = busy_log()
    newest = list(dict(stage.log).items())
    dice = random.Random(5)
    for _ in range(20):
        dice.shuffle(newest)
        other = ConsumerStage(stage.options, stage.topics).loaded(newest)
        assert {each.member_id: each for each in other.described().members} == {
            each.member_id: each for each in stage.described().members
        }
        assert other.described().state == stage.described().state == "Reconciling"
        assert other.committed() == stage.committed()


def test_sessions_start_after_loading() -> None:
    stage = busy_log().reloaded()
    stage.pass_time(45_000)
    assert stage.described().state == "Empty"
    assert stage.committed() == {("orders", 0): 7}


def test_a_damaged_record_does_not_stop_the_loading() -> None:
    stage = busy_log()
    log = list(stage.log)
    key = consumer_key(ConsumerKey.MEMBER, GROUP, "b")
    other = ConsumerStage().loaded([*log, (key, b"\0\0\x07"), (key, b"\0\x09"), (key[:-1], b"")])
    report = other.shard.load_report
    assert report.unknown == {"member of form 9": 1}
    assert sum(report.corrupt.values()) == 2
    assert len(other.described().members) == 3


def test_the_partition_metadata_of_kafka_4_0_is_removed() -> None:
    key = consumer_key(ConsumerKey.PARTITION_METADATA, GROUP)
    stage = busy_log()
    other = ConsumerStage().loaded([*stage.log, (key, b"\0\0\1\0")])
    other.consumer("d")
    assert (key, None) in other.log


def test_records_are_in_the_order_that_kafkas_replay_needs(stage: ConsumerStage) -> None:
    stage.consumer("a").leave()
    stage.delete_groups(GROUP)
    kinds = [read_consumer_key(each.key).kind for each in stage.log]
    join, leave, gone = kinds[:5], kinds[5:9], kinds[9:]
    k = ConsumerKey
    assert join == [k.MEMBER, k.EPOCH, k.TARGET, k.ASSIGNMENT_EPOCH, k.CURRENT]
    assert leave == [k.CURRENT, k.TARGET, k.MEMBER, k.EPOCH]
    assert gone == [k.ASSIGNMENT_EPOCH, k.PARTITION_METADATA, k.EPOCH]


# ---------------------------------------------------------------------- history


def test_rebalances_are_recorded_with_their_causes(stage: ConsumerStage) -> None:
    a = stage.consumer("a")
    stage.pass_time(1_000)
    b = stage.consumer("b")
    stage.pass_time(3_000)
    a.beat()
    (first, second) = stage.rebalances()
    assert first.is_over
    assert (first.generation_id, first.members_after, first.protocol_name) == (1, 1, "uniform")
    assert [(each.kind, each.member and each.member.member_id) for each in second.causes] == [
        (CauseKind.MEMBER_JOINED, "b")
    ]
    assert not second.is_over
    assert {each.member.member_id: each.has_joined for each in second.slowest} == {
        "a": False,
        "b": True,
    }
    stage.pass_time(2_000)
    a.beat()
    b.beat()
    second = stage.rebalances()[-1]
    assert (second.is_over, second.from_generation, second.generation_id) == (True, 1, 2)
    assert (second.joining_ms, second.assigning_ms) == (5_000, 0)
    assert second.rebalance_timeout_ms == 60_000
    assert stage.ask(MeasureProgress(GROUP)).state_times_ms == {
        "Empty": 0,
        "Stable": 1_000,
        "Reconciling": 5_000,
    }


def test_timeouts_are_recorded_with_their_values(stage: ConsumerStage) -> None:
    a, b = stage.consumer("a"), stage.consumer("b")
    stage.settle_down(a, b)
    stage.pass_time(40_000)
    b.beat()
    stage.pass_time(5_000)
    b.beat()
    last = stage.rebalances()[-1]
    (cause,) = last.causes
    assert (cause.kind, cause.timeout_ms) == (CauseKind.SESSION_TIMEOUT, 45_000)
    stage.change_topics(orders=9)
    b.beat()
    (cause,) = stage.rebalances()[-1].causes
    assert cause.kind is CauseKind.TOPICS_CHANGED


def test_a_group_is_explained(stage: ConsumerStage) -> None:
    a = stage.consumer("a", "orders", "bills", instance="s-1")
    b = stage.consumer("b")
    a.beat()
    stage.pass_time(4_000)
    found = stage.ask(ExplainGroup(GROUP))
    assert found is not None
    assert (found.group_type, found.state, found.generation_id) == ("consumer", "Reconciling", 2)
    assert (found.protocol_name, found.leader, found.waits_at_most_ms) == ("uniform", None, 56_000)
    first, second = found.members
    assert (first.who.group_instance_id, first.session_timeout_ms, first.quiet_ms) == (
        "s-1",
        45_000,
        4_000,
    )
    assert [(each.topic, each.partitions) for each in first.assigned or ()] == [
        ("bills", (0, 1)),
        ("orders", (0,)),
    ]
    assert [(each.has_joined, each.has_synced) for each in (first, second)] == [
        (False, False),
        (True, False),
    ]
    stage.settle_down(a, b)
    progress = stage.ask(MeasureProgress(GROUP))
    assert progress is not None
    assert (progress.group_type, progress.state, progress.generation, progress.members) == (
        "consumer",
        "Stable",
        2,
        2,
    )
    histories = stage.ask(ListRebalances())
    assert [each.generation_id for each in histories[GROUP]] == [1, 2]
