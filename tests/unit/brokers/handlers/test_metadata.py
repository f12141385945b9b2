"""Metadata and DescribeCluster from a broker's cache, and automatic topic creation."""

import uuid
from collections.abc import Sequence
from typing import Any

import pytest

from cluster.model.errors import ErrorCode
from cluster.model.ids import TopicPartition
from cluster.model.quotas import QuotaClient
from cluster.protocol.api import ApiKey
from cluster.protocol.peer.control import CreateTopics
from tests.support.cluster_states import a_partition, a_topic
from tests.support.handler_stage import (
    BROKER,
    OTHER,
    SUSPICION_MS,
    THIRD,
    HandlerStage,
)
from tests.support.kafka_wire import metadata_request, request

ALL = [BROKER, OTHER, THIRD]


def ask(stage: HandlerStage, *names: str, auto_create: bool = False, version: int = 12) -> Any:
    return stage.connect().call(metadata_request(*names, auto_create=auto_create, version=version))


def every_topic(version: int) -> Any:
    return request(
        ApiKey.METADATA,
        version,
        topics=[] if version == 0 else None,
        allow_auto_topic_creation=True,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


def by_id(*ids: uuid.UUID, version: int = 12, name: str | None = None) -> Any:
    return request(
        ApiKey.METADATA,
        version,
        topics=[{"topic_id": topic_id, "name": name} for topic_id in ids],
        allow_auto_topic_creation=True,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


@pytest.mark.parametrize("version", range(14))
def test_every_version_lists_every_topic(stage: HandlerStage, version: int) -> None:
    stage.update(a_topic("t", a_partition(ALL), a_partition([OTHER])), a_topic("u"))

    answer = stage.connect().call(every_topic(version))

    assert [(b.node_id, b.host, b.port) for b in answer.brokers] == [
        (BROKER, "host1", 9093),
        (OTHER, "host2", 9094),
        (THIRD, "host3", 9095),
    ]
    assert [topic.name for topic in answer.topics] == ["t", "u"]
    first, second = answer.topics[0].partitions
    assert (first.leader_id, first.replica_nodes, first.isr_nodes) == (BROKER, (1, 2, 3), (1, 2, 3))
    assert (second.partition_index, second.leader_id) == (1, OTHER)
    if version >= 1:
        assert answer.controller_id == OTHER
    if version >= 2:
        assert answer.cluster_id == "stage"
    if version >= 10:
        assert answer.topics[0].topic_id == a_topic("t").topic_id


def test_only_requested_topics_are_listed(stage: HandlerStage) -> None:
    stage.update(a_topic("t", a_partition(ALL)), a_topic("u", a_partition(ALL)))

    assert [topic.name for topic in ask(stage, "u").topics] == ["u"]
    assert [topic.name for topic in ask(stage).topics] == []


def test_repeated_topic_is_answered_once(stage: HandlerStage) -> None:
    """Kafka uses a set, because clients index the answer by name."""
    known = a_topic("t", a_partition(ALL))
    stage.update(known)

    answer = ask(stage, "t", "missing", "t", "missing", auto_create=True)
    ids = stage.connect().call(by_id(known.topic_id, known.topic_id))

    assert [topic.name for topic in answer.topics] == ["t", "missing"]
    assert [topic.name for topic in ids.topics] == ["t"]
    assert [asked.request.names for asked in stage.link.asked] == [("missing",)]


@pytest.mark.parametrize("name", [None, "", "other"])  # Kafka's Java client sends an empty one
def test_topics_are_found_by_id(stage: HandlerStage, name: str | None) -> None:
    known, unknown = a_topic("t", a_partition(ALL)), uuid.uuid4()
    stage.update(known)

    answer = stage.connect().call(by_id(known.topic_id, unknown, name=name))

    found, missing = answer.topics
    assert (found.error_code, found.name) == (0, "t")
    assert (missing.error_code, missing.name, missing.topic_id) == (
        ErrorCode.unknown_topic_id,
        None,
        unknown,
    )
    assert stage.link.asked == []


@pytest.mark.parametrize("version", [10, 11])
def test_topic_ids_are_refused_before_version_12(stage: HandlerStage, version: int) -> None:
    client = stage.connect()

    client.send(by_id(uuid.uuid4(), version=version))

    assert client.closed_because is not None


# -- creation --------------------------------------------------------------------------------------


def test_missing_topic_is_created_when_the_client_allows_it(stage: HandlerStage) -> None:
    stage.update()

    (refused,) = ask(stage, "t").topics
    assert refused.error_code == ErrorCode.unknown_topic_or_partition
    assert stage.link.asked == []

    (coming,) = ask(stage, "t", auto_create=True).topics
    assert coming.error_code == ErrorCode.leader_not_available
    assert [asked.request for asked in stage.link.asked] == [
        CreateTopics(("t",), QuotaClient("ANONYMOUS", "wire"))
    ]

    stage.update(a_topic("t", a_partition(ALL)))
    (created,) = ask(stage, "t", auto_create=True).topics
    assert (created.error_code, len(created.partitions)) == (0, 1)


@pytest.mark.parametrize("version", range(4))
def test_metadata_versions_without_the_flag_allow_topic_creation(
    stage: HandlerStage, version: int
) -> None:
    stage.update()

    (coming,) = ask(stage, "t", version=version).topics

    assert coming.error_code == ErrorCode.leader_not_available
    assert len(stage.link.asked) == 1


def test_missing_topic_is_not_created_when_automatic_creation_is_disabled(tmp_path: Any) -> None:
    with HandlerStage(tmp_path, {"auto.create.topics.enable": "false"}) as stage:
        stage.update()
        (refused,) = ask(stage, "t", auto_create=True).topics
        assert refused.error_code == ErrorCode.unknown_topic_or_partition
        assert stage.link.asked == []


@pytest.mark.parametrize("name", ["", ".", "../up", "x" * 250])
def test_topic_with_invalid_name_is_not_created(stage: HandlerStage, name: str) -> None:
    stage.update()

    (refused,) = ask(stage, name, auto_create=True).topics

    assert refused.error_code == ErrorCode.invalid_topic_exception
    assert stage.link.asked == []


# -- who is there ----------------------------------------------------------------------------------


def test_partitions_without_a_live_leader_are_leader_not_available(stage: HandlerStage) -> None:
    stage.update(
        a_topic(
            "t",
            a_partition([OTHER, THIRD], isr=[OTHER], leader=-1),
            a_partition([OTHER, THIRD]),
            a_partition([THIRD, BROKER]),
        ),
        brokers=(BROKER, THIRD),
    )

    none, gone, here = ask(stage, "t").topics[0].partitions

    away = ErrorCode.leader_not_available
    assert (none.error_code, none.leader_id, none.offline_replicas) == (away, -1, (OTHER,))
    assert (gone.error_code, gone.leader_id, gone.offline_replicas) == (away, -1, (OTHER,))
    assert (here.error_code, here.leader_id, here.offline_replicas) == (0, THIRD, ())
    assert none.isr_nodes == (OTHER,)


@pytest.mark.parametrize("version", [5, 6, 12])
def test_leader_without_the_clients_listener_is_listener_not_found(
    stage: HandlerStage, version: int
) -> None:
    stage.update(a_topic("t", a_partition(ALL)))

    answer = stage.connect("INTERNAL").call(metadata_request("t", version=version))

    # Clients of older versions do not know the code.
    expected = ErrorCode.listener_not_found if version >= 6 else ErrorCode.leader_not_available
    assert answer.topics[0].partitions[0].error_code == expected
    assert answer.brokers == ()


@pytest.mark.parametrize("names", [(), ("t",)])
def test_metadata_is_answered_only_when_the_cluster_is_known(
    stage: HandlerStage, names: tuple[str, ...]
) -> None:
    """An answer without brokers makes librdkafka forget every broker."""
    client = stage.connect()
    client.send(metadata_request(*names))
    for _ in range(100):
        stage.pass_time(1_000)
    assert client.receive() is None

    stage.update(a_topic("t", a_partition([BROKER])))
    assert listed(client.receive()) == ALL


def test_request_is_dropped_when_the_client_disconnects_before_the_cluster_is_known(
    stage: HandlerStage,
) -> None:
    client = stage.connect()
    client.send(metadata_request("t"))
    stage.pass_time(1_000)
    client.close()
    stage.update(a_topic("t", a_partition([BROKER])))
    assert client.receive() is None


def test_cached_answer_is_dropped_when_the_cluster_changes(stage: HandlerStage) -> None:
    """Answers are cached until an update arrives or the controller is lost."""
    stage.update(a_topic("t", a_partition(ALL)))
    assert ask(stage, "t") == ask(stage, "t")

    stage.update(
        a_topic("t", a_partition(ALL, leader=THIRD, leader_epoch=1, partition_epoch=1)),
        brokers=(BROKER, THIRD),
    )
    moved = ask(stage, "t")
    assert moved.topics[0].partitions[0].leader_id == THIRD
    assert listed(ask(stage)) == [BROKER, THIRD]

    stage.metadata.forget_controller()
    assert ask(stage, "t").controller_id == -1
    stage.update(deleted=("t",))
    assert ask(stage, "t").topics[0].error_code == ErrorCode.unknown_topic_or_partition


@pytest.mark.slow
def test_cached_answers_are_bounded(stage: HandlerStage) -> None:
    stage.update(*(a_topic(f"t{n}", a_partition(ALL)) for n in range(300)))

    for number in range(300):
        ask(stage, f"t{number}")

    assert len(stage.metadata.encoded_answers) <= 256


@pytest.mark.slow
def test_answer_that_repeats_a_topic_very_often_is_not_cached(stage: HandlerStage) -> None:
    stage.update(a_topic("t", a_partition(ALL)))

    assert len(ask(stage, *["t"] * 20_000).topics) == 1

    assert len(stage.metadata.encoded_answers) == 0


def test_topic_requested_by_id_is_answered_once_under_any_names(
    stage: HandlerStage,
) -> None:
    stage.update(a_topic("t", a_partition(ALL)))
    topic_id = stage.metadata.topics["t"].topic_id
    asked = request(
        ApiKey.METADATA,
        12,
        topics=[{"topic_id": topic_id, "name": f"name-{number}"} for number in range(100)],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )

    (topic,) = stage.connect().call(asked).topics

    assert (topic.name, topic.topic_id) == ("t", topic_id)


def test_cached_answer_is_used_only_for_equal_requests(stage: HandlerStage) -> None:
    stage.update(a_topic("t", a_partition(ALL)))

    outside = stage.connect().call(metadata_request("t"))
    inside = stage.connect("INTERNAL").call(metadata_request("t"))

    assert outside.topics[0].partitions[0].error_code == 0
    assert inside.topics[0].partitions[0].error_code == ErrorCode.listener_not_found


# -- leaders that have died ------------------------------------------------------------------------


def leader_of(answer: Any) -> tuple[int, int]:
    partition = answer.topics[0].partitions[0]
    return partition.leader_id, partition.error_code


def listed(answer: Any) -> list[int]:
    return [broker.node_id for broker in answer.brokers]


def led_by(leader: int, *, epoch: int = 0, isr: Sequence[int] = ALL) -> Any:
    state = a_partition(ALL, isr=isr, leader=leader, leader_epoch=epoch, partition_epoch=epoch)
    return a_topic("t", state)


def test_leader_is_named_after_it_has_answered_a_ping(stage: HandlerStage) -> None:
    stage.update(led_by(OTHER))
    stage.alive.clear()
    client = stage.connect()

    assert client.call(metadata_request("t")) is None

    stage.end_pings(has_answered=True)
    assert leader_of(client.receive()) == (OTHER, 0)


def test_answer_to_an_earlier_ping_does_not_prove_liveness(stage: HandlerStage) -> None:
    """The answer may have been sent before the client noticed the broken connection."""
    stage.update(led_by(OTHER))
    stage.alive.clear()
    first, second = stage.connect(), stage.connect()
    first.send(metadata_request("t"))
    second.send(metadata_request("t"))
    assert len(stage.link.pings) == 1

    stage.end_pings(has_answered=True)

    assert leader_of(first.receive()) == (OTHER, 0)
    assert second.receive() is None
    stage.end_pings(has_answered=True)
    assert leader_of(second.receive()) == (OTHER, 0)


def test_metadata_that_names_no_other_leader_is_answered_without_pings(stage: HandlerStage) -> None:
    stage.update(a_topic("here", a_partition(ALL, leader=BROKER)), led_by(OTHER))
    stage.alive.clear()

    assert leader_of(ask(stage, "here")) == (BROKER, 0)
    assert ask(stage) is not None
    assert stage.link.pings == []


def test_paused_leader_delays_one_answer_and_is_named_again(stage: HandlerStage) -> None:
    stage.update(led_by(OTHER))
    stage.alive.clear()
    client = stage.connect()
    client.send(metadata_request("t"))

    stage.end_pings(has_answered=False)

    assert leader_of(client.receive()) == (OTHER, 0)
    assert leader_of(ask(stage, "t")) == (OTHER, 0)
    stage.end_pings(has_answered=True)
    assert ask(stage, "t") is None  # it answers again, so that it is worth waiting for


def test_answer_waits_for_the_election_and_lists_the_dead_broker_once_more(
    stage: HandlerStage,
) -> None:
    stage.update(led_by(OTHER))
    stage.alive.clear()
    client = stage.connect()
    client.send(metadata_request("t"))
    stage.break_connection(OTHER)
    assert client.receive() is None

    stage.update(led_by(THIRD, epoch=1, isr=[BROKER, THIRD]), brokers=(BROKER, THIRD))

    answer = client.receive()
    assert leader_of(answer) == (THIRD, 0)
    assert listed(answer) == [BROKER, THIRD, OTHER]
    assert listed(ask(stage)) == [BROKER, THIRD]  # this one asks about the cluster alone
    stage.alive.add(THIRD)
    stage.end_pings(has_answered=True)
    stage.pass_time(3_000)
    assert listed(ask(stage, "t")) == [BROKER, THIRD]


def test_dead_leader_is_not_named_before_the_controllers_update(stage: HandlerStage) -> None:
    stage.update(led_by(OTHER))
    assert leader_of(ask(stage, "t")) == (OTHER, 0)  # and this answer is remembered
    client = stage.connect()
    stage.break_connection(OTHER)

    client.send(metadata_request("t"))
    stage.pass_time(299)
    assert client.receive() is None
    stage.pass_time(1)

    nobody = (-1, ErrorCode.leader_not_available)
    assert leader_of(client.receive()) == nobody
    assert leader_of(ask(stage, "t")) == nobody  # without another wait
    assert ask(stage, "t").topics[0].partitions[0].offline_replicas == (OTHER,)


def test_unrelated_update_does_not_make_a_dead_leader_live(stage: HandlerStage) -> None:
    stage.update(led_by(OTHER))
    stage.break_connection(OTHER)
    stage.pass_time(200)

    stage.update(a_topic("u", a_partition(ALL)))

    assert leader_of(ask(stage, "t"))[0] == -1


def test_suspected_leader_is_trusted_after_the_next_connection(stage: HandlerStage) -> None:
    stage.update(led_by(OTHER))
    stage.break_connection(OTHER)
    stage.alive.add(OTHER)

    stage.reconnect(OTHER)

    assert leader_of(ask(stage, "t")) == (OTHER, 0)


def test_waiting_clients_are_answered_when_the_suspected_leader_reconnects(
    stage: HandlerStage,
) -> None:
    stage.update(led_by(OTHER))
    stage.alive.clear()
    first, second = stage.connect(), stage.connect()
    first.send(metadata_request("t"))
    second.send(metadata_request("t"))
    stage.break_connection(OTHER)

    stage.reconnect(OTHER)

    assert leader_of(first.receive()) == (OTHER, 0)
    assert leader_of(second.receive()) == (OTHER, 0)


def test_suspected_leader_is_trusted_when_the_controller_elects_it(
    stage: HandlerStage,
) -> None:
    stage.update(led_by(THIRD))
    stage.break_connection(OTHER)

    stage.update(led_by(OTHER, epoch=1))

    stage.alive.add(OTHER)
    stage.end_pings(has_answered=True)
    assert leader_of(ask(stage, "t")) == (OTHER, 0)


def test_suspicion_expires_after_the_session_timeout(stage: HandlerStage) -> None:
    stage.update(led_by(OTHER))
    stage.break_connection(OTHER)

    stage.pass_time(SUSPICION_MS - 1)
    assert leader_of(ask(stage, "t"))[0] == -1
    stage.pass_time(1)
    assert leader_of(ask(stage, "t")) == (OTHER, 0)


def test_departed_broker_is_listed_once_per_connection(stage: HandlerStage) -> None:
    """Listed once, so that librdkafka moves the partitions; not twice, so that it destroys
    its handle.
    """
    stage.update(led_by(BROKER))
    first, second = stage.connect(), stage.connect()
    stage.update(brokers=(BROKER, THIRD))

    assert listed(first.call(metadata_request())) == [BROKER, THIRD]  # asks about no leader
    assert listed(first.call(metadata_request("t"))) == [BROKER, THIRD, OTHER]
    stage.pass_time(50)
    assert listed(first.call(metadata_request("t"))) == [BROKER, THIRD]
    assert listed(second.call(metadata_request("t"))) == [BROKER, THIRD, OTHER]


def test_the_answer_that_leaves_out_a_dead_broker_is_delayed(stage: HandlerStage) -> None:
    """First librdkafka must move the partitions away from its handle of the dead broker."""
    stage.update(led_by(BROKER))
    stage.update(brokers=(BROKER, THIRD))
    client = stage.connect()
    client.call(metadata_request("t"))

    client.send(metadata_request("t"))
    stage.pass_time(49)
    assert client.receive() is None
    stage.pass_time(1)

    assert listed(client.receive()) == [BROKER, THIRD]
    assert listed(client.call(metadata_request("t"))) == [BROKER, THIRD]  # at once


def test_delayed_answer_is_dropped_when_the_client_disconnects(stage: HandlerStage) -> None:
    stage.update(led_by(BROKER))
    stage.update(brokers=(BROKER, THIRD))
    client = stage.connect()
    client.call(metadata_request("t"))
    client.send(metadata_request("t"))

    client.close()
    stage.pass_time(50)

    assert client.receive() is None


def test_broker_that_departs_again_is_listed_again(stage: HandlerStage) -> None:
    stage.update(led_by(BROKER))
    client = stage.connect()

    for _ in range(2):
        stage.update(brokers=(BROKER, THIRD))
        assert listed(client.call(metadata_request("t"))) == [BROKER, THIRD, OTHER]
        stage.pass_time(50)
        assert listed(client.call(metadata_request("t"))) == [BROKER, THIRD]
        stage.update(brokers=(BROKER, OTHER, THIRD))
        assert listed(client.call(metadata_request("t"))) == [BROKER, OTHER, THIRD]


def test_a_broker_that_departs_again_within_twenty_seconds_is_not_listed_again(
    stage: HandlerStage,
) -> None:
    """librdkafka has then kept its broker handle, whose reconnect back-off would grow further."""
    stage.update(led_by(BROKER))
    client = stage.connect()
    for left_out, after_ms in ((False, 0), (True, 19_999), (False, 0), (False, 20_000)):
        stage.update(brokers=(BROKER, OTHER, THIRD))
        stage.pass_time(after_ms)

        stage.update(brokers=(BROKER, THIRD))

        expected = [BROKER, THIRD] if left_out else [BROKER, THIRD, OTHER]
        assert listed(client.call(metadata_request("t"))) == expected
        if left_out:  # the answer that mends what an ended handle has taken along comes later
            assert client.call(metadata_request("t")) is None
            stage.pass_time(50)
            assert leader_of(client.receive()) == (BROKER, 0)


def test_broker_that_departed_some_time_ago_is_not_listed(stage: HandlerStage) -> None:
    stage.update(led_by(BROKER))
    stage.update(brokers=(BROKER, THIRD))

    stage.pass_time(2_999)
    assert listed(ask(stage, "t")) == [BROKER, THIRD, OTHER]
    stage.pass_time(1)
    assert listed(ask(stage, "t")) == [BROKER, THIRD]


def test_parked_request_is_dropped_when_the_client_disconnects(stage: HandlerStage) -> None:
    stage.update(led_by(OTHER))
    stage.alive.clear()
    client = stage.connect()
    client.send(metadata_request("t"))

    client.close()

    assert len(stage.purgatory) == 0


# -- DescribeCluster -------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3))
def test_describe_cluster_lists_brokers_and_controller(stage: HandlerStage, version: int) -> None:
    stage.update()

    answer = stage.connect().call(
        request(
            ApiKey.DESCRIBE_CLUSTER,
            version,
            include_cluster_authorized_operations=True,
            endpoint_type=1,
            include_fenced_brokers=False,
        )
    )

    assert (answer.error_code, answer.cluster_id, answer.controller_id) == (0, "stage", OTHER)
    assert [broker.broker_id for broker in answer.brokers] == [BROKER, OTHER, THIRD]
    assert answer.cluster_authorized_operations > 0


@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [(2, ErrorCode.mismatched_endpoint_type), (3, ErrorCode.unsupported_endpoint_type)],
)
def test_describe_cluster_refuses_other_endpoint_types(
    stage: HandlerStage, endpoint_type: int, code: ErrorCode
) -> None:
    answer = stage.connect().call(
        request(
            ApiKey.DESCRIBE_CLUSTER,
            1,
            include_cluster_authorized_operations=False,
            endpoint_type=endpoint_type,
        )
    )

    assert answer.error_code == code
    assert answer.brokers == ()


def test_metadata_cache_returns_single_partitions(stage: HandlerStage) -> None:
    stage.update(a_topic("t", a_partition(ALL)))

    assert stage.metadata.partition(TopicPartition("t", 1)) is None
    assert stage.metadata.partition(TopicPartition("u", 0)) is None
    assert stage.metadata.topic_name(None) is None


@pytest.mark.parametrize("version", range(14))
def test_large_topic_is_answered_in_full_while_others_are_served(
    stage: HandlerStage, version: int
) -> None:
    stage.update(
        a_topic("large", *(a_partition([OTHER, THIRD], leader=OTHER) for _ in range(1_001))),
        a_topic("small", a_partition(ALL)),
    )
    client, other = stage.connect(), stage.connect()
    client.send(every_topic(version))
    assert client.receive() is None
    assert [topic.name for topic in ask(stage, "small").topics] == ["small"]

    stage.turn()
    large, small = client.receive().topics

    assert [p.partition_index for p in large.partitions] == list(range(1_001))
    assert {(p.leader_id, p.replica_nodes, p.isr_nodes) for p in large.partitions} == {
        (OTHER, (OTHER, THIRD), (OTHER, THIRD))
    }
    assert (small.name, len(small.partitions)) == ("small", 1)
    other.send(every_topic(version))  # remembered by now
    assert other.receive() is not None


@pytest.mark.slow
def test_answer_is_not_cached_when_the_cluster_changed_meanwhile(
    stage: HandlerStage,
) -> None:
    stage.update(a_topic("large", *(a_partition(ALL) for _ in range(1_001))))
    client = stage.connect()
    client.send(metadata_request("large"))
    stage.update(a_topic("large", a_partition(ALL, leader=OTHER, leader_epoch=1)))
    assert client.receive() is not None

    again = ask(stage, "large")
    assert again is not None
    assert again.topics[0].partitions[0].leader_id == OTHER
