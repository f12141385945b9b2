"""Groups that change between the classic and the newer protocol, and mixed groups."""

import logging
from collections import Counter

import pytest

from cluster.coordinator.groups.bridge.embedded_protocol import assignment_bytes
from cluster.coordinator.groups.bridge.policy import POLICIES, policy_of
from cluster.coordinator.groups.consumer.records import (
    CONSUMER_KEYS,
    ConsumerKey,
    consumer_key,
    member_value,
)
from cluster.coordinator.groups.history.rebalances import CauseKind
from cluster.coordinator.groups.requests import GroupProtocol, LeavingMember
from cluster.coordinator.groups.shared.options import GroupOptions
from cluster.coordinator.groups.state.consumer_values import ClassicMetadata, MemberMetadata
from cluster.model.error_codes import ErrorCode
from tests.support.classic_client import ClassicClient, subscription
from tests.support.consumer_stage import Consumer, ConsumerStage, FakeTopics
from tests.support.group_stage import GROUP, REBALANCE_MS, SESSION_MS

NONE = ErrorCode.none


def stage_with(**options) -> ConsumerStage:
    return ConsumerStage(GroupOptions(initial_rebalance_delay_ms=0, **options)).loaded()


def turns(*members: ClassicClient | Consumer, rounds: int = 8) -> None:
    """All clients repeatedly take their next step."""
    for _ in range(rounds):
        for member in members:
            if isinstance(member, Consumer):
                member.beat()
            else:
                member.step()
        first = members[0]
        first.stage.pass_time(1)


def settled_classic(stage: ConsumerStage, count: int = 2, **others) -> list[ClassicClient]:
    members = [ClassicClient(stage, **others) for _ in range(count)]
    turns(*members)
    assert stage.state() == "Stable"
    assert reads(*members) == {("orders", number): 1 for number in range(4)}
    return members


def reads(*members: ClassicClient | Consumer) -> Counter:
    """The number of these clients that consume each partition."""
    return Counter(
        (topic, number)
        for member in members
        for topic, numbers in member.numbers.items()
        for number in numbers
    )


def everything(**counts: int) -> Counter:
    return Counter({(t, n): 1 for t, count in counts.items() for n in range(count)})


def kinds(records) -> list[str]:
    names = {b"\0\1": "OFFSET", b"\0\2": "GROUP"} | {
        key: kind.name for key, kind in CONSUMER_KEYS.items()
    }
    return [("" if each.value is None else "+") + names[each.key[:2]] for each in records]


def protocol_of(stage: ConsumerStage) -> str:
    (listed,) = stage.listed()
    return f"{listed.group_type} {listed.state}"


# ---------------------------------------------------------------------- to the newer protocol


@pytest.mark.parametrize("cooperative", [False, True])
def test_a_newer_member_gets_its_share_of_a_classic_group(cooperative):
    stage = stage_with()
    old = settled_classic(stage, cooperative=cooperative)
    new = stage.consumer("new")
    assert protocol_of(stage) == "consumer Reconciling"
    assert new.numbers == {}  # the others still have everything
    turns(*old, new)
    assert reads(*old, new) == everything(orders=4)
    assert new.numbers
    assert all(each.numbers for each in old)
    assert [each.losses for each in old] == [0, 0]
    assert protocol_of(stage) == "consumer Stable"
    described = {each.member_id: each for each in stage.described().members}
    assert [described[each.member_id].is_classic for each in old] == [True, True]
    assert not described["new"].is_classic


def test_cooperative_members_keep_consuming_during_an_upgrade():
    stage = stage_with()
    old = settled_classic(stage, cooperative=True)
    before = [each.numbers["orders"] for each in old]
    new = stage.consumer("new")
    seen = [set(numbers) for numbers in before]
    for _ in range(8):
        turns(*old, new, rounds=1)
        for numbers, member in zip(seen, old, strict=True):
            numbers &= member.numbers["orders"]
    assert sorted(len(numbers) for numbers in seen) == [1, 2]  # one of four moved


def test_a_group_is_upgraded_and_downgraded_member_by_member():
    stage = stage_with()
    members: list[ClassicClient | Consumer] = list(settled_classic(stage, 3, cooperative=True))
    for place in range(3):
        members[place].leave()
        members[place] = stage.stranger(f"new-{place}")
        turns(*members)
        assert reads(*members) == everything(orders=4)
    assert protocol_of(stage) == "consumer Stable"
    assert not any(each.is_classic for each in stage.described().members)
    for place in range(3):
        members[place].leave()
        members[place] = ClassicClient(stage, cooperative=True)
        turns(*members)
        assert reads(*members) == everything(orders=4)
    assert protocol_of(stage) == "classic Stable"
    assert not any(each.losses for each in members if isinstance(each, ClassicClient))


def test_the_records_of_an_upgrade_are_kafkas_in_one_append():
    stage = stage_with()
    (old,) = settled_classic(stage, 1)
    stage.holds_appends = True
    stage.beat("new", 0, topics=["orders"], rebalance_ms=REBALANCE_MS, owned={})
    (append,) = stage.in_flight
    assert kinds(append.records) == [
        "GROUP",
        "+MEMBER",
        "+EPOCH",
        "+TARGET",
        "+ASSIGNMENT_EPOCH",
        "+CURRENT",
        # the new member
        "+MEMBER",
        "+EPOCH",
        "+TARGET",
        "+TARGET",
        "+ASSIGNMENT_EPOCH",
        "+CURRENT",
    ]
    stage.settle()
    assert stage.described().group_epoch == old.generation + 1
    shown = stage.described()
    assert stage.reloaded().described() == shown


def test_offsets_and_history_survive_a_conversion():
    stage = stage_with()
    (old,) = settled_classic(stage, 1)
    stage.commit({("orders", 1): 7}, old.member_id, old.generation)
    stage.consumer("new")
    assert stage.committed() == {("orders", 1): 7}
    assert stage.committed() == stage.reloaded().committed()
    causes = [cause.kind.name for each in stage.rebalances() for cause in each.causes]
    assert causes == ["MEMBER_JOINED", "MEMBER_JOINED"]


def test_waiting_joins_are_refused_by_an_upgrade():
    stage = stage_with()
    first, second = settled_classic(stage, 2)
    third = ClassicClient(stage)
    third.step()
    third.step()
    assert third.waits_for_join is not None
    first.step()
    first.step()
    assert first.waits_for_join is not None
    new = stage.consumer("new")
    third.step()
    first.step()
    assert third.heard[-1] is first.heard[-1] is ErrorCode.rebalance_in_progress
    turns(first, second, third, new)
    assert reads(first, second, third, new) == everything(orders=4)


def test_waiting_syncs_are_refused_by_an_upgrade():
    stage = stage_with()
    (member_id, other_id) = stage.completing(2)
    waiting = stage.sync(other_id, 1)
    new = stage.consumer("new")
    assert stage.synced(waiting).error is ErrorCode.rebalance_in_progress
    assert stage.heartbeat(member_id, 1) is ErrorCode.rebalance_in_progress
    assert len(new.numbers["orders"]) == 2  # no member had an assignment yet
    assert stage.join(member_id) in stage.answers


def test_partitions_that_a_member_may_still_consume_stay_its_own_after_an_upgrade():
    stage = stage_with()
    first_id, first_token = stage.join_new()
    second = subscription(("orders",), {"orders": frozenset({2, 3})})
    second_id, second_token = stage.join_new(offers=(GroupProtocol("range", second),))
    stage.pass_time(1)
    generation = stage.joined(first_token).generation_id
    assert stage.joined(second_token).generation_id == generation
    parts = {first_id: frozenset({0, 1}), second_id: frozenset({3})}
    stage.sync(
        stage.joined(first_token).leader,
        generation,
        {each: assignment_bytes({"orders": parts[each]}, 1) for each in parts},
    )
    new = stage.consumer("new")  # the second does not know yet that it must revoke one
    assert 2 not in new.numbers.get("orders", set())
    described = {each.member_id: each for each in stage.described().members}
    assert [each.partitions for each in described[second_id].assignment] == [(2, 3)]


def test_a_late_append_outcome_changes_nothing_after_an_upgrade():
    stage = stage_with()
    (member_id,) = stage.completing(1)
    stage.holds_appends = True
    waiting = stage.sync(member_id, 1, {member_id: b""})
    new = stage.stranger("new")
    token = new.ask()
    assert stage.synced(waiting).error is ErrorCode.rebalance_in_progress
    stage.settle()
    assert new.hear(token).error is NONE
    assert protocol_of(stage) == "consumer Reconciling"


@pytest.mark.parametrize(
    ("options", "client", "reason"),
    [
        ({"consumer_migration_policy": "disabled"}, {}, "online upgrade is disabled"),
        ({"consumer_migration_policy": "DOWNGRADE"}, {}, "online upgrade is disabled"),
        (
            {"consumer_max_size": 1},
            {},
            "the group size exceeds the consumer group maximum size",
        ),
        (
            {},
            {"user_data": b"mine"},
            "an unsupported custom assignor is in use. Please refer to the documentation or switch"
            " to a default assignor before re-attempting the upgrade",
        ),
    ],
)
def test_a_group_is_not_upgraded_when_the_policy_forbids_it(options, client, reason):
    stage = stage_with(**options)
    old = settled_classic(stage, **client)
    written = len(stage.log)
    reply = stage.stranger("new").beat()
    assert reply.error is ErrorCode.group_id_not_found
    assert reply.error_message == (
        f"Cannot upgrade classic group {GROUP} to consumer group because {reason}."
    )
    assert len(stage.log) == written
    assert protocol_of(stage) == "classic Stable"
    assert all(stage.heartbeat(each.member_id, each.generation) is NONE for each in old)


def test_a_group_of_connect_is_not_upgraded():
    stage = stage_with()
    stage.stable(1, protocol_type="connect")
    reply = stage.stranger("new").beat()
    assert reply.error is ErrorCode.group_id_not_found
    assert "does not use the consumer embedded protocol" in reply.error_message


def test_malformed_metadata_prevents_an_upgrade():
    stage = stage_with()
    stage.stable(1, offers=(GroupProtocol("range", b"\0"),))
    reply = stage.stranger("new").beat()
    assert reply.error is ErrorCode.group_id_not_found
    assert "the embedded consumer protocol is malformed" in reply.error_message
    assert stage.state() == "Stable"


def test_a_shared_partition_prevents_an_upgrade():
    stage = stage_with()
    joins = [stage.join_new() for _ in range(2)]
    stage.pass_time(1)
    everybody = {
        member_id: assignment_bytes({"orders": frozenset({0})}, 1) for member_id, _ in joins
    }
    for member_id, token in joins:
        stage.sync(member_id, stage.joined(token).generation_id, everybody)
    assert protocol_of(stage) == "classic Stable"
    reply = stage.stranger("new").beat()
    assert reply.error is ErrorCode.group_id_not_found
    assert "an unsupported custom assignor is in use" in reply.error_message


def test_a_refused_heartbeat_leaves_the_group_classic():
    stage = stage_with(consumer_max_size=2)
    old = settled_classic(stage)
    written = len(stage.log)
    old[0].topics = ("orders", "bills")
    old[0].has_to_join = True
    old[0].step()  # a rebalance begins
    assert stage.stranger("new").beat().error is ErrorCode.group_max_size_reached
    assert len(stage.log) == written
    assert causes(stage)[-1] == CauseKind.SUBSCRIPTION_CHANGED.value
    (*_, running) = stage.rebalances()
    assert not running.is_over
    turns(*old)
    assert protocol_of(stage) == "classic Stable"
    assert all(stage.heartbeat(each.member_id, each.generation) is NONE for each in old)


def test_an_assigned_member_id_is_valid_after_a_refused_heartbeat():
    stage = stage_with()
    member_id = stage.joined(stage.join()).member_id
    refused = stage.beaten(
        stage.beat("new", 0, regex="(", rebalance_ms=REBALANCE_MS, owned={}),
    )
    assert refused.error is ErrorCode.invalid_regular_expression
    token = stage.join(member_id)
    stage.pass_time(1)
    assert stage.joined(token).error is NONE


def test_an_upgrade_that_is_not_stored_is_rolled_back():
    stage = stage_with()
    old = settled_classic(stage, cooperative=True)
    stage.holds_appends = True
    new = stage.stranger("new")
    token = new.ask()
    # meanwhile the group uses the newer protocol, and a rejoining member waits
    assert stage.heartbeat(old[0].member_id, old[0].generation) is ErrorCode.rebalance_in_progress
    old[0].step()
    old[0].step()
    assert old[0].waits_for_join is not None
    stage.settle(ErrorCode.not_enough_replicas)
    assert new.hear(token).error is ErrorCode.coordinator_not_available
    assert protocol_of(stage) == "classic PreparingRebalance"
    (*_, running) = stage.rebalances()
    assert not running.is_over
    assert running.causes[0].kind is CauseKind.ASSIGNMENT_NOT_STORED
    stage.holds_appends = False
    turns(*old)
    assert reads(*old) == everything(orders=4)
    assert [each.losses for each in old] == [0, 0]
    assert stage.reloaded().state() == "Stable"


def test_silent_members_time_out_after_an_upgrade_was_rolled_back():
    stage = stage_with()
    settled_classic(stage)
    stage.holds_appends = True
    stage.stranger("new").ask()
    stage.settle(ErrorCode.not_enough_replicas)
    stage.holds_appends = False
    stage.pass_time(SESSION_MS)
    assert protocol_of(stage) == "classic Empty"


# ---------------------------------------------------------------------- to the classic protocol


def mixed(stage: ConsumerStage, **others) -> tuple[list[ClassicClient], Consumer]:
    old = settled_classic(stage, **others)
    new = stage.consumer("new")
    turns(*old, new)
    return old, new


@pytest.mark.parametrize("cooperative", [False, True])
def test_a_group_is_downgraded_when_its_last_newer_member_leaves(cooperative):
    stage = stage_with()
    old, new = mixed(stage, cooperative=cooperative)
    epoch = stage.described().group_epoch
    written = len(stage.log)
    new.leave()
    assert protocol_of(stage) == "classic PreparingRebalance"
    assert kinds(stage.log[written:]) == [
        *("CURRENT", "TARGET", "MEMBER"),  # of the member
        *("CURRENT", "CURRENT", "TARGET", "TARGET", "ASSIGNMENT_EPOCH", "MEMBER", "MEMBER"),
        *("PARTITION_METADATA", "EPOCH", "+GROUP"),
    ]
    turns(*old)
    assert reads(*old) == everything(orders=4)
    assert [each.losses for each in old] == [0, 0]
    assert {each.generation for each in old} == {old[0].generation}
    assert old[0].generation > epoch
    assert protocol_of(stage) == "classic Stable"


def test_a_group_is_downgraded_when_the_session_of_its_last_newer_member_expires():
    stage = stage_with()
    old, _ = mixed(stage)
    for _ in range(10):
        stage.pass_time(SESSION_MS // 2)
        turns(*old, rounds=2)
    assert protocol_of(stage) == "classic Stable"
    assert reads(*old) == everything(orders=4)


def test_a_downgraded_group_is_loaded_as_a_classic_one():
    stage = stage_with()
    old, new = mixed(stage)
    stage.commit({("orders", 0): 3}, "new", new.epoch)
    new.leave()
    again = stage.reloaded()
    assert protocol_of(again) == "classic Stable"
    described = again.described_classic()
    assert {each.member_id for each in described.members} == {each.member_id for each in old}
    assert again.committed() == {("orders", 0): 3}


def test_all_partitions_are_assigned_when_the_coordinator_fails_after_a_downgrade():
    stage = stage_with()
    old, new = mixed(stage)
    new.leave()
    again = stage.reloaded()
    for each in old:
        each.stage = again
    turns(*old)
    assert reads(*old) == everything(orders=4)
    assert protocol_of(again) == "classic Stable"


def test_a_static_member_that_returns_as_classic_moves_no_partition():
    stage = stage_with()
    old = [ClassicClient(stage, instance="s-1"), ClassicClient(stage, instance="s-2")]
    turns(*old)
    new = stage.stranger("new", instance="s-2")  # a rolling upgrade begins
    turns(old[0], new)
    assert protocol_of(stage) == "consumer Stable"
    read_before = new.numbers
    back = ClassicClient(stage, instance="s-2")
    back.step()
    assert protocol_of(stage) == "classic Stable"
    assert back.numbers == read_before
    assert stage.heartbeat(old[0].member_id, old[0].generation, "s-1") is NONE
    assert reads(old[0], back) == everything(orders=4)


def test_a_returning_classic_static_member_converts_no_group():
    stage = stage_with(consumer_migration_policy="upgrade")
    old = [ClassicClient(stage, instance="s-1"), ClassicClient(stage, instance="s-2")]
    turns(*old)
    new = stage.consumer("new")
    turns(*old, new)
    new.leave()
    turns(*old)
    again = ConsumerStage(GroupOptions(), stage.topics).loaded(stage.log)
    assert protocol_of(again) == "consumer Stable"
    ClassicClient(again, instance="s-2").step()
    assert protocol_of(again) == "consumer Stable"


def test_a_static_member_of_the_classic_protocol_is_replaced_without_having_left():
    stage = stage_with()
    old = [ClassicClient(stage, instance="s-1"), ClassicClient(stage, instance="s-2")]
    turns(*old)
    read_before = old[1].numbers
    new = stage.consumer("new", instance="s-2")
    assert new.numbers == read_before
    assert (
        stage.heartbeat(old[1].member_id, old[1].generation, "s-2") is ErrorCode.fenced_instance_id
    )
    assert old[0].numbers | {} == {"orders": {0, 2}}


@pytest.mark.parametrize(
    "options",
    [
        {"consumer_migration_policy": "upgrade"},
        {"max_size": 2},
    ],
)
def test_a_group_is_not_downgraded_when_the_policy_forbids_it(options):
    stage = stage_with(**options)
    old = settled_classic(stage)
    third = ClassicClient(stage)
    new = stage.consumer("new")
    turns(*old, third, new)
    new.leave()
    turns(*old, third)
    assert protocol_of(stage) == "consumer Stable"
    assert reads(*old, third) == everything(orders=4)


def test_malformed_metadata_does_not_prevent_a_downgrade():
    stage = stage_with()
    new = stage.consumer("new")
    good = subscription(("orders",), {})
    for offers in (
        (GroupProtocol("range", good), GroupProtocol("other", b"")),
        (GroupProtocol("other", good),),
    ):
        assert stage.joined(stage.join(offers=offers, knows_ids=False)).error is NONE
    assert new.leave().error is NONE
    assert protocol_of(stage) == "classic PreparingRebalance"


def test_a_group_keeps_its_protocol_when_all_members_leave():
    stage = stage_with()
    old, _ = mixed(stage)
    token = stage.leave(*(each.member_id for each in old), "new")
    assert {each.error for each in stage.answers[token].members} == {NONE}
    assert protocol_of(stage) == "consumer Empty"


def test_a_downgrade_that_is_not_stored_changes_nothing():
    stage = stage_with()
    old, new = mixed(stage, cooperative=True)
    stage.holds_appends = True
    token = new.ask(epoch=-1)
    old[0].has_to_join = True
    old[0].step()
    assert old[0].waits_for_join is not None
    assert stage.heartbeat(old[1].member_id, old[1].generation) is NONE
    stage.settle(ErrorCode.not_enough_replicas)
    assert stage.beaten(token).error is ErrorCode.coordinator_not_available
    assert protocol_of(stage).startswith("consumer")
    stage.holds_appends = False
    turns(*old, new)
    assert reads(*old, new) == everything(orders=4)


def test_requests_that_wait_for_a_downgrade_reach_the_classic_group():
    stage = stage_with()
    old, new = mixed(stage, cooperative=True)
    stage.holds_appends = True
    new.ask(epoch=-1)
    for each in old:
        each.has_to_join = True
        each.step()
    late = stage.sync(old[1].member_id, old[1].generation)
    gone = stage.leave("new")
    stage.settle()
    assert stage.synced(late).error is ErrorCode.illegal_generation  # the next one has begun
    assert stage.answers[gone].members[0].error is ErrorCode.unknown_member_id
    stage.holds_appends = False
    turns(*old)
    assert reads(*old) == everything(orders=4)


# ---------------------------------------------------------------------- groups without members


def test_an_empty_newer_group_becomes_classic_when_a_classic_member_joins():
    stage = stage_with()
    new = stage.consumer("new")
    stage.commit({("orders", 2): 9}, "new", new.epoch)
    new.leave()
    (old,) = settled_classic(stage, 1)
    assert protocol_of(stage) == "classic Stable"
    assert stage.committed() == {("orders", 2): 9}
    assert protocol_of(stage.reloaded()) == "classic Stable"
    assert old.losses == 0


def test_an_empty_newer_group_stays_when_its_removal_is_not_stored():
    stage = stage_with()
    stage.consumer("new").leave()
    stage.holds_appends = True
    token = stage.join()
    assert token not in stage.answers
    stage.settle(ErrorCode.not_enough_replicas)
    assert stage.joined(token).error is ErrorCode.coordinator_not_available
    assert not stage.in_flight
    assert protocol_of(stage) == "consumer Empty"


def test_requests_of_unknown_members_create_no_group():
    stage = stage_with()
    stage.consumer("new").leave()
    assert stage.joined(stage.join("somebody")).error is ErrorCode.unknown_member_id
    assert stage.synced(stage.sync("somebody", 1)).error is ErrorCode.unknown_member_id
    assert stage.heartbeat("somebody", 1) is ErrorCode.unknown_member_id
    left = stage.answers[stage.leave("somebody")]
    assert left.error is NONE
    assert left.members[0].error is ErrorCode.unknown_member_id
    assert protocol_of(stage) == "consumer Empty"


# ---------------------------------------------------------------------- classic members in it


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"member_id": "x"}, ErrorCode.unknown_member_id),
        ({"member_id": "new"}, ErrorCode.unknown_member_id),
        ({"generation": 99}, ErrorCode.illegal_generation),
        ({"instance": "s-9"}, ErrorCode.unknown_member_id),
        ({"instance": "s-1"}, ErrorCode.fenced_instance_id),
        ({}, NONE),
    ],
)
def test_heartbeats_and_syncs_are_checked_as_in_a_classic_group(change, error):
    stage = stage_with()
    static = ClassicClient(stage, instance="s-1")
    old = ClassicClient(stage)
    new = stage.stranger("new")
    turns(static, old)
    turns(static, old, new)
    asked = {"member_id": old.member_id, "generation": old.generation} | change
    assert stage.heartbeat(**asked) is error
    assert stage.synced(stage.sync(**asked)).error is error
    generation_error = NONE if error is NONE else error
    commit = {key: value for key, value in asked.items() if key != "instance"}
    if "instance" not in change and change != {"member_id": "new"}:
        assert stage.commit_errors(stage.commit(None, **commit)) == [generation_error]


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"protocol_type": "connect"}, ErrorCode.inconsistent_group_protocol),
        ({"protocol_name": "sticky"}, ErrorCode.inconsistent_group_protocol),
        ({"protocol_type": "consumer", "protocol_name": "range"}, NONE),
    ],
)
def test_a_sync_names_the_protocol_of_the_member(said, error):
    stage = stage_with()
    (old, _), _ = mixed(stage)
    assert stage.synced(stage.sync(old.member_id, old.generation, **said)).error is error


def test_a_member_with_a_damaged_record_gets_inconsistent_group_protocol():
    stage = stage_with()
    stage.consumer("a")
    member = MemberMetadata(client_host="/127.0.0.1", classic=ClassicMetadata(SESSION_MS))
    key = consumer_key(ConsumerKey.MEMBER, GROUP, "a")
    damaged = ConsumerStage().loaded([*stage.log, (key, member_value(member))])
    assert damaged.heartbeat("a", 1) is NONE
    told = damaged.synced(damaged.sync("a", 1))
    assert told.error is ErrorCode.inconsistent_group_protocol


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"protocol_type": "connect"}, ErrorCode.inconsistent_group_protocol),
        ({"offers": ()}, ErrorCode.inconsistent_group_protocol),
        (
            {"offers": (GroupProtocol("sticky", subscription(("orders",), {})),)},
            ErrorCode.inconsistent_group_protocol,
        ),
        ({"offers": (GroupProtocol("range", b"\0"),)}, ErrorCode.inconsistent_group_protocol),
        ({"session_ms": 1}, ErrorCode.invalid_session_timeout),
        ({"member_id": "x" * 40_000}, ErrorCode.unknown_member_id),
        ({"client": "x" * 40_000}, ErrorCode.invalid_request),
        ({"member_id": "x", "instance": "s-9"}, ErrorCode.unknown_member_id),
        ({"member_id": "x", "instance": "s-1"}, ErrorCode.fenced_instance_id),
        ({}, ErrorCode.member_id_required),
        ({"knows_ids": False}, NONE),
    ],
)
def test_joins_are_checked(said, error):
    stage = stage_with()
    static = ClassicClient(stage, instance="s-1")
    new = stage.stranger("new")
    turns(static)
    turns(static, new)
    assert stage.joined(stage.join(**said)).error is error


def test_joins_beyond_the_group_size_are_refused():
    stage = stage_with(consumer_max_size=3)
    old, _ = mixed(stage)
    assert stage.joined(stage.join()).error is ErrorCode.group_max_size_reached
    old[0].has_to_join = True
    old[0].step()
    assert old[0].heard[-2:] == [NONE, NONE]


def test_a_classic_member_that_does_not_rejoin_in_time_is_removed():
    stage = stage_with()
    old, new = mixed(stage)
    third = stage.stranger("third")
    third.beat()
    for _ in range(20):
        stage.pass_time(REBALANCE_MS // 12)
        for each in old:
            stage.heartbeat(each.member_id, each.generation)
        turns(new, third, rounds=1)
    assert {each.member_id for each in stage.described().members} == {"new", "third"}
    assert causes(stage)[-1] == "did not join again within the rebalance timeout"


def test_a_classic_member_that_does_not_sync_in_time_is_removed():
    stage = stage_with()
    (old, other), new = mixed(stage)
    stage.leave(other.member_id)
    reply = stage.joined(
        stage.join(old.member_id, offers=(GroupProtocol("range", subscription(("orders",), {})),))
    )
    assert reply.error is NONE
    for _ in range(20):
        stage.pass_time(REBALANCE_MS // 12)
        stage.heartbeat(old.member_id, reply.generation_id)
        turns(new, rounds=1)
    assert {each.member_id for each in stage.described().members} == {"new"}
    assert causes(stage)[-1] == "did not ask for its assignment within the rebalance timeout"


def causes(stage: ConsumerStage) -> list[str]:
    found = stage.rebalances()
    return [cause.kind.value for each in found for cause in each.causes]


def test_a_sync_cancels_the_sync_timeout():
    stage = stage_with()
    new = stage.consumer("new")
    joined = stage.joined(stage.join(knows_ids=False, rebalance_ms=5_000))
    stage.holds_appends = True
    new.ask()  # it revokes the other member's partitions
    waiting = stage.sync(joined.member_id, joined.generation_id)
    stage.pass_time(5_000)  # the log is slow
    stage.settle()
    assert stage.synced(waiting).error is NONE
    assert joined.member_id in {each.member_id for each in stage.described().members}


def test_a_member_of_the_classic_protocol_has_its_own_session_timeout():
    stage = stage_with()
    old, new = mixed(stage)
    for _ in range(3):
        stage.pass_time(SESSION_MS - 100)
        turns(new, rounds=1)
        stage.heartbeat(old[0].member_id, old[0].generation)
    assert {each.member_id for each in stage.described().members} == {"new", old[0].member_id}
    again = stage.reloaded()
    again.pass_time(SESSION_MS)
    assert {each.member_id for each in again.described().members} == {"new"}


def test_an_administrator_removes_members_of_both_protocols():
    stage = stage_with()
    static = ClassicClient(stage, instance="s-1")
    old = ClassicClient(stage)
    new = stage.stranger("new", instance="s-2")
    turns(static, old)
    turns(static, old, new)
    token = stage.leave(
        LeavingMember("", "s-1"),
        LeavingMember("", "s-2"),
        LeavingMember("", "s-3"),
        LeavingMember("x", "s-2"),
    )
    assert [each.error for each in stage.answers[token].members] == [
        NONE,
        NONE,
        ErrorCode.unknown_member_id,
        ErrorCode.unknown_member_id,
    ]
    turns(old)
    assert protocol_of(stage) == "classic Stable"
    assert reads(old) == everything(orders=4)


def test_members_of_both_protocols_get_new_partitions_and_topics():
    stage = stage_with()
    old, new = mixed(stage)
    old[0].topics = ("orders", "bills")
    old[0].has_to_join = True
    turns(*old, new)
    assert reads(*old, new) == everything(orders=4, bills=2)
    stage.change_topics(orders=6)
    turns(*old, new)
    assert reads(*old, new) == everything(orders=6, bills=2)


def test_unload_answers_all_waiting_requests():
    stage = stage_with()
    old, new = mixed(stage)
    stage.holds_appends = True
    new.ask(epoch=-1)
    joins = [stage.join(each.member_id) for each in old]
    sync = stage.sync(old[0].member_id, old[0].generation)
    leave = stage.leave(old[1].member_id)
    stage.unload()
    assert {stage.answers[each].error for each in (*joins, sync, leave)} == {
        ErrorCode.not_coordinator
    }


def test_policies_have_kafkas_names(caplog):
    caplog.set_level(logging.INFO)
    assert policy_of("Bidirectional") == (True, True)
    assert policy_of("nonsense") == POLICIES["disabled"] == (False, False)


def test_deleted_topics_are_left_out():
    topics = FakeTopics(orders=4, bills=2)
    stage = ConsumerStage(GroupOptions(initial_rebalance_delay_ms=0), topics).loaded()
    old = [ClassicClient(stage, topics=("orders", "bills"))]
    turns(*old)
    stage.change_topics(bills=None)
    new = stage.consumer("new")
    turns(*old, new)
    assert reads(*old, new) == everything(orders=4)
    new.leave()
    turns(*old)
    assert reads(*old) == everything(orders=4)


def test_a_newer_member_joins_when_every_classic_one_left_before_the_first_generation():
    stage = stage_with()
    stage.holds_appends = True
    ClassicClient(stage).step()  # and sends nothing more
    leaving = ClassicClient(stage)
    for _ in range(2):
        leaving.step()
    leaving.leave()
    newer = stage.stranger("newer", "orders")
    asked = newer.ask()
    stage.settle()
    assert newer.hear(asked).error is NONE
    assert protocol_of(stage).startswith("consumer")
