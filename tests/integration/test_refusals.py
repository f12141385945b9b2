"""Well-formed requests for what is not there or not allowed: each gets Kafka's error code."""

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cluster.model.errors import ErrorCode
from tests.support.broker_probes import batch_of, fetched, list_offsets_request, produced
from tests.support.kafka_wire import WireClient, fetch_request, metadata_request, produce_request
from tests.support.running_cluster import Cluster
from tests.support.topics import (
    controller,
    create_topic,
    create_topics_request,
    partition_state,
    unique_name,
)
from tests.support.waiting import wait_until

NewCluster = Callable[..., Cluster]

LEADER, FOLLOWER = 0, 1


@pytest.fixture(scope="module")
def topic(cluster: Cluster) -> str:
    return create_topic(cluster, assignments=[[0, 1, 2]])


@pytest.fixture
def client(cluster: Cluster) -> Iterator[WireClient]:
    with WireClient(cluster.addresses[LEADER]) as opened:
        yield opened


def test_fetch_out_of_range_is_refused(client: WireClient, topic: str) -> None:
    assert produced(client, topic, bytes(batch_of(b"v"))).error_code == ErrorCode.none
    end = fetched(client, topic, 0).high_watermark

    assert fetched(client, topic, end + 1).error_code == ErrorCode.offset_out_of_range
    assert fetched(client, topic, -1).error_code == ErrorCode.offset_out_of_range
    assert fetched(client, topic, 2**62).error_code == ErrorCode.offset_out_of_range
    at_end = fetched(client, topic, end)
    assert at_end.error_code == ErrorCode.none
    assert not at_end.records


def test_requests_with_another_leader_epoch_are_refused(new_cluster: NewCluster) -> None:
    cluster = new_cluster(brokers=2).start()
    name = create_topic(cluster, assignments=[[0, 1]])
    cluster.restart(0)  # leadership moves to 1
    epoch = wait_until(
        lambda: (state := partition_state(cluster, name, 0, 1)) and state.leader_epoch,
        "a second epoch",
    )

    with WireClient(cluster.addresses[1]) as client:
        produced(client, name, bytes(batch_of(b"v")))
        for asked, code in [
            (epoch, ErrorCode.none),
            (epoch - 1, ErrorCode.fenced_leader_epoch),
            (epoch + 1, ErrorCode.unknown_leader_epoch),
        ]:
            answer = fetched(client, name, 0, leader_epoch=asked)
            assert answer.error_code == code
            offsets = client.call(list_offsets_request(name, -1, leader_epoch=asked))
            assert offsets.topics[0].partitions[0].error_code == code


def test_fetch_from_a_broker_without_the_replica_is_refused(cluster: Cluster) -> None:
    topic = create_topic(cluster, assignments=[[LEADER]])
    with WireClient(cluster.addresses[FOLLOWER]) as client:
        answer = fetched(client, topic, 0)

    assert answer.error_code == ErrorCode.not_leader_or_follower
    assert answer.current_leader.leader_id == LEADER


def test_requests_by_topic_id(cluster: Cluster, client: WireClient, topic: str) -> None:
    (described,) = client.call(metadata_request(topic)).topics
    known, unknown = described.topic_id, uuid.uuid4()
    batch = bytes(batch_of(b"by id"))
    for topic_id, code in [(known, ErrorCode.none), (unknown, ErrorCode.unknown_topic_id)]:
        message = produce_request(topic_id, batch, version=13)
        ((partition,),) = (one.partition_responses for one in client.call(message).responses)
        assert partition.error_code == code
        message = fetch_request(topic_id, 0, version=16)
        ((partition,),) = (one.partitions for one in client.call(message).responses)
        assert partition.error_code == code

    (elsewhere,) = client.call(
        metadata_request(create_topic(cluster, assignments=[[LEADER]]))
    ).topics
    with WireClient(cluster.addresses[FOLLOWER]) as other:
        answer = other.call(fetch_request(elsewhere.topic_id, 0, version=16))
    ((partition,),) = (one.partitions for one in answer.responses)
    assert partition.error_code == ErrorCode.not_leader_or_follower
    assert partition.current_leader.leader_id == LEADER
    (endpoint,) = answer.node_endpoints
    assert (endpoint.node_id, endpoint.host, endpoint.port) == (LEADER, *cluster.addresses[LEADER])


def test_fetch_with_invalid_limits_is_answered(client: WireClient, topic: str) -> None:
    batch = bytes(batch_of(b"v"))
    produced(client, topic, batch)

    for max_bytes in (-1, 0, 1, -(2**31)):
        answer = fetched(client, topic, 0, max_bytes=max_bytes)
        assert answer.error_code == ErrorCode.none
        assert len(answer.records) >= len(batch)  # the first batch is returned whole
    assert fetched(client, topic, 0, max_wait_ms=-5, min_bytes=-5).error_code == ErrorCode.none


def test_list_offsets_with_an_unknown_timestamp_is_refused(client: WireClient, topic: str) -> None:
    ((offsets,),) = (one.partitions for one in client.call(list_offsets_request(topic, -77)).topics)

    assert offsets.error_code != ErrorCode.none


# -- topics ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "code"),
    [
        ("refused", {"replication_factor": 4}, ErrorCode.invalid_replication_factor),
        ("refused", {"replication_factor": -2}, ErrorCode.invalid_replication_factor),
        ("refused", {"partitions": 0}, ErrorCode.invalid_partitions),
        ("refused", {"partitions": -2}, ErrorCode.invalid_partitions),
        ("", {}, ErrorCode.invalid_topic_exception),
        ("..", {}, ErrorCode.invalid_topic_exception),
        ("../up", {}, ErrorCode.invalid_topic_exception),
        ("x" * 250, {}, ErrorCode.invalid_topic_exception),
        (
            "refused",
            {"partitions": -1, "replication_factor": -1, "assignments": [[0, 0]]},
            ErrorCode.invalid_replica_assignment,
        ),
        (
            "refused",
            {"partitions": -1, "replication_factor": -1, "assignments": [[0], [0, 1]]},
            ErrorCode.invalid_replica_assignment,
        ),
        ("refused", {"configs": {"min.insync.replicas": "0"}}, ErrorCode.invalid_config),
    ],
)
def test_invalid_topics_are_not_created(
    cluster: Cluster, name: str, options: dict[str, Any], code: ErrorCode
) -> None:
    with WireClient(cluster.addresses[controller(cluster)]) as client:
        (answer,) = client.call(create_topics_request(name, **options)).topics

    assert ErrorCode(answer.error_code) is code
    assert answer.error_message


def test_create_topics_is_refused_by_brokers_other_than_the_controller(cluster: Cluster) -> None:
    other = next(broker for broker in range(3) if broker != controller(cluster))
    with WireClient(cluster.addresses[other]) as client:
        (answer,) = client.call(create_topics_request("elsewhere")).topics

    assert answer.error_code == ErrorCode.not_controller


def test_names_that_differ_in_a_dot_collide(cluster: Cluster) -> None:
    name = create_topic(cluster, unique_name("a.b"), replication_factor=1)
    with WireClient(cluster.addresses[controller(cluster)]) as client:
        (answer,) = client.call(create_topics_request(name.replace(".", "_"))).topics

    assert answer.error_code == ErrorCode.invalid_topic_exception
