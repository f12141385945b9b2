"""Many produce requests in flight on one connection: in order, once, also while brokers fail."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from cluster.model.errors import ErrorCode
from cluster.records.builder import ProducerIdentity
from tests.support.handler_requests import a_batch, produced_in
from tests.support.kafka_wire import ClosedByPeer, WireClient, produce_request
from tests.support.recording_producer import Recorder, read_all
from tests.support.replica_files import assert_replicas_are_equal
from tests.support.running_cluster import Cluster
from tests.support.topics import controller, create_topic, leader, partition_state, wait_for_isr
from tests.support.waiting import wait_until

NewCluster = Callable[..., Cluster]

IN_FLIGHT = 200
BACK_S = 60.0


def in_order_from(cluster: Cluster, first: int) -> list[list[int]]:
    """One partition on every broker; this one leads."""
    return [[(first + step) % cluster.size for step in range(cluster.size)]]


def send_all(client: WireClient, topic: str, count: int, **options: Any) -> None:
    frames = [
        client.frame(produce_request(topic, a_batch(b"%d" % number), **options))
        for number in range(count)
    ]
    client.send_bytes(b"".join(frames))


def codes(client: WireClient, count: int) -> list[tuple[int, int]]:
    """Error codes and offsets; `receive` checks that the answers are in order."""
    answers = [produced_in(client.receive())[0] for _ in range(count)]
    return [(one.error_code, one.base_offset) for one in answers]


def test_pipelined_requests_are_committed_and_answered_in_order(new_cluster: NewCluster) -> None:
    cluster = new_cluster().start()
    topic = create_topic(cluster, assignments=in_order_from(cluster, 0))
    with WireClient(cluster.addresses[0]) as client:
        for turn in range(3):
            send_all(client, topic, IN_FLIGHT)
            first = turn * IN_FLIGHT
            assert codes(client, IN_FLIGHT) == [(0, first + each) for each in range(IN_FLIGHT)]
    cluster.stop()
    assert_replicas_are_equal(cluster, topic)


def test_sequences_of_a_pipelined_producer_are_kept_and_duplicates_answered(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster().start()
    topic = create_topic(cluster, assignments=in_order_from(cluster, 0))
    with WireClient(cluster.addresses[0]) as client:
        batches = [
            a_batch(b"%d" % number, producer=ProducerIdentity(7, 0, number)) for number in range(50)
        ]
        again = batches[-5:]  # as many as a broker remembers of a producer
        frames = [client.frame(produce_request(topic, each)) for each in [*batches, *again]]
        client.send_bytes(b"".join(frames))
        offsets = [*range(50), *range(45, 50)]
        assert codes(client, 55) == [(0, offset) for offset in offsets]
    assert len(read_all(cluster, topic)[0]) == 50


@pytest.mark.parametrize("in_flight", [1, 5, 20])
def test_every_record_is_there_in_order_when_leaders_are_killed(
    new_cluster: NewCluster, in_flight: int
) -> None:
    """librdkafka produces idempotently with at most five requests in flight."""
    cluster = new_cluster().start()
    topic = create_topic(cluster)
    recorder = Recorder(
        cluster,
        topic,
        enable_idempotence=in_flight <= 5,
        max_in_flight_requests_per_connection=in_flight,
        batch_num_messages=10,
        linger_ms=0,
    )
    with recorder.producing("load", per_second=2_000):
        for _ in range(2):
            count = recorder.acknowledged_count
            wait_until(lambda: recorder.acknowledged_count > count + 200, "load")  # noqa: B023
            old = leader(cluster, topic)
            cluster.kill(old)  # the supervisor starts it again
            wait_until(lambda: leader(cluster, topic) not in (old, -1), "another leader", BACK_S)  # noqa: B023
            wait_for_isr(cluster, topic, 3)
    assert recorder.failed == []
    read = read_all(cluster, topic)[0]
    assert recorder.acknowledged[0].items() <= read.items()
    if in_flight <= 5:
        assert list(read.values()) == recorder.sent[0]
    else:
        assert set(read.values()) == set(recorder.sent[0])
    cluster.stop()
    assert_replicas_are_equal(cluster, topic)


def test_each_waiting_request_gets_its_error_when_the_isr_shrinks(new_cluster: NewCluster) -> None:
    cluster = new_cluster(overrides={"replica.lag.time.max.ms": "1000"}).start()
    first, follower = (broker for broker in range(3) if broker != controller(cluster))
    topic = create_topic(
        cluster,
        assignments=in_order_from(cluster, first),
        configs={"min.insync.replicas": "3"},
    )
    with WireClient(cluster.addresses[first]) as client:
        send_all(client, topic, 10)
        assert codes(client, 10) == [(0, each) for each in range(10)]
        cluster.pause(follower)
        try:
            send_all(client, topic, IN_FLIGHT, timeout_ms=60_000)
            answered = codes(client, IN_FLIGHT)
        finally:
            cluster.resume(follower)
        # The last ones may have come after the shrink was committed.
        after, before = (
            ErrorCode.not_enough_replicas_after_append,
            ErrorCode.not_enough_replicas,
        )
        assert answered[0][0] == after
        assert [code for code, _ in answered] == sorted(
            (code for code, _ in answered), reverse=True
        )
        assert {code for code, _ in answered} <= {after, before}
        wait_for_isr(cluster, topic, 3)
        send_all(client, topic, 3)
        assert [code for code, _ in codes(client, 3)] == [0, 0, 0]


def test_requests_wait_for_a_paused_follower_and_are_answered_when_it_returns(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster().start()
    first, follower = (broker for broker in range(3) if broker != controller(cluster))
    topic = create_topic(cluster, assignments=in_order_from(cluster, first))
    with WireClient(cluster.addresses[first]) as client:
        cluster.pause(follower)
        try:
            send_all(client, topic, 3, timeout_ms=300)
            assert [code for code, _ in codes(client, 3)] == [ErrorCode.request_timed_out] * 3
            send_all(client, topic, IN_FLIGHT, timeout_ms=60_000)
        finally:
            cluster.resume(follower)
        answered = codes(client, IN_FLIGHT)
    assert answered == [(0, 3 + each) for each in range(IN_FLIGHT)]


def test_answers_before_a_killed_leader_are_complete_and_its_records_survive(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster().start()
    old = next(broker for broker in range(3) if broker != controller(cluster))
    topic = create_topic(cluster, assignments=in_order_from(cluster, old))
    answered: list[tuple[int, int]] = []
    enough = threading.Event()

    def produce() -> None:
        with WireClient(cluster.addresses[old]) as client:
            try:
                while True:
                    send_all(client, topic, IN_FLIGHT)
                    for _ in range(IN_FLIGHT):
                        answered.extend(codes(client, 1))
                        if len(answered) > 3 * IN_FLIGHT:
                            enough.set()
            except ClosedByPeer:
                return

    thread = threading.Thread(target=produce)
    thread.start()
    assert enough.wait(BACK_S)
    cluster.kill(old, stay_down=True)
    thread.join(BACK_S)
    assert not thread.is_alive()
    wait_until(
        lambda: partition_state(cluster, topic, 0, controller(cluster)).leader_id not in (old, -1),
        "another leader",
        BACK_S,
    )
    assert answered == [(0, each) for each in range(len(answered))]
    read = read_all(cluster, topic)[0]
    assert all(offset in read for _, offset in answered)
    assert [int(value) for value in read.values()] == [
        each % IN_FLIGHT for each in range(len(read))
    ]
