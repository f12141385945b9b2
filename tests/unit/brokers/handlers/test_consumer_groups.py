"""The consumer protocol (KIP-848) through a whole broker: versions, errors, topics, leadership."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.coordinator.cluster_store import group_config
from cluster.model.errors import ErrorCode
from cluster.model.ids import LeaderEpoch
from cluster.protocol.api import ApiKey
from tests.support.cluster_states import a_partition, a_topic
from tests.support.group_requests import (
    Member,
    commit_offsets,
    committed_in,
    delete_groups,
    describe_groups,
    fetch_offsets,
    fetched_in,
    lead_offsets_topic,
    list_groups,
    topic_id,
)
from tests.support.handler_stage import BROKER, OTHER, HandlerStage, StageConnection
from tests.support.kafka_wire import request

NOT_COORDINATOR = ErrorCode.not_coordinator
NOT_FOUND = ErrorCode.group_id_not_found
T0 = ("t", 0)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[HandlerStage]:
    settings = {"group.initial.rebalance.delay.ms": "0"}
    with HandlerStage(tmp_path / "data", settings) as made:
        made.update(a_topic("t", a_partition([BROKER]), a_partition([BROKER])))
        yield made


@pytest.fixture
def coordinator(stage: HandlerStage) -> HandlerStage:
    """The stage's broker coordinates every group."""
    lead_offsets_topic(stage, partitions=3)
    return stage


def beat(
    member: str,
    epoch: int,
    *,
    group: str = "g",
    version: int = 1,
    topics: Iterable[str] | None = None,
    regex: str | None = None,
    owned: Iterable[tuple[str, list[int]]] | None = None,
    instance: str | None = None,
    rebalance_ms: int = -1,
) -> Any:
    """Send a ConsumerGroupHeartbeat."""
    return request(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        version,
        group_id=group,
        member_id=member,
        member_epoch=epoch,
        instance_id=instance,
        rack_id=None,
        rebalance_timeout_ms=rebalance_ms,
        rebalance_timeout=rebalance_ms,
        subscribed_topic_names=None if topics is None else list(topics),
        subscribed_topic_regex=regex,
        server_assignor=None,
        topic_partitions=None
        if owned is None
        else [{"topic_id": topic_id(name), "partitions": numbers} for name, numbers in owned],
    )


def joining(member: str, *, topics: Iterable[str] = ("t",), **options: Any) -> Any:
    return beat(member, 0, topics=topics, owned=[], rebalance_ms=60_000, **options)


def describe(*groups: str, version: int = 1, operations: bool = False) -> Any:
    """Send a ConsumerGroupDescribe."""
    return request(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        version,
        group_ids=list(groups),
        include_authorized_operations=operations,
    )


def assigned_in(answer: Any) -> dict[Any, list[int]] | None:
    if answer.assignment is None:
        return None
    return {each.topic_id: list(each.partitions) for each in answer.assignment.topic_partitions}


def joined(stage: HandlerStage, member: str = "m", **options: Any) -> StageConnection:
    """A member that has received its assignment, on its own connection."""
    client = stage.connect()
    answer = client.call(joining(member, **options))
    assert (answer.error_code, answer.error_message) == (0, None)
    return client


def test_a_member_joins_and_gets_its_partitions(coordinator: HandlerStage) -> None:
    answer = coordinator.connect().call(joining("m"))
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "m", 1)
    assert answer.heartbeat_interval.total_seconds() == 5
    assert assigned_in(answer) == {topic_id("t"): [0, 1]}


def test_the_coordinator_chooses_the_member_id_before_version_1(coordinator: HandlerStage) -> None:
    answer = coordinator.connect().call(joining("", version=0))
    assert answer.error_code == 0
    assert len(answer.member_id) >= 22


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (joining(""), ErrorCode.invalid_request),
        (joining("m", group=""), ErrorCode.invalid_request),
        (beat("m", 0, topics=["t"], owned=[]), ErrorCode.invalid_request),
        (beat("m", 5), NOT_FOUND),
        (beat("m", -3), ErrorCode.invalid_request),
        (beat("m", -2), ErrorCode.invalid_request),
        (beat("m", 0, regex="(", owned=[], rebalance_ms=1), ErrorCode.invalid_regular_expression),
    ],
)
def test_an_invalid_heartbeat_is_refused_with_a_message(
    coordinator: HandlerStage, asked: Any, code: int
) -> None:
    answer = coordinator.connect().call(asked)
    assert answer.error_code == code
    assert answer.error_message
    assert (answer.member_id, answer.member_epoch, answer.assignment) == (None, 0, None)


def test_two_members_share_the_partitions(coordinator: HandlerStage) -> None:
    first, second = joined(coordinator, "a"), coordinator.connect()
    first.call(beat("a", 1, owned=[("t", [0, 1])]))
    answer = second.call(joining("b"))
    assert (answer.member_epoch, assigned_in(answer)) == (2, {})
    answer = first.call(beat("a", 1))
    (kept,) = (assigned_in(answer) or {}).values()
    assert answer.member_epoch == 1
    assert len(kept) == 1
    answer = first.call(beat("a", 1, owned=[("t", kept)]))
    assert (answer.error_code, answer.member_epoch) == (0, 2)
    answer = second.call(beat("b", 2))
    assert assigned_in(answer) == {topic_id("t"): [1 - kept[0]]}


def test_a_group_is_described_with_epochs_and_members(coordinator: HandlerStage) -> None:
    client = joined(coordinator, "m", instance="i")
    client.call(beat("m", 1, owned=[("t", [0, 1])], instance="i"))
    (group,) = client.call(describe("g", operations=True)).groups
    assert (group.error_code, group.group_state, group.assignor_name) == (0, "Stable", "uniform")
    assert (group.group_epoch, group.assignment_epoch) == (1, 1)
    assert group.authorized_operations == sum(1 << bit for bit in (3, 6, 8, 10, 11))
    (member,) = group.members
    assert (member.member_id, member.instance_id, member.member_epoch) == ("m", "i", 1)
    assert (member.client_host[:1], member.member_type) == ("/", 1)
    assert (list(member.subscribed_topic_names), member.subscribed_topic_regex) == (["t"], None)
    for assignment in (member.assignment, member.target_assignment):
        (topic,) = assignment.topic_partitions
        assert (topic.topic_name, topic.topic_id) == ("t", topic_id("t"))
        assert list(topic.partitions) == [0, 1]
    (older,) = client.call(describe("g", version=0)).groups
    assert older.group_state == "Stable"


def test_each_type_of_group_is_described_by_its_own_request(coordinator: HandlerStage) -> None:
    joined(coordinator)
    assert Member(coordinator, "old").join().error_code == 0
    client = coordinator.connect()
    old, none, empty = client.call(describe("old", "none", "")).groups
    assert (old.error_code, old.error_message) == (NOT_FOUND, "Group old is not a consumer group.")
    assert (none.error_code, none.error_message) == (NOT_FOUND, "Group none not found.")
    assert empty.error_code == ErrorCode.invalid_group_id
    (group,) = client.call(describe_groups("g")).groups
    assert (group.error_code, group.group_state) == (NOT_FOUND, "Dead")
    assert group.error_message == "Group g is not a classic group."
    (group,) = client.call(describe_groups("g", version=5)).groups
    assert (group.error_code, group.group_state) == (0, "Dead")


def test_groups_are_listed_by_type_and_state(coordinator: HandlerStage) -> None:
    client = joined(coordinator)
    client.call(beat("m", 1, owned=[("t", [0, 1])]))
    Member(coordinator, "old").join()

    def listed(**filters: Any) -> set[tuple[str, str]]:
        answer = client.call(list_groups(**filters))
        return {(each.group_id, each.group_type) for each in answer.groups}

    assert listed() == {("g", "consumer"), ("old", "classic")}
    assert listed(types=["CONSUMER"]) == {("g", "consumer")}
    assert listed(types=["classic"]) == {("old", "classic")}
    assert listed(states=["stable"]) == {("g", "consumer")}
    assert listed(types=["share"]) == set()


def test_offsets_are_committed_with_the_members_epoch(coordinator: HandlerStage) -> None:
    client = joined(coordinator)
    assert committed_in(client.call(commit_offsets("g", {T0: 5}, member="m", generation=1))) == [0]
    for version, generation, code in (
        (10, 0, ErrorCode.stale_member_epoch),
        (9, 7, ErrorCode.stale_member_epoch),
        (8, 1, ErrorCode.unsupported_version),
    ):
        answer = client.call(
            commit_offsets("g", {T0: 6}, member="m", generation=generation, version=version)
        )
        assert committed_in(answer) == [code], version
    fetched = fetched_in(client.call(fetch_offsets("g", [T0])))
    assert fetched == (0, {(topic_id("t"), 0): (5, 0)})


def test_group_is_empty_when_its_member_has_left(coordinator: HandlerStage) -> None:
    client = joined(coordinator)
    (deleted,) = client.call(delete_groups("g")).results
    assert deleted.error_code == ErrorCode.non_empty_group
    answer = client.call(beat("m", -1))
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "m", -1)
    (group,) = client.call(describe("g")).groups
    assert (group.group_state, list(group.members)) == ("Empty", [])
    (deleted,) = client.call(delete_groups("g")).results
    assert deleted.error_code == 0
    (group,) = client.call(describe("g")).groups
    assert group.error_code == NOT_FOUND


def test_a_member_loses_its_partitions_when_its_session_ends(coordinator: HandlerStage) -> None:
    joined(coordinator, "a")
    other = joined(coordinator, "b")
    answer = other.call(beat("b", 2))
    for _ in range(3):
        coordinator.pass_time(30_000)
        answer = other.call(beat("b", answer.member_epoch))
    assert (answer.error_code, answer.member_epoch) == (0, 3)
    (group,) = other.call(describe("g")).groups
    assert [each.member_id for each in group.members] == ["b"]


def test_group_timings_override_those_of_the_broker(coordinator: HandlerStage) -> None:
    texts, wall_ms = {"consumer.heartbeat.interval.ms": "7000"}, coordinator.clock.wall_ms()
    coordinator.store.call(lambda store: store.configs.write(group_config("g"), texts, -1, wall_ms))
    coordinator.core.groups.configs.follower.load_at_start()
    answer = coordinator.connect().call(joining("m"))
    assert answer.heartbeat_interval.total_seconds() == 7


def test_new_partitions_are_assigned_at_the_next_heartbeat(coordinator: HandlerStage) -> None:
    client = joined(coordinator)
    client.call(beat("m", 1, owned=[("t", [0, 1])]))
    coordinator.update(a_topic("t", *[a_partition([BROKER])] * 3))
    coordinator.turn()
    answer = client.call(beat("m", 1))
    assert (answer.member_epoch, assigned_in(answer)) == (2, {topic_id("t"): [0, 1, 2]})


def test_topics_that_match_an_expression_are_assigned_when_they_are_created(
    coordinator: HandlerStage,
) -> None:
    client = joined(coordinator, topics=(), regex="t.*")
    answer = client.call(beat("m", 1))
    epoch = answer.member_epoch
    coordinator.update(a_topic("tt", a_partition([BROKER])))
    seen: set[Any] = set()
    for _ in range(4):
        coordinator.pass_time(1_000)
        answer = client.call(beat("m", epoch))
        epoch = answer.member_epoch
        seen |= set(assigned_in(answer) or {})
    assert seen >= {topic_id("tt"), topic_id("t")}


def test_another_coordinator_is_found_when_leadership_moves(coordinator: HandlerStage) -> None:
    client = joined(coordinator)
    lead_offsets_topic(
        coordinator, partitions=3, replicas=(OTHER, BROKER), leader_epoch=LeaderEpoch(9)
    )
    assert client.call(beat("m", 1)).error_code == NOT_COORDINATOR
    (group,) = client.call(describe("g")).groups
    assert group.error_code == NOT_COORDINATOR


def test_heartbeats_are_refused_without_the_offsets_topic(stage: HandlerStage) -> None:
    assert stage.connect().call(joining("m")).error_code == NOT_COORDINATOR


def test_requests_are_refused_when_the_protocol_is_disabled(tmp_path: Path) -> None:
    settings = {"group.coordinator.rebalance.protocols": "classic"}
    with HandlerStage(tmp_path / "data", settings) as stage:
        lead_offsets_topic(stage)
        client = stage.connect()
        assert client.call(joining("m")).error_code == ErrorCode.unsupported_version
        (group,) = client.call(describe("g")).groups
        assert group.error_code == ErrorCode.unsupported_version
