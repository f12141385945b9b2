"""Leadership returns to preferred replicas, and no producer or consumer comes to harm."""

from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest
from confluent_kafka import Consumer, TopicPartition

from cluster.model.topics import CONSUMER_OFFSETS_TOPIC
from cluster.protocol.api import ApiKey
from cluster.records.builder import NewRecord, build_batch
from tests.support.broker_probes import STARTED_MS
from tests.support.kafka_wire import WireClient, produce_request, request
from tests.support.recording_producer import Recorder, read_all
from tests.support.replica_files import assert_replicas_are_equal
from tests.support.running_cluster import Cluster
from tests.support.topics import controller, create_topic, describe, leader, wait_for_isr
from tests.support.waiting import wait_until

NewCluster = Callable[..., Cluster]
ASKED_FOR_ONLY = {"auto.leader.rebalance.enable": "false"}


def led(cluster: Cluster, *topics: str, asked: int = 0) -> Counter[int] | None:
    """How many partitions each broker leads; None while not all are in sync and led as they
    prefer.
    """
    view = describe(cluster.addresses[asked], *topics)
    if view is None:
        return None
    counts: Counter[int] = Counter()
    for topic in view.topics:
        for state in topic.partitions:
            replicas = list(state.replica_nodes)
            if state.leader_id != replicas[0] or sorted(state.isr_nodes) != sorted(replicas):
                return None
            counts[state.leader_id] += 1
    return counts


def commit(cluster: Cluster, topic: str) -> None:
    """Have `__consumer_offsets` made."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "readers"})
    consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    consumer.close()


def test_after_stop_and_start_every_broker_leads_as_many_as_before(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster().start()
    topic = create_topic(cluster, partitions=6)
    commit(cluster, topic)
    both = (topic, CONSUMER_OFFSETS_TOPIC)
    before = wait_until(partial(led, cluster, *both), "preferred replicas to lead")
    assert set(before) == {0, 1, 2}
    for _ in range(2):
        cluster.stop()
        cluster.start()
        after = wait_until(partial(led, cluster, *both), "preferred replicas to lead again")
        assert after == before
        assert led(cluster, topic) == {0: 2, 1: 2, 2: 2}


@pytest.mark.parametrize("how", ["kill", "restart"])
def test_a_broker_that_comes_back_leads_its_partitions_again(
    new_cluster: NewCluster, how: str
) -> None:
    cluster = new_cluster().start()
    topic = create_topic(cluster, partitions=6)
    commit(cluster, topic)
    both = (topic, CONSUMER_OFFSETS_TOPIC)
    before = wait_until(partial(led, cluster, *both), "preferred replicas to lead")
    recorder = Recorder(cluster, topic, partitions=6, enable_idempotence=True)
    with recorder.producing("load"):
        for broker in range(cluster.size):
            if how == "kill":
                cluster.kill(broker)  # the supervisor starts it again
                wait_until(lambda: led(cluster, *both, asked=0) != before, "leadership to move")
            else:
                cluster.restart(broker)
            after = wait_until(partial(led, cluster, *both), "preferred replicas to lead again")
            assert after == before
    assert recorder.failed == []
    read = read_all(cluster, topic, partitions=6)
    assert {p: list(records.values()) for p, records in read.items()} == recorder.sent
    cluster.stop()
    assert_replicas_are_equal(cluster, topic, partitions=6)


def test_leadership_stays_when_automatic_rebalancing_is_off(new_cluster: NewCluster) -> None:
    cluster = new_cluster(overrides=ASKED_FOR_ONLY).start()
    topic = create_topic(cluster, assignments=[[1, 2, 0], [1, 0, 2]])
    other = create_topic(cluster, assignments=[[1, 2, 0]])
    cluster.restart(1)
    for name in (topic, other):
        wait_for_isr(cluster, name, 3)
    cluster.command(
        *("partitions", "elect-leaders", "--election-type", "preferred"),
        *("--topic", topic, "--partition", "1"),
    )
    assert [leader(cluster, topic, number) for number in (0, 1)] == [2, 1]
    assert leader(cluster, other) == 2


def test_new_leader_leads_before_clients_are_sent_to_it(new_cluster: NewCluster) -> None:
    """The old leader answers as such until the new one leads, and then names it."""
    cluster = new_cluster(overrides=ASKED_FOR_ONLY).start()
    topic = create_topic(cluster, assignments=[[1, 2, 0]])
    batch = bytes(build_batch([NewRecord(b"value", timestamp_ms=STARTED_MS)]))
    for _ in range(3):
        cluster.restart(1)
        wait_for_isr(cluster, topic, 3)
        assert leader(cluster, topic) == 2
        with (
            WireClient(cluster.addresses[controller(cluster)]) as admin,
            WireClient(cluster.addresses[2]) as of_old,
            WireClient(cluster.addresses[1]) as of_new,
        ):
            admin.send(
                request(
                    ApiKey.ELECT_LEADERS,
                    2,
                    election_type=0,
                    topic_partitions=[{"topic": topic, "partitions": [0]}],
                    timeout=30_000,
                )
            )
            while True:
                answer = of_old.call(produce_request(topic, batch, version=10))
                (old,) = answer.responses[0].partition_responses
                if old.error_code:
                    break
            new = of_new.call(produce_request(topic, batch, version=10))
            assert new.responses[0].partition_responses[0].error_code == 0
            assert (old.error_code, old.current_leader.leader_id) == (6, 1)
            assert [node.node_id for node in answer.node_endpoints] == [1]
            assert admin.receive().error_code == 0
