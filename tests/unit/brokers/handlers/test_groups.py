"""Group requests through a whole broker: versions, errors, waiting, leadership, time."""

import gc
import logging
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cluster.brokers.coordinators.shard_loading import RECORDS_PER_FREEZE
from cluster.coordinator.groups.shared.records import offset_key
from cluster.coordinator.groups.views.queries import ListGroupIds
from cluster.model.errors import ErrorCode, StorageFailed
from cluster.model.ids import LeaderEpoch
from cluster.model.kept_names import kept_name
from cluster.model.topics import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from cluster.protocol.peer.control import CreateTopics, TopicOutcome, TopicOutcomes
from cluster.records.builder import NewRecord, build_batch
from cluster.runtime.compiled import is_compiled
from tests.support.cluster_states import a_partition, a_topic
from tests.support.group_requests import (
    SESSION_MS,
    Member,
    commit_offsets,
    committed_in,
    delete_groups,
    delete_offsets,
    describe_groups,
    fetch_offsets,
    fetched_in,
    find_coordinator,
    heartbeat,
    join_group,
    lead_offsets_topic,
    leave_group,
    list_groups,
    sync_group,
    topic_id,
)
from tests.support.handler_requests import a_batch, codes_of, produced_in
from tests.support.handler_stage import BROKER, OTHER, HandlerStage
from tests.support.kafka_wire import produce_to
from tests.unit.log.log_builder import append

T0 = ("t", 0)
NOT_COORDINATOR = ErrorCode.not_coordinator
LOADING = ErrorCode.coordinator_load_in_progress


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[HandlerStage]:
    settings = {"group.initial.rebalance.delay.ms": "0", "offsets.commit.timeout.ms": "5000"}
    with HandlerStage(tmp_path / "data", settings) as made:
        made.update(a_topic("t", a_partition([BROKER]), a_partition([BROKER])))
        yield made


@pytest.fixture
def coordinator(stage: HandlerStage) -> HandlerStage:
    """The stage's broker coordinates every group."""
    lead_offsets_topic(stage, partitions=3)
    return stage


def one_member(stage: HandlerStage, group: str = "g") -> Member:
    """A group in state Stable."""
    member = Member(stage, group)
    assert member.join().error_code == 0
    assert member.sync().error_code == 0
    return member


# -- FindCoordinator -------------------------------------------------------------------------------


def found_in(answer: Any) -> Any:
    return answer.coordinators[0] if hasattr(answer, "coordinators") else answer


@pytest.mark.parametrize("version", range(7))
def test_the_coordinator_is_the_leader_of_the_groups_partition(
    stage: HandlerStage, version: int
) -> None:
    lead_offsets_topic(stage, replicas=[OTHER, BROKER])
    found = found_in(stage.connect().call(find_coordinator("g", version=version)))
    assert (found.error_code, found.node_id, found.host, found.port) == (0, OTHER, "host2", 9094)


@pytest.mark.parametrize("version", range(7))
def test_find_coordinator_creates_a_missing_topic(stage: HandlerStage, version: int) -> None:
    found = found_in(stage.connect().call(find_coordinator("g", version=version)))
    code = ErrorCode.coordinator_not_available
    assert (found.error_code, found.node_id, found.port) == (code, -1, -1)
    wanted = [each.request for each in stage.link.asked if isinstance(each.request, CreateTopics)]
    assert wanted == [CreateTopics((CONSUMER_OFFSETS_TOPIC,), None)]


def test_the_reason_is_logged_when_the_topic_is_not_created(
    stage: HandlerStage, caplog: pytest.LogCaptureFixture
) -> None:
    stage.connect().call(find_coordinator("g"))
    reason = "Replication factor: 3 larger than available brokers: 2."
    refused = TopicOutcome(CONSUMER_OFFSETS_TOPIC, ErrorCode.invalid_replication_factor, reason)
    stage.link.answer_all(TopicOutcomes([refused]))
    (line,) = [each for each in caplog.records if "auto-creation" in each.getMessage()]
    assert line.levelno == logging.WARNING
    assert reason in line.getMessage()


def test_find_coordinator_answers_for_several_groups(stage: HandlerStage) -> None:
    led = a_partition([BROKER]), a_partition([OTHER])
    stage.update(a_topic(CONSUMER_OFFSETS_TOPIC, *led))
    answer = stage.connect().call(find_coordinator("a", "b", "a"))
    # "a" hashes to 97, "b" to 98.
    assert [(each.key, each.node_id) for each in answer.coordinators] == [
        ("a", OTHER),
        ("b", BROKER),
    ]


def test_find_coordinator_names_no_dead_leader(stage: HandlerStage) -> None:
    lead_offsets_topic(stage, replicas=[OTHER, BROKER])
    stage.break_connection(OTHER)
    found = found_in(stage.connect().call(find_coordinator("g")))
    assert found.error_code == ErrorCode.coordinator_not_available


@pytest.mark.parametrize("version", range(1, 7))
def test_find_coordinator_names_the_leader_of_a_transactional_ids_partition(
    coordinator: HandlerStage, version: int
) -> None:
    asked = find_coordinator("payments", version=version, key_type=1)
    found = found_in(coordinator.connect().call(asked))
    assert found.error_code == ErrorCode.coordinator_not_available
    coordinator.update(a_topic(TRANSACTION_STATE_TOPIC, a_partition([BROKER])))
    found = found_in(coordinator.connect().call(asked))
    assert (found.error_code, found.node_id) == (0, BROKER)


@pytest.mark.parametrize("key_type", [2, 7])
def test_find_coordinator_refuses_other_keys_than_groups(
    coordinator: HandlerStage, key_type: int
) -> None:
    found = found_in(coordinator.connect().call(find_coordinator("x", key_type=key_type)))
    assert (found.error_code, found.node_id) == (ErrorCode.invalid_request, -1)


# -- who is asked ----------------------------------------------------------------------------------

REQUESTS = [
    *(join_group("g", version=version) for version in range(10)),
    *(sync_group("g", "m", 1, version=version) for version in range(6)),
    *(heartbeat("g", "m", 1, version=version) for version in range(5)),
    *(leave_group("g", "m", version=version) for version in range(6)),
    *(commit_offsets("g", {T0: 1}, version=version) for version in range(2, 11)),
    *(fetch_offsets("g", [T0], version=version) for version in range(1, 11)),
    *(describe_groups("g", version=version) for version in range(7)),
    *(delete_groups("g", version=version) for version in range(3)),
    delete_offsets("g", T0),
]


def code_in(answer: Any) -> int:
    """The error code of a response about one group, at any depth."""
    for place in ("groups", "results"):
        if hasattr(answer, place):
            return int(getattr(answer, place)[0].error_code)
    if hasattr(answer, "error_code"):
        return int(answer.error_code)
    return int(answer.topics[0].partitions[0].error_code)


def codes_of_all(stage: HandlerStage) -> set[int]:
    """The codes of the responses to all requests, which are answered immediately."""
    client = stage.connect()
    codes = set()
    for asked in REQUESTS:
        client.send(asked)
        codes.add(code_in(client.receive()))
    return codes


def test_requests_are_refused_by_a_broker_that_does_not_coordinate(stage: HandlerStage) -> None:
    assert codes_of_all(stage) == {NOT_COORDINATOR}
    lead_offsets_topic(stage, replicas=[OTHER, BROKER])
    assert codes_of_all(stage) == {NOT_COORDINATOR}


def test_requests_are_refused_while_the_coordinator_is_loading(stage: HandlerStage) -> None:
    lead_offsets_topic(stage)
    one_member(stage, "known")
    partition, groups = stage.partition(CONSUMER_OFFSETS_TOPIC), stage.core.groups.coordinator
    groups.on_resigned(partition.id)
    groups.on_elected(partition, LeaderEpoch(1))
    assert codes_of_all(stage) == {LOADING}
    client = stage.connect()
    client.send(list_groups())
    assert client.receive().error_code == LOADING
    stage.turn()
    answer = client.call(list_groups())
    assert (answer.error_code, [each.group_id for each in answer.groups]) == (0, ["known"])


@pytest.mark.parametrize(
    "asked",
    [
        join_group(""),
        sync_group("", "m", 1),
        heartbeat("", "m", 1),
        leave_group("", "m"),
        delete_offsets("", T0),
    ],
    ids=lambda each: type(each).__name__,
)
def test_requests_without_a_group_id_are_refused(coordinator: HandlerStage, asked: Any) -> None:
    assert code_in(coordinator.connect().call(asked)) == ErrorCode.invalid_group_id


def test_a_group_may_have_a_long_id(coordinator: HandlerStage) -> None:
    member = one_member(coordinator, "g" * 300)
    assert member.beat() == 0


TOO_LONG = "x" * 0x8000
"""For a record; the flexible versions of requests have longer texts than the others."""


@pytest.mark.parametrize(
    "asked",
    [
        find_coordinator(TOO_LONG),
        join_group(TOO_LONG),
        sync_group(TOO_LONG, "m", 1),
        heartbeat(TOO_LONG, "m", 1),
        leave_group(TOO_LONG, "m"),
        commit_offsets(TOO_LONG, {T0: 1}),
        fetch_offsets(TOO_LONG, [T0]),
        describe_groups(TOO_LONG),
        delete_groups(TOO_LONG),
        describe_groups("é" * 0x4000),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_group_id_that_no_record_can_hold_is_refused(
    coordinator: HandlerStage, asked: Any
) -> None:
    answer = coordinator.connect().call(asked)
    found = getattr(answer, "coordinators", None)
    code = found[0].error_code if found else code_in(answer)
    assert code == ErrorCode.invalid_group_id
    assert coordinator.connect().call(list_groups()).groups == ()


def test_the_longest_group_id_is_stored(coordinator: HandlerStage) -> None:
    name = TOO_LONG[1:]
    member = one_member(coordinator, name)
    assert committed_in(member.commit({T0: 5})) == [0]
    coordinator.pass_time(SESSION_MS)  # writes the record of the empty group
    answer = coordinator.connect().call(describe_groups(name))
    assert answer.groups[0].group_state == "Empty"


def test_the_longest_member_id_is_stored(coordinator: HandlerStage) -> None:
    client, instance = coordinator.connect(), "i" * (0x7FFF - 37)
    joined = client.call(join_group("g", instance=instance))
    assert len(joined.member_id) == 0x7FFF
    syncing = sync_group("g", joined.member_id, 1, {joined.member_id: b"mine"}, instance=instance)
    assert client.call(syncing).assignment == b"mine"


def test_long_client_id_is_stored_as_prefix_and_hash(
    coordinator: HandlerStage,
) -> None:
    client = coordinator.connect()
    client.client_id = "loader-" + "x" * 30_000
    joined = client.call(join_group("g"))
    assert joined.member_id.startswith("loader-xxx")
    assert len(joined.member_id) < 250
    assert client.call(join_group("g", joined.member_id)).error_code == ErrorCode.none
    (group,) = client.call(describe_groups("g")).groups
    assert [member.client_id for member in group.members] == [kept_name(client.client_id)]


# -- members ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(10))
def test_one_member_joins_heartbeats_and_leaves(coordinator: HandlerStage, version: int) -> None:
    client = coordinator.connect()
    joined = client.call(join_group("g", version=version))
    if version >= 4:
        assert joined.error_code == ErrorCode.member_id_required
        assert joined.member_id.startswith("wire-")
        joined = client.call(join_group("g", joined.member_id, version=version))
    assert (joined.error_code, joined.generation_id) == (0, 1)
    assert joined.leader == joined.member_id
    assert joined.protocol_name == "range"
    assert [(each.member_id, each.metadata) for each in joined.members] == [
        (joined.member_id, b"subscription")
    ]
    if version >= 7:
        assert joined.protocol_type == "consumer"

    member = joined.member_id
    syncing = sync_group("g", member, 1, {member: b"mine"}, version=min(version, 5))
    synced = client.call(syncing)
    assert (synced.error_code, synced.assignment) == (0, b"mine")
    beat = client.call(heartbeat("g", member, 1, version=min(version, 4)))
    assert beat.error_code == 0
    left = client.call(leave_group("g", member, version=min(version, 5)))
    assert left.error_code == 0
    if version >= 3:
        assert [(each.member_id, each.error_code) for each in left.members] == [(member, 0)]
    assert client.call(heartbeat("g", member, 1)).error_code == ErrorCode.unknown_member_id


def test_a_second_member_waits_until_the_first_rejoins(coordinator: HandlerStage) -> None:
    first, second = one_member(coordinator), Member(coordinator)
    assert second.join() is None
    assert first.beat() == ErrorCode.rebalance_in_progress
    assert first.join().error_code == 0
    coordinator.turn()
    assert second.joined(second.connection.receive()).error_code == 0
    assert (first.generation, second.generation) == (2, 2)
    assert (first.leader, second.leader) == (first.id, first.id)
    assert (sorted(first.others), second.others) == (sorted([first.id, second.id]), [])

    assert second.sync() is None
    assert first.sync().assignment == first.id.encode()
    coordinator.turn()
    assert second.connection.receive().assignment == second.id.encode()
    assert (first.beat(), second.beat()) == (0, 0)


def test_a_client_stays_a_member_when_it_disconnects_while_joining(
    coordinator: HandlerStage,
) -> None:
    first, second = one_member(coordinator), Member(coordinator)
    assert second.join() is None
    second.connection.close()
    assert first.join().error_code == 0
    assert len(first.others) == 2
    coordinator.turn()
    assert first.sync().error_code == 0
    coordinator.pass_time(SESSION_MS - 1)
    assert first.beat() == 0
    coordinator.pass_time(1)
    assert first.beat() == ErrorCode.rebalance_in_progress
    assert first.join().error_code == 0
    assert first.others == [first.id]


def test_member_without_heartbeats_is_removed_after_its_session_timeout(
    coordinator: HandlerStage,
) -> None:
    member = one_member(coordinator)
    coordinator.pass_time(SESSION_MS - 1)
    assert member.beat() == 0
    coordinator.pass_time(SESSION_MS)
    coordinator.pass_time(1)
    assert member.beat() == ErrorCode.unknown_member_id


def test_describe_shows_the_host_and_the_assignment_of_a_member(coordinator: HandlerStage) -> None:
    member = one_member(coordinator)
    for version in range(7):
        answer = coordinator.connect().call(
            describe_groups("g", "none", version=version, operations=version >= 3)
        )
        group, missing = answer.groups
        assert (group.error_code, group.group_id, group.group_state) == (0, "g", "Stable")
        assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
        (described,) = group.members
        assert described.member_id == member.id
        assert (described.client_id, described.client_host) == (
            "wire",
            "/",
        )  # connections of the stage have no addresses
        assert described.member_metadata == b"subscription"
        assert described.member_assignment == member.id.encode()
        assert missing.group_state == "Dead"
        not_found = ErrorCode.group_id_not_found if version >= 6 else ErrorCode.none
        assert missing.error_code == not_found
        if version >= 3:
            read, delete, describe, describe_configs, alter_configs = (
                1 << operation for operation in (3, 6, 8, 10, 11)
            )
            assert group.authorized_operations == (
                read | delete | describe | describe_configs | alter_configs
            )


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed(coordinator: HandlerStage, version: int) -> None:
    one_member(coordinator, "a")
    coordinator.connect().call(commit_offsets("b", {T0: 1}))
    answer = coordinator.connect().call(list_groups(version=version))
    assert answer.error_code == 0
    listed = sorted((each.group_id, each.protocol_type) for each in answer.groups)
    assert listed == [("a", "consumer"), ("b", "")]


def test_groups_are_listed_by_state_and_type(coordinator: HandlerStage) -> None:
    one_member(coordinator, "a")
    coordinator.connect().call(commit_offsets("b", {T0: 1}))

    def listed(*asked: Any) -> list[tuple[str, str, str]]:
        answer = coordinator.connect().call(list_groups(*asked))
        return [(each.group_id, each.group_state, each.group_type) for each in answer.groups]

    assert listed(["stable"]) == [("a", "Stable", "classic")]
    assert listed(["Empty"], ["Classic"]) == [("b", "Empty", "classic")]
    assert listed(["nonsense"]) == []
    assert listed([], ["consumer"]) == []


def test_sync_must_name_the_protocol_from_version_5_on(coordinator: HandlerStage) -> None:
    member = one_member(coordinator)
    asked = sync_group("g", member.id, 1, protocol=None)
    answer = member.connection.call(asked)
    assert answer.error_code == ErrorCode.inconsistent_group_protocol


# -- offsets ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(2, 11))
def test_offsets_are_committed_in_every_version(coordinator: HandlerStage, version: int) -> None:
    client = coordinator.connect()
    asked = commit_offsets("g", {T0: 42, ("t", 1): 7}, version=version)
    assert committed_in(client.call(asked)) == [0, 0]
    assert fetched_in(client.call(fetch_offsets("g", None, version=9))) == (
        0,
        {("t", 0): (42, 0), ("t", 1): (7, 0)},
    )


@pytest.mark.parametrize("version", range(1, 11))
def test_offsets_are_fetched_in_every_version(coordinator: HandlerStage, version: int) -> None:
    client = coordinator.connect()
    client.call(commit_offsets("g", {T0: 42}, metadata="note"))
    name: Any = topic_id("t") if version == 10 else "t"
    answer = client.call(fetch_offsets("g", [T0, ("t", 1)], version=version))
    assert fetched_in(answer) == (0, {(name, 0): (42, 0), (name, 1): (-1, 0)})
    group = answer.groups[0] if version >= 8 else answer
    committed = group.topics[0].partitions[0]
    assert committed.metadata == "note"
    if version >= 5:
        assert committed.committed_leader_epoch == 3
    if version >= 2:
        whole = client.call(fetch_offsets("g", None, version=version))
        assert fetched_in(whole) == (0, {(name, 0): (42, 0)})


def test_unknown_topics_and_partitions_are_refused_individually(coordinator: HandlerStage) -> None:
    client = coordinator.connect()
    offsets = {T0: 1, ("t", 9): 1, ("none", 0): 1, ("t", 1): 2}
    unknown = ErrorCode.unknown_topic_or_partition
    answer = client.call(commit_offsets("g", offsets, version=9))
    assert committed_in(answer) == [0, unknown, unknown, 0]
    answer = client.call(commit_offsets("g", offsets, version=10))
    assert committed_in(answer) == [0, unknown, ErrorCode.unknown_topic_id, 0]
    answer = client.call(commit_offsets("other", {("none", 0): 1}, version=9))
    assert committed_in(answer) == [unknown]
    answer = client.call(fetch_offsets("g", [("none", 0), T0]))
    assert fetched_in(answer) == (
        0,
        {
            (topic_id("t"), 0): (1, 0),
            (topic_id("none"), 0): (-1, ErrorCode.unknown_topic_id),
        },
    )


def test_only_a_member_of_the_generation_may_commit(coordinator: HandlerStage) -> None:
    member = one_member(coordinator)
    assert committed_in(member.commit({T0: 5})) == [0]
    client = coordinator.connect()
    for stranger, generation, code in (
        ("stranger", 1, ErrorCode.unknown_member_id),
        (member.id, 0, ErrorCode.illegal_generation),
        ("", -1, ErrorCode.unknown_member_id),
    ):
        asked = commit_offsets("g", {T0: 6}, member=stranger, generation=generation)
        assert committed_in(client.call(asked)) == [code]
    assert fetched_in(client.call(fetch_offsets("g", [T0], version=9)))[1] == {T0: (5, 0)}


@pytest.mark.slow
@pytest.mark.parametrize("version", [1, 7, 8, 9, 10])
def test_an_offset_that_is_requested_twice_is_returned_once(
    coordinator: HandlerStage, version: int
) -> None:
    client = coordinator.connect()
    client.call(commit_offsets("g", {T0: 5, ("t", 1): 6}))
    once = fetch_offsets("g", [T0, ("t", 1)], version=version)
    again = fetch_offsets("g", [T0, ("t", 1)] * 1_000, version=version)
    if version >= 8:
        again = replace(again, groups=again.groups * 3)
    told, asked_again = client.call(once), client.call(again)
    groups = [answer.groups if version >= 8 else [answer] for answer in (told, asked_again)]
    counts = [
        [sum(len(topic.partitions) for topic in group.topics) for group in each] for each in groups
    ]
    assert counts == [[2], [2]]
    assert fetched_in(told) == fetched_in(asked_again)


def test_a_group_that_is_requested_twice_is_answered_for_all_its_topics(
    coordinator: HandlerStage,
) -> None:
    client = coordinator.connect()
    client.call(commit_offsets("g", {T0: 5, ("t", 1): 6}))
    first, second = (fetch_offsets("g", [each], version=9) for each in (T0, ("t", 1)))
    (group,) = client.call(replace(first, groups=first.groups + second.groups)).groups
    (topic,) = group.topics
    assert [each.committed_offset for each in topic.partitions] == [5, 6]
    everything = fetch_offsets("g", None, version=9)
    (group,) = client.call(replace(first, groups=first.groups + everything.groups)).groups
    assert sum(len(each.partitions) for each in group.topics) == 2


def test_long_metadata_is_refused(coordinator: HandlerStage) -> None:
    asked = commit_offsets("g", {T0: 6}, metadata="x" * 4097)
    answer = coordinator.connect().call(asked)
    assert committed_in(answer) == [ErrorCode.offset_metadata_too_large]


def test_a_commit_waits_for_the_in_sync_replicas(stage: HandlerStage) -> None:
    lead_offsets_topic(stage, replicas=[BROKER, OTHER])
    client = stage.connect()
    assert client.call(commit_offsets("g", {T0: 1})) is None
    reader = stage.connect()
    assert fetched_in(reader.call(fetch_offsets("g", [T0], version=9)))[1] == {T0: (-1, 0)}
    partition = stage.partition(CONSUMER_OFFSETS_TOPIC)
    stage.follower_fetches(OTHER, partition, partition.log.log_end_offset)
    assert committed_in(client.receive()) == [0]
    assert fetched_in(reader.call(fetch_offsets("g", [T0], version=9)))[1] == {T0: (1, 0)}


def test_commits_of_one_loop_iteration_are_one_batch(stage: HandlerStage) -> None:
    lead_offsets_topic(stage)
    log = stage.partition(CONSUMER_OFFSETS_TOPIC).log
    clients = [stage.connect() for _ in range(5)]
    for number, client in enumerate(clients):
        client.send(commit_offsets(f"g{number}", {T0: number}))
    assert log.log_end_offset == 0
    stage.turn()
    part = log.read(
        log.log_start_offset, 1 << 20, upper_offset=log.log_end_offset, at_least_one_batch=True
    )
    stage.turn()
    assert [committed_in(client.receive()) for client in clients] == [[0]] * 5
    assert part.next_offset == 5
    assert int.from_bytes(part.view()[57:61]) == 5  # the number of records of the first batch


def test_a_commit_times_out_when_it_is_not_confirmed(stage: HandlerStage) -> None:
    lead_offsets_topic(stage, replicas=[BROKER, OTHER])
    client = stage.connect()
    assert client.call(commit_offsets("g", {T0: 1})) is None
    stage.pass_time(4_999)
    assert client.receive() is None
    stage.pass_time(1)
    assert committed_in(client.receive()) == [ErrorCode.coordinator_not_available]


def test_a_commit_is_refused_when_there_are_too_few_replicas(stage: HandlerStage) -> None:
    both = a_partition([BROKER, OTHER], isr=[BROKER])
    stage.update(a_topic(CONSUMER_OFFSETS_TOPIC, both, configs={"min.insync.replicas": "2"}))
    stage.turn()
    client = stage.connect()
    client.send(commit_offsets("g", {T0: 1}))
    stage.turn()
    stage.turn()
    assert committed_in(client.receive()) == [ErrorCode.coordinator_not_available]


# -- leadership ------------------------------------------------------------------------------------


def test_waiting_requests_are_answered_when_the_coordinator_moves(stage: HandlerStage) -> None:
    lead_offsets_topic(stage, replicas=[BROKER, OTHER])
    committing = stage.connect()
    assert committing.call(commit_offsets("g", {T0: 1})) is None
    first = Member(stage, "h")
    assert first.join() is None or first.generation == 1
    moved = a_partition([BROKER, OTHER], leader=OTHER, leader_epoch=1, partition_epoch=1)
    stage.update(a_topic(CONSUMER_OFFSETS_TOPIC, moved))
    assert committed_in(committing.receive()) == [NOT_COORDINATOR]
    assert code_in(stage.connect().call(heartbeat("h", first.id, 1))) == NOT_COORDINATOR


def test_groups_and_offsets_survive_another_election(stage: HandlerStage) -> None:
    lead_offsets_topic(stage)
    member = one_member(stage)
    member.commit({T0: 5})
    again = a_partition([BROKER], leader_epoch=1, partition_epoch=1)
    stage.update(a_topic(CONSUMER_OFFSETS_TOPIC, again))
    for _ in range(3):
        stage.turn()
    assert member.beat() == 0
    answer = stage.connect().call(fetch_offsets("g", [T0], version=9))
    assert fetched_in(answer)[1] == {T0: (5, 0)}
    assert committed_in(member.commit({T0: 6})) == [0]


def test_loading_in_an_earlier_epoch_is_abandoned(stage: HandlerStage) -> None:
    lead_offsets_topic(stage)
    one_member(stage).commit({T0: 5})
    partition, groups = stage.partition(CONSUMER_OFFSETS_TOPIC), stage.core.groups.coordinator
    groups.on_resigned(partition.id)
    groups.on_elected(partition, LeaderEpoch(1))
    groups.on_resigned(partition.id)
    groups.on_elected(partition, LeaderEpoch(2))
    for _ in range(4):
        stage.turn()
    answer = stage.connect().call(fetch_offsets("g", [T0], version=9))
    assert fetched_in(answer)[1] == {T0: (5, 0)}
    groups.on_resigned(partition.id)
    stage.turn()
    answer = stage.connect().call(fetch_offsets("g", [T0], version=9))
    assert fetched_in(answer)[0] == NOT_COORDINATOR


def test_damage_in_the_topic_is_skipped_counted_and_logged(
    stage: HandlerStage, caplog: pytest.LogCaptureFixture
) -> None:
    lead_offsets_topic(stage)
    client = stage.connect()
    for number in range(3):
        client.call(commit_offsets(f"g{number}", {T0: number}, version=9))
    partition, groups = stage.partition(CONSUMER_OFFSETS_TOPIC), stage.core.groups.coordinator
    damaged = [NewRecord(b"v", offset_key("g9", "t", 0), 1), NewRecord(b"", b"\x00\x01\x00", 1)]
    append(
        partition.log,
        memoryview(build_batch(damaged)),
        partition.leader_epoch,
        stage.clock.wall_ms(),
    )
    path = partition.log.segments[0].file.path
    content = path.read_bytes()
    with path.open("r+b") as file:
        file.seek(content.index(b"g1"))
        file.write(b"G")
    caplog.clear()
    groups.on_resigned(partition.id)
    groups.on_elected(partition, LeaderEpoch(1))
    stage.turn()

    found = [
        fetched_in(client.call(fetch_offsets(f"g{number}", [T0], version=9)))[1][T0]
        for number in range(3)
    ]
    assert found == [(0, 0), (-1, 0), (2, 0)]
    name = f"{CONSUMER_OFFSETS_TOPIC}-0"
    assert f"skipped 1 damaged batches of {name}" in caplog.messages
    of_damage = [each for each in caplog.messages if f"corrupt records of {name}:" in each]
    assert sorted(of_damage) == [
        f"ignored 1 corrupt records of {name}: key of form 1 and 3 bytes",
        f"ignored 1 corrupt records of {name}: offset of 1 bytes",
    ]


@pytest.mark.skipif(is_compiled(), reason="compiled code does not call what replaces a method")
def test_a_partition_that_cannot_be_read_is_not_coordinated(
    stage: HandlerStage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lead_offsets_topic(stage)
    client = stage.connect()
    client.call(commit_offsets("g", {T0: 1}, version=9))
    partition, groups = stage.partition(CONSUMER_OFFSETS_TOPIC), stage.core.groups.coordinator

    def fail(*_: object, **__: object) -> None:
        raise StorageFailed("cannot map the file")

    with monkeypatch.context() as broken:
        broken.setattr(type(partition.log), "read", fail)
        groups.on_resigned(partition.id)
        groups.on_elected(partition, LeaderEpoch(1))
        stage.turn()
    assert "its coordinator is unavailable until it can be read: cannot map the file" in caplog.text
    assert codes_of_all(stage) == {LOADING}
    groups.on_resigned(partition.id)
    groups.on_elected(partition, LeaderEpoch(2))
    stage.turn()
    assert fetched_in(client.call(fetch_offsets("g", [T0], version=9)))[1] == {T0: (1, 0)}


def test_iteration_over_groups_tolerates_loss_of_leadership(coordinator: HandlerStage) -> None:
    for group in ("a", "b", "c"):
        assert one_member(coordinator, group).beat() == 0
    groups = coordinator.core.groups.coordinator
    looked_at: list[str] = []
    for led in groups.all_loaded():  # leadership is lost between two steps
        group_ids = led.ask(ListGroupIds())
        looked_at += group_ids
        for number in range(3):
            groups.on_resigned(coordinator.partition(CONSUMER_OFFSETS_TOPIC, number).id)
    assert len(looked_at) == 1
    assert groups.all_loaded() == []


@pytest.mark.slow
def test_committed_offsets_are_not_tracked_by_the_garbage_collector(
    coordinator: HandlerStage,
) -> None:
    places = [("many", number) for number in range(100)]
    coordinator.update(a_topic("many", *[a_partition([BROKER])] * len(places)))
    client = coordinator.connect()
    before = gc.get_freeze_count()
    try:
        for number in range(RECORDS_PER_FREEZE // len(places)):
            answer = client.call(commit_offsets("g", dict.fromkeys(places, number)))
            assert set(committed_in(answer)) == {0}
        assert gc.get_freeze_count() > before
    finally:
        gc.unfreeze()


# -- deletion --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3))
def test_groups_are_deleted(coordinator: HandlerStage, version: int) -> None:
    client = coordinator.connect()
    for group in "abc":  # in three partitions
        client.call(commit_offsets(group, {T0: 1}))
    one_member(coordinator, "busy")
    answer = client.call(delete_groups("a", "b", "c", "busy", "none", "a", version=version))
    coordinator.turn()
    if answer is None:
        answer = client.receive()
    assert {each.group_id: each.error_code for each in answer.results} == {
        "a": 0,
        "b": 0,
        "c": 0,
        "busy": ErrorCode.non_empty_group,
        "none": ErrorCode.group_id_not_found,
    }
    assert fetched_in(client.call(fetch_offsets("a", [T0], version=9)))[1] == {T0: (-1, 0)}


def test_offsets_are_deleted(coordinator: HandlerStage) -> None:
    client = coordinator.connect()
    client.call(commit_offsets("g", {T0: 1, ("t", 1): 2}))
    answer = client.call(delete_offsets("g", T0, ("t", 9), ("none", 0)))
    unknown = ErrorCode.unknown_topic_or_partition
    assert answer.error_code == 0
    assert committed_in(answer) == [0, unknown, unknown]
    answer = client.call(fetch_offsets("g", None, version=9))
    assert fetched_in(answer)[1] == {("t", 1): (2, 0)}
    answer = client.call(delete_offsets("none", T0))
    assert (answer.error_code, answer.topics) == (ErrorCode.group_id_not_found, ())


def test_offsets_of_a_topic_are_removed_when_it_is_deleted(coordinator: HandlerStage) -> None:
    coordinator.update(a_topic("u", a_partition([BROKER])))
    client = coordinator.connect()
    client.call(commit_offsets("g", {T0: 1, ("u", 0): 2}))
    coordinator.update(deleted=("t",))
    coordinator.turn()
    answer = client.call(fetch_offsets("g", None, version=9))
    assert fetched_in(answer)[1] == {("u", 0): (2, 0)}


# -- the topic itself ------------------------------------------------------------------------------


def test_clients_may_not_produce_to_internal_topics(coordinator: HandlerStage) -> None:
    client = coordinator.connect()
    asked = produce_to((CONSUMER_OFFSETS_TOPIC, 0, a_batch()), acks=1)
    refused = [ErrorCode.invalid_topic_exception]
    assert codes_of(produced_in(client.call(asked))) == refused
    client.client_id = "__admin_client"
    assert codes_of(produced_in(client.call(asked))) == [0]


def test_no_groups_are_listed_without_the_topic(stage: HandlerStage) -> None:
    answer = stage.connect().call(list_groups())
    assert (answer.error_code, answer.groups) == (0, ())


@pytest.mark.slow
def test_long_group_ids_are_not_cached(coordinator: HandlerStage) -> None:
    find = coordinator.core.groups.coordinator.partition_of
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(4):
            assert find(f"{number}".rjust(32_000, "g")) is not None
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert taken < 64_000
