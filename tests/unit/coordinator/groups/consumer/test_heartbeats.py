"""Members of the newer consumer protocol join, are reconciled and leave."""

from typing import Any

import pytest

from cluster.coordinator.groups.consumer.records import ConsumerKey, read_consumer_key
from cluster.coordinator.groups.shared.options import GroupOptions
from cluster.model.error_codes import ErrorCode
from tests.support.consumer_stage import SESSION_MS, ConsumerStage, FakeTopics, id_of
from tests.support.group_stage import GROUP, REBALANCE_MS

NONE = ErrorCode.none


@pytest.fixture
def stage() -> ConsumerStage:
    return ConsumerStage().loaded()


def test_the_first_member_is_assigned_all_partitions(stage: ConsumerStage) -> None:
    reply = stage.consumer("a", "orders", "bills").heard[-1]
    assert (reply.member_id, reply.member_epoch, reply.heartbeat_interval_ms) == ("a", 1, 5_000)
    assert stage.topics.numbers(reply.assignment or {}) == {"orders": {0, 1, 2, 3}, "bills": {0, 1}}
    assert stage.described().state == "Stable"


def test_partitions_are_revoked_before_they_are_assigned(stage: ConsumerStage) -> None:
    a = stage.consumer("a")
    b = stage.consumer("b")
    assert (b.epoch, b.numbers) == (2, {})
    assert stage.described().state == "Reconciling"
    told = a.beat()
    assert (told.member_epoch, len(a.numbers["orders"])) == (1, 2)
    waiting = b.beat()
    assert (waiting.member_epoch, waiting.assignment) == (2, None)
    assert a.beat().member_epoch == 2
    b.beat()
    assert len(b.numbers["orders"]) == 2
    assert a.numbers["orders"] | b.numbers["orders"] == {0, 1, 2, 3}
    assert stage.described().state == "Stable"


def test_a_member_that_still_owns_partitions_delays_the_others(stage: ConsumerStage) -> None:
    a = stage.consumer("a")
    everything = a.owned
    b = stage.consumer("b")
    a.beat()
    for owned in (everything, None):
        told = stage.beaten(stage.beat("a", 1, owned=owned))
        assert (told.error, told.member_epoch) == (NONE, 1)
    b.beat()
    assert b.numbers == {}
    a.beat()
    b.beat()
    assert len(b.numbers["orders"]) == 2


def test_a_leaving_member_releases_all_partitions(stage: ConsumerStage) -> None:
    a, b = stage.consumer("a"), stage.consumer("b")
    stage.settle_down(a, b)
    left = b.leave()
    assert (left.error, left.member_id, left.member_epoch) == (NONE, "b", -1)
    assert stage.described().state == "Assigning"
    told = a.beat()
    assert (told.member_epoch, a.numbers) == (3, {"orders": {0, 1, 2, 3}})
    a.leave()
    assert stage.described().state == "Empty"


def test_a_group_of_hundred_members_settles(stage: ConsumerStage) -> None:
    stage.change_topics(orders=200)
    members = [stage.consumer(f"m{number:02}") for number in range(100)]
    stage.settle_down(*members, rounds=4)
    assert sorted(len(each.numbers["orders"]) for each in members) == [2] * 100
    assert stage.described().state == "Stable"


def test_a_lost_reply_is_repeated(stage: ConsumerStage) -> None:
    a, b = stage.consumer("a"), stage.consumer("b")
    a.beat()
    lost = stage.beaten(a.ask())
    assert lost.member_epoch == 2
    again = stage.beaten(stage.beat("a", 1, owned=a.owned))
    assert (again.error, again.member_epoch) == (NONE, 2)
    for owned in (None, {id_of("orders"): frozenset({0, 1, 2, 3})}):
        told = stage.beaten(stage.beat("a", 1, owned=owned))
        assert told.error is ErrorCode.fenced_member_epoch
        assert "smaller member epoch (1)" in str(told.error_message)
    b.beat()


def test_an_unknown_epoch_is_fenced(stage: ConsumerStage) -> None:
    stage.consumer("a")
    told = stage.beaten(stage.beat("a", 7, owned={}))
    assert told.error is ErrorCode.fenced_member_epoch
    assert "greater member epoch (7) than the one known by the group coordinator (1)" in str(
        told.error_message
    )


def test_a_full_heartbeat_gets_the_assignment_again(stage: ConsumerStage) -> None:
    a = stage.consumer("a")
    assert a.beat().assignment is None
    told = a.beat(full=True)
    assert told.assignment == a.owned


def test_a_changed_subscription_begins_an_epoch(stage: ConsumerStage) -> None:
    a, b = stage.consumer("a"), stage.consumer("b")
    stage.settle_down(a, b)
    a.topics = ("bills",)
    a.beat(full=True)
    stage.settle_down(a, b)
    assert (a.numbers, b.numbers) == ({"bills": {0, 1}}, {"orders": {0, 1, 2, 3}})
    epoch = stage.described().group_epoch
    a.beat(full=True)
    assert stage.described().group_epoch == epoch


def test_a_member_may_have_no_topics(stage: ConsumerStage) -> None:
    token = stage.beat("a", 0, topics=(), rebalance_ms=REBALANCE_MS, owned={})
    told = stage.beaten(token)
    assert (told.error, told.member_epoch, told.assignment) == (NONE, 1, {})


def test_the_coordinator_assigns_the_member_id_before_version_1(stage: ConsumerStage) -> None:
    token = stage.beat(
        "", 0, topics=["orders"], rebalance_ms=REBALANCE_MS, owned={}, knows_its_id=False
    )
    told = stage.beaten(token)
    assert told.error is NONE
    assert [each.member_id for each in stage.described().members] == [told.member_id]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"member_id": "", "epoch": 5, "knows_its_id": False}, "MemberId can't be empty."),
        ({"member_id": "", "epoch": -1, "knows_its_id": False}, "MemberId can't be empty."),
        ({"group": " "}, "GroupId can't be empty."),
        ({"instance": ""}, "InstanceId can't be empty."),
        ({"rack": ""}, "RackId can't be empty."),
        ({"rebalance_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"owned": None}, "TopicPartitions must be empty when (re-)joining."),
        ({"owned": {id_of("orders"): frozenset({1})}}, "TopicPartitions must be empty"),
        ({"topics": None}, "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null"),
        ({"epoch": -2}, "InstanceId can't be null."),
        ({"epoch": -3}, "MemberEpoch is invalid."),
        ({"member_id": "ö" * 16_384}, "MemberId has more than 32767 bytes."),
        ({"regex": "a" * 32_768}, "SubscribedTopicRegex has more than 32767 bytes."),
        ({"topics": ["b", "a" * 32_768]}, "A topic name has more than 32767 bytes."),
    ],
)
def test_invalid_heartbeats_are_refused(
    stage: ConsumerStage, change: dict[str, Any], message: str
) -> None:
    good: dict[str, Any] = {
        "member_id": "a",
        "epoch": 0,
        "topics": ["orders"],
        "rebalance_ms": REBALANCE_MS,
        "owned": {},
    }
    asked = good | change
    told = stage.beaten(stage.beat(asked.pop("member_id"), asked.pop("epoch"), **asked))
    assert told.error is ErrorCode.invalid_request
    assert str(told.error_message).startswith(message)
    assert stage.listed() == []


def test_an_unknown_assignor_is_refused(stage: ConsumerStage) -> None:
    told = stage.stranger("a", assignor="rack").beat()
    assert told.error is ErrorCode.unsupported_assignor
    assert told.error_message == (
        "ServerAssignor rack is not supported. Supported assignors: uniform, range."
    )


def test_the_assignor_that_most_members_prefer_is_used(stage: ConsumerStage) -> None:
    stage.consumer("a")
    assert stage.described().assignor == "uniform"
    stage.consumer("b", assignor="range")
    assert stage.described().assignor == "range"


@pytest.mark.parametrize("epoch", [3, -1])
def test_heartbeats_of_unknown_groups_are_refused(stage: ConsumerStage, epoch: int) -> None:
    told = stage.beaten(stage.beat("a", epoch, owned={}))
    assert told.error is ErrorCode.group_id_not_found
    assert stage.log == []


@pytest.mark.parametrize("epoch", [3, -1])
def test_heartbeats_of_unknown_members_are_refused(stage: ConsumerStage, epoch: int) -> None:
    stage.consumer("a")
    told = stage.beaten(stage.beat("b", epoch, owned={}))
    assert told.error is ErrorCode.unknown_member_id
    assert told.error_message == f"Member b is not a member of group {GROUP}."


def test_a_full_group_refuses_new_members() -> None:
    stage = ConsumerStage(GroupOptions(consumer_max_size=1)).loaded()
    a = stage.consumer("a")
    told = stage.stranger("b").beat()
    assert told.error is ErrorCode.group_max_size_reached
    assert told.error_message == "The consumer group has reached its maximum capacity of 1 members."
    assert a.beat().error is NONE


# ---------------------------------------------------------------------- time


def test_a_silent_member_is_removed_after_its_session(stage: ConsumerStage) -> None:
    a, b = stage.consumer("a"), stage.consumer("b")
    stage.settle_down(a, b)
    for _ in range(5):
        stage.pass_time(SESSION_MS // 5)
        a.beat()
    assert a.numbers == {"orders": {0, 1, 2, 3}}
    assert b.beat().error is ErrorCode.unknown_member_id
    assert b.beat().error is NONE


def test_a_member_that_does_not_revoke_in_time_is_removed(stage: ConsumerStage) -> None:
    a = stage.consumer("a")
    everything = a.owned
    b = stage.consumer("b")
    a.beat()
    for _ in range(6):
        stage.pass_time(REBALANCE_MS // 6)
        b.beat()
        stage.beat("a", 1, owned=everything)
    stage.settle_down(b)
    assert b.numbers == {"orders": {0, 1, 2, 3}}
    assert stage.beaten(stage.beat("a", 1, owned=everything)).error is ErrorCode.unknown_member_id


def test_revoking_cancels_the_rebalance_timeout(stage: ConsumerStage) -> None:
    a, b = stage.consumer("a"), stage.consumer("b")
    for _ in range(30):
        stage.pass_time(REBALANCE_MS // 6)
        stage.settle_down(a, b, rounds=1)
    assert stage.described().state == "Stable"
    assert len(stage.described().members) == 2


# ---------------------------------------------------------------------- static members


def test_a_returning_static_member_keeps_its_partitions(stage: ConsumerStage) -> None:
    a, b = stage.consumer("a", instance="s-1"), stage.consumer("b", instance="s-2")
    stage.settle_down(a, b)
    before, epoch = a.owned, stage.described().group_epoch
    assert a.leave(for_a_while=True).member_epoch == -2
    b.beat()
    assert stage.described().state == "Reconciling"
    new = stage.consumer("a2", instance="s-1")
    assert (new.owned, new.epoch) == (before, epoch)
    assert stage.described().group_epoch == epoch
    assert b.beat().assignment is None
    assert {each.member_id for each in stage.described().members} == {"a2", "b"}
    stage.pass_time(SESSION_MS - 1)
    assert new.beat().error is NONE


def test_a_static_member_loses_its_partitions_when_its_session_expires(
    stage: ConsumerStage,
) -> None:
    a, b = stage.consumer("a", instance="s-1"), stage.consumer("b", instance="s-2")
    stage.settle_down(a, b)
    a.leave(for_a_while=True)
    stage.pass_time(SESSION_MS - 1)
    b.beat()
    assert len(b.numbers["orders"]) == 2
    stage.pass_time(1)
    b.beat()
    assert b.numbers == {"orders": {0, 1, 2, 3}}


def test_an_instance_id_in_use_is_not_released(stage: ConsumerStage) -> None:
    a = stage.consumer("a", instance="s-1")
    told = stage.stranger("a2", instance="s-1").beat()
    assert told.error is ErrorCode.unreleased_instance_id
    assert told.error_message == (
        "Static member a2 with instance id s-1 cannot join the group because the instance id is"
        " owned by a member."
    )
    assert a.beat().error is NONE


def test_a_replaced_static_member_is_fenced(stage: ConsumerStage) -> None:
    a = stage.consumer("a", instance="s-1")
    epoch = a.epoch
    a.leave(for_a_while=True)
    stage.consumer("a2", instance="s-1")
    for used in (epoch, -1, -2):
        told = stage.beaten(stage.beat("a", used, instance="s-1", owned={}))
        assert told.error is ErrorCode.fenced_instance_id
    told = stage.beaten(stage.beat("a", 3, instance="s-9", owned={}))
    assert (told.error, told.error_message) == (
        ErrorCode.unknown_member_id,
        "Instance id s-9 is unknown.",
    )


def test_a_static_member_may_leave_for_good(stage: ConsumerStage) -> None:
    a, b = stage.consumer("a", instance="s-1"), stage.consumer("b")
    stage.settle_down(a, b)
    a.leave()
    b.beat()
    assert b.numbers == {"orders": {0, 1, 2, 3}}
    assert stage.consumer("a2", instance="s-1").epoch == stage.described().group_epoch


# ---------------------------------------------------------------------- topics


def test_new_partitions_are_assigned_with_the_next_heartbeat(stage: ConsumerStage) -> None:
    a = stage.consumer("a", "orders", "later")
    stage.change_topics(orders=6)
    a.beat()
    assert a.numbers == {"orders": {0, 1, 2, 3, 4, 5}}
    stage.change_topics(later=1)
    a.beat()
    assert a.numbers["later"] == {0}
    epoch = stage.described().group_epoch
    stage.change_topics(other=1)
    a.beat()
    assert stage.described().group_epoch == epoch


def test_partitions_of_a_deleted_topic_are_revoked(stage: ConsumerStage) -> None:
    a = stage.consumer("a", "orders", "bills")
    stage.change_topics(bills=None)
    stage.settle_down(a)
    assert a.numbers == {"orders": {0, 1, 2, 3}}


def test_a_new_coordinator_notices_earlier_changes_of_topics(stage: ConsumerStage) -> None:
    a = stage.consumer("a")
    stage.topics.shapes.update(FakeTopics(orders=8).shapes)
    a.stage = stage.reloaded()
    a.beat()
    assert a.numbers == {"orders": set(range(8))}


def test_an_expression_subscribes_to_topics_that_match_as_a_whole(stage: ConsumerStage) -> None:
    stage.change_topics(orders2=1)
    token = stage.beat("a", 0, regex="orders|b.*", topics=None, rebalance_ms=REBALANCE_MS, owned={})
    told = stage.beaten(token)
    assert set(stage.topics.numbers(told.assignment or {})) == {"orders", "bills"}


def test_a_topic_that_an_expression_matches_is_assigned(stage: ConsumerStage) -> None:
    a = stage.stranger("a", regex="orders.*")
    a.topics = None
    a.beat()
    for name in ("orders-1", "orders-2"):
        stage.change_topics(**{name: 1, "others": 1})
        stage.pass_time(1_000)
        a.beat()
        assert set(a.numbers) >= {"orders", name}
    stage.change_topics(orders=None)
    stage.pass_time(1_000)
    stage.settle_down(a)
    assert set(a.numbers) == {"orders-1", "orders-2"}
    assert stage.listed()[0].state == "Stable"


@pytest.mark.parametrize("regex", ["nothing.*", ""])
def test_a_member_that_drops_its_expression_loses_its_topics(
    stage: ConsumerStage, regex: str
) -> None:
    a = stage.stranger("a", regex="bi.*")
    a.beat()
    assert a.numbers == {"orders": {0, 1, 2, 3}, "bills": {0, 1}}
    a.regex = regex
    a.beat(full=True)
    a.beat()
    assert a.numbers == {"orders": {0, 1, 2, 3}}
    assert stage.described().state == "Stable"


def test_topics_created_in_sequence_share_one_epoch(stage: ConsumerStage) -> None:
    a = stage.stranger("a", regex="orders.*")
    a.topics = None
    a.beat()
    epoch = a.epoch
    for number in range(5):
        stage.change_topics(**{f"orders-{number}": 1})
        a.beat()
    stage.pass_time(1_000)
    a.beat()
    assert stage.described().group_epoch == epoch + 1
    assert len(a.numbers) == 6


def test_expressions_are_matched_again_after_the_refresh_interval() -> None:
    stage = ConsumerStage(GroupOptions(consumer_regex_refresh_interval_ms=20_000)).loaded()
    a = stage.stranger("a", regex="orders.*")
    a.topics = None
    a.beat()
    stage.topics.shapes.update(FakeTopics(orders5=1).shapes)
    stage.pass_time(10_000)
    a.beat()
    assert set(a.numbers) == {"orders"}
    stage.pass_time(10_000)
    a.beat()
    assert set(a.numbers) == {"orders", "orders5"}


def test_an_expression_is_removed_with_its_last_member(stage: ConsumerStage) -> None:
    a, b = (stage.stranger(each, regex="b.*") for each in "ab")
    for each in (a, b):
        each.topics = None
        each.beat()
    stage.settle_down(a, b)
    a.regex, a.topics = "", ("orders",)
    a.beat(full=True)
    stage.settle_down(a, b)
    assert (set(a.numbers), set(b.numbers)) == ({"orders"}, {"bills"})
    b.leave()
    assert stage.reloaded().described() == stage.described()
    assert len(stage.log[-3:]) == 3


def test_an_invalid_expression_is_refused(stage: ConsumerStage) -> None:
    told = stage.beaten(
        stage.beat("a", 0, regex="b(", topics=None, rebalance_ms=REBALANCE_MS, owned={})
    )
    assert told.error is ErrorCode.invalid_regular_expression
    assert str(told.error_message).startswith(
        "SubscribedTopicRegex `b(` is not a valid regular expression: "
    )
    assert stage.listed() == []
    assert stage.log == []


# ---------------------------------------------------------------------- appends


def test_heartbeats_during_an_append_form_one_batch(
    stage: ConsumerStage,
) -> None:
    stage.holds_appends = True
    members = [stage.stranger(f"m{number}") for number in range(50)]
    tokens = [each.ask() for each in members]
    again = members[1].ask()
    assert len(stage.in_flight) == 1
    assert stage.answers == {}
    stage.settle()
    assert stage.described().group_epoch == 2
    for member, token in zip(members, tokens, strict=True):
        assert member.hear(token).error is NONE
    members[1].hear(again)
    stage.holds_appends = False
    stage.settle_down(*members)
    assert stage.described().state == "Stable"
    assert sum(len(each.numbers.get("orders", ())) for each in members) == 4


def test_a_batch_fits_into_a_message(stage: ConsumerStage) -> None:
    stage.holds_appends = True
    names = [f"topic-{number}-{'x' * 200}" for number in range(300)]
    tokens = [stage.stranger(f"m{number}", *names).ask() for number in range(30)]
    while stage.in_flight:
        append = stage.in_flight.pop()
        size = sum(len(each.key) + len(each.value or b"") for each in append.records)
        assert size < 500_000
        stage.perform(stage.shard.on_appended(append.append_id, NONE, stage.now))
    assert {stage.beaten(each).error for each in tokens} == {NONE}


def test_a_batch_has_few_new_expressions(stage: ConsumerStage) -> None:
    stage.holds_appends = True
    stage.stranger("first").ask()
    tokens = [stage.stranger(f"m{number}", regex=f"bi.*{number}?").ask() for number in range(12)]
    seen = []
    while stage.in_flight:
        append = stage.in_flight.pop()
        kinds = [read_consumer_key(each.key).kind for each in append.records]
        seen.append(kinds.count(ConsumerKey.EXPRESSION))
        stage.perform(stage.shard.on_appended(append.append_id, NONE, stage.now))
    assert seen == [0, 5, 5, 2]
    assert {stage.beaten(each).error for each in tokens} == {NONE}


def test_each_group_checks_its_topics_when_many_have_changed(stage: ConsumerStage) -> None:
    a, b = stage.stranger("a", regex="or.*"), stage.stranger("b", group="others")
    a.beat()
    b.beat()
    stage.change_topics(orders=5, **{f"other-{number}": 1 for number in range(200)})
    for member in (a, b):
        stage.settle_down(member)
        assert member.numbers == {"orders": {0, 1, 2, 3, 4}}


def test_a_change_that_is_not_stored_is_rolled_back(stage: ConsumerStage) -> None:
    a = stage.consumer("a")
    before, records = stage.described(), list(stage.log)
    stage.holds_appends = True
    joining, waiting = stage.stranger("b").ask(), a.ask()
    stage.settle(ErrorCode.not_enough_replicas)
    assert stage.beaten(joining).error is ErrorCode.coordinator_not_available
    assert stage.beaten(waiting).error is NONE
    assert stage.described() == before
    assert stage.log == records
    stage.pass_time(SESSION_MS)
    stage.settle()
    assert stage.described().state == "Empty"


def test_a_group_that_is_not_stored_does_not_exist(stage: ConsumerStage) -> None:
    stage.holds_appends = True
    joining = stage.stranger("a").ask()
    committing = stage.commit({("bills", 1): 7})
    stage.settle(ErrorCode.not_enough_replicas)
    assert stage.beaten(joining).error is ErrorCode.coordinator_not_available
    assert stage.commit_errors(committing) == [ErrorCode.unknown_member_id]
    assert stage.listed() == []


def test_records_that_stay_in_the_log_take_effect_despite_an_error(stage: ConsumerStage) -> None:
    stage.holds_appends = True
    a = stage.stranger("a")
    token = a.ask()
    stage.settle(ErrorCode.not_enough_replicas_after_append, is_in_log=True)
    assert stage.beaten(token).error is ErrorCode.coordinator_not_available
    again = a.ask()
    stage.settle()
    assert a.hear(again).error is NONE
    assert a.numbers == {"orders": {0, 1, 2, 3}}


def test_no_request_waits_for_a_late_append(stage: ConsumerStage) -> None:
    stage.holds_appends = True
    a = stage.stranger("a")
    token, waiting = a.ask(), stage.stranger("b").ask()
    (append,) = stage.in_flight
    stage.perform(stage.shard.on_append_late(append.append_id, stage.now))
    refused = stage.stranger("c").ask()
    for each in (token, waiting, refused):
        assert stage.beaten(each).error is ErrorCode.coordinator_not_available
    stage.pass_time(SESSION_MS * 3)
    again = a.ask()
    stage.settle()
    assert stage.beaten(again).error is ErrorCode.coordinator_not_available
    later = a.ask()
    assert a.hear(later).error is NONE
    stage.settle()
    stage.pass_time(SESSION_MS)
    stage.settle()
    assert stage.described().state == "Empty"


def test_a_tiny_timeout_is_postponed_by_a_second_while_appends_stall(
    stage: ConsumerStage,
) -> None:
    a = stage.consumer("a")
    stage.consumer("b")
    a.beat()
    stage.beat("a", 1, rebalance_ms=0)  # it must revoke partitions, and does not
    stage.holds_appends = True
    stage.stranger("c").ask()
    (append,) = stage.in_flight
    stage.perform(stage.shard.on_append_late(append.append_id, stage.now))
    stage.now_ms += REBALANCE_MS
    stage.perform(stage.shard.on_tick(stage.now))
    due = stage.shard.next_deadline_ms()
    assert due is not None
    assert due > stage.now_ms


def test_a_session_continues_while_a_heartbeat_waits(stage: ConsumerStage) -> None:
    a = stage.consumer("a")
    stage.pass_time(SESSION_MS - 1)
    stage.holds_appends = True
    joining = stage.stranger("b").ask()
    waiting = a.ask()
    stage.pass_time(SESSION_MS - 1)
    stage.settle()
    assert stage.beaten(joining).error is NONE
    assert stage.beaten(waiting).error is NONE


def test_a_session_may_expire_during_an_append(stage: ConsumerStage) -> None:
    a = stage.consumer("a")
    stage.pass_time(SESSION_MS - 1)
    stage.holds_appends = True
    stage.stranger("b").ask()
    stage.pass_time(1)
    stage.settle()
    assert [each.member_id for each in stage.described().members] == ["b"]
    token = a.ask()
    assert stage.beaten(token).error is ErrorCode.unknown_member_id


def test_unload_answers_waiting_heartbeats(stage: ConsumerStage) -> None:
    stage.holds_appends = True
    tokens = [stage.stranger(each).ask() for each in "abc"]
    stage.unload()
    assert [stage.beaten(each).error for each in tokens] == [ErrorCode.not_coordinator] * 3


def test_a_failing_assignor_changes_nothing(
    stage: ConsumerStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = stage.consumer("a")

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr("cluster.coordinator.groups.consumer.heartbeat_batch.assign_targets", fail)
        assert stage.stranger("b").beat().error is ErrorCode.unknown_server_error
    assert stage.reloaded().described() == stage.described()
    assert a.beat().error is NONE
