"""Partitions move to other brokers while clients use them and processes die."""

import io
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from cluster.client.missing_offsets import assign_again, lacks_offsets
from cluster.client.reassignment_requests import (
    OngoingReassignment,
    alter_reassignments,
    list_reassignments,
)
from cluster.client.socket_client import SocketClient
from cluster.client.topic_requests import Place
from cluster.coordinator.shards.partitioner import partition_of
from cluster.model.errors import ErrorCode, UserError
from cluster.model.topics import CONSUMER_OFFSETS_TOPIC
from cluster.tools import consume
from cluster.tools.consume import ConsoleConsumer
from cluster.tools.record_printer import RecordPrinter
from tests.support.recording_producer import Recorder, read_all
from tests.support.replica_files import log_bytes
from tests.support.running_cluster import Cluster
from tests.support.topics import controller, create_topic, describe
from tests.support.waiting import wait_until

NewCluster = Callable[..., Cluster]
PARTITIONS = 3
BATCHES = 10


def admin(cluster: Cluster) -> SocketClient:
    """A connection to the controller. Raises UserError."""
    for address in cluster.addresses:
        view = describe(address)
        if view is not None and view.controller_id >= 0:
            return SocketClient.connect([cluster.addresses[view.controller_id]], "admin")
    raise UserError("no broker knows a controller")


def live_brokers(cluster: Cluster) -> int:
    return max(len(view.brokers) for view in map(describe, cluster.addresses) if view is not None)


def move(cluster: Cluster, targets: dict[Place, Sequence[int] | None]) -> None:
    """Begin or cancel reassignments; another broker may just have become the controller."""

    def ask() -> bool:
        try:
            with admin(cluster) as client:
                refusals = alter_reassignments(client, targets)
        except UserError:  # the controller has moved, or dies
            return False
        codes = {refused.code for refused in refusals.values() if refused is not None}
        if codes == {ErrorCode.invalid_replica_assignment}:
            return False  # a broker that has just died is registered again soon
        assert not codes, refusals
        return True

    wait_until(ask, "the reassignment to be accepted")


def moving(cluster: Cluster) -> dict[Place, OngoingReassignment] | None:
    """What is being moved; None while no controller answers."""
    try:
        with admin(cluster) as client:
            return list_reassignments(client)
    except UserError:
        return None


def wait_until_moved(cluster: Cluster, topic: str, target: Sequence[int], *numbers: int) -> None:
    """Every replica of the target is in sync, and no other is left."""
    for number in numbers or (0,):

        def is_there(number: int = number) -> bool:
            view = describe(cluster.addresses[target[0]], topic)
            if view is None:
                return False
            states = {state.partition_index: state for state in view.topics[0].partitions}
            state = states[number]
            return (
                list(state.replica_nodes) == list(target)
                and sorted(state.isr_nodes) == sorted(target)
                and state.leader_id in target
            )

        wait_until(is_there, f"{topic}-{number} on {list(target)}")


def replica(cluster: Cluster, broker: int, topic: str, number: int = 0) -> Path:
    return cluster.log_dir(broker) / f"{topic}-{number}"


def is_gone(cluster: Cluster, broker: int, topic: str, number: int = 0) -> bool:
    return not replica(cluster, broker, topic, number).exists()


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("four"), brokers=4) as cluster:
        yield cluster


def hold_back(cluster: Cluster, *, how: str = "--add-config", value: str = "=1") -> None:
    """Let followers copy one batch, and the next much later, so that moves stay in progress."""
    setting = f"follower.replication.throttled.rate{value}"
    cluster.command(
        "configs", "--alter", "--entity-type", "brokers", "--entity-default", how, setting
    )


def let_go(cluster: Cluster) -> None:
    """End `hold_back`."""
    hold_back(cluster, how="--delete-config", value="")


THROTTLED = {"follower.replication.throttled.replicas": "*"}


def test_a_cancelled_move_leaves_no_replica_behind(four: Cluster) -> None:
    topic = create_topic(four, assignments=[[0, 1]], configs=THROTTLED)
    Recorder(four, topic).produce_one_by_one(BATCHES)
    hold_back(four)
    place = Place(topic, 0)
    move(four, {place: [2, 0]})
    assert moving(four) == {place: OngoingReassignment((2, 0, 1), (2,), (1,))}
    move(four, {place: [0, 3]})
    assert moving(four) == {place: OngoingReassignment((0, 3, 1), (3,), (1,))}
    wait_until(partial(is_gone, four, 2, topic), "the first target's replica to be deleted")
    move(four, {place: None})
    wait_until_moved(four, topic, [0, 1])
    wait_until(partial(is_gone, four, 3, topic), "the added replica to be deleted")
    let_go(four)
    with admin(four) as client:
        refused = alter_reassignments(client, {place: None})[place]
    assert refused is not None
    assert refused.code is ErrorCode.no_reassignment_in_progress


def test_records_that_wait_for_a_replica_are_acknowledged_when_it_is_dropped(four: Cluster) -> None:
    """The leader stays, though in another epoch."""
    waits = next(broker for broker in (2, 3) if broker != controller(four))
    topic = create_topic(four, assignments=[[0, 1, waits]])
    recorder = Recorder(four, topic, retries=0, enable_idempotence=False)
    recorder.produce("before", 10)
    recorder.flush()
    four.pause(waits)
    try:
        recorder.produce("waiting", 10)
        asking = threading.Thread(target=move, args=(four, {Place(topic, 0): [0, 1]}))
        asking.start()  # answered when the paused broker knows it too
        recorder.flush()
    finally:
        four.resume(waits)
    asking.join()
    assert recorder.failed == []
    assert list(read_all(four, topic)[0].values()) == recorder.sent[0]


def test_consume_reads_on_when_the_coordinator_moves_before_it_asks_for_offsets(
    four: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The former coordinator refuses, as Kafka's does, and librdkafka does not ask again."""
    refused = []

    def noted(client: Consumer) -> None:
        refused.append(client)
        assign_again(client)

    monkeypatch.setattr(consume, "assign_again", noted)
    topic = create_topic(four, assignments=[[0, 1]])
    Recorder(four, topic).produce_one_by_one(BATCHES)
    member = Consumer(
        {
            "bootstrap.servers": four.bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": 200_000,  # or it learns of the new coordinator by one
            "session.timeout.ms": 300_000,
            "log_level": 0,
        }
    )
    member.subscribe([topic])
    wait_until(
        lambda: topic in four.command("groups", "--describe", "--group", topic).stdout,
        "the assignment",
    )
    (offsets,) = describe(four.addresses[0], CONSUMER_OFFSETS_TOPIC).topics
    number = partition_of(topic, len(offsets.partitions))
    former = offsets.partitions[number].leader_id
    target = [broker for broker in range(4) if broker != former]
    move(four, {Place(CONSUMER_OFFSETS_TOPIC, number): target})
    wait_until_moved(four, CONSUMER_OFFSETS_TOPIC, target, number)

    printer = RecordPrinter.from_properties([])
    reader = ConsoleConsumer(member, printer, io.BytesIO(), is_member=True)
    reader.print_records(BATCHES, timeout_ms=30_000)
    member.close()
    assert reader.count == BATCHES
    assert refused, "it asked the new coordinator at once"


def test_partitions_move_under_load_whoever_dies_and_lose_nothing(
    new_cluster: NewCluster,
) -> None:
    four = new_cluster(brokers=4).start()
    topic = create_topic(four, assignments=[[0, 1, 2]] * PARTITIONS)
    places = [Place(topic, number) for number in range(PARTITIONS)]
    recorder = Recorder(four, topic, partitions=PARTITIONS, enable_idempotence=True)
    consumer = Consumer(
        {
            "bootstrap.servers": four.bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 500,
        }
    )
    consumer.subscribe([topic])
    ways = [[3, 1, 2], [0, 3, 1], [2, 0, 3], [1, 2, 0], [3, 0, 1]]
    with recorder.producing("load", per_second=500):
        for step, target in enumerate(ways):
            wait_until(lambda: live_brokers(four) == 4, "every broker to be registered")
            move(four, dict.fromkeys(places, target))
            # The joining replica, the controller, the leader that goes, and one that stays.
            victim = (target[0], controller(four), ways[step - 1][0], target[1], None)[step]
            if victim is not None:
                four.kill(victim)  # the supervisor starts it again
            wait_until_moved(four, topic, target, *range(PARTITIONS))
    assert recorder.failed == []
    expected = recorder.sent
    read = read_all(four, topic, partitions=PARTITIONS)
    assert {p: list(records.values()) for p, records in read.items()} == expected

    seen: dict[int, list[bytes | None]] = {p: [] for p in range(PARTITIONS)}
    total = sum(map(len, expected.values()))

    def all_consumed() -> bool:
        for message in consumer.consume(500, 0.2):
            error = message.error()
            if error is None:
                seen[message.partition() or 0].append(message.value())
            elif lacks_offsets(error):
                # A coordinator that came back may take over between the assignment, which this
                # member has got but not polled, and its question for offsets.
                assign_again(consumer)
        return sum(map(len, seen.values())) >= total

    try:
        wait_until(all_consumed, "the group to read everything")
    except AssertionError:
        group = four.command("groups", "--describe", "--group", topic).stdout
        why = four.command("groups", "explain", "--group", topic, "--verbose").stdout
        pytest.fail(f"{total - sum(map(len, seen.values()))} records are missing\n{group}\n{why}")
    consumer.close()
    assert seen == expected

    for number in range(PARTITIONS):
        wait_until(partial(is_gone, four, 2, topic, number), "the replica that left to be deleted")
    four.stop()
    for number in range(PARTITIONS):
        logs = [log_bytes(four, broker, topic, number) for broker in ways[-1]]
        assert logs[0]
        assert len(set(logs)) == 1


def test_a_move_goes_on_after_a_stop_and_with_a_wiped_disk(new_cluster: NewCluster) -> None:
    cluster = new_cluster(brokers=4).start()
    topic = create_topic(cluster, assignments=[[0, 1], [1, 2]], configs=THROTTLED)
    recorder = Recorder(cluster, topic, partitions=2)
    recorder.produce_one_by_one(BATCHES)
    hold_back(cluster)
    move(cluster, {Place(topic, 0): [3, 1], Place(topic, 1): [2, 1]})
    begun = {Place(topic, 0): OngoingReassignment((3, 1, 0), (3,), (0,))}
    assert moving(cluster) == begun, "only an order has changed for the other partition"
    cluster.kill_everything()
    shutil.rmtree(cluster.log_dir(3))
    shutil.rmtree(cluster.log_dir(0))
    cluster.start()
    assert moving(cluster) == begun
    let_go(cluster)
    wait_until_moved(cluster, topic, [3, 1])
    wait_until(lambda: moving(cluster) == {}, "the reassignment to be over")
    assert is_gone(cluster, 0, topic)
    recorder.produce("after", 100)
    recorder.flush()
    assert recorder.failed == []
    read = read_all(cluster, topic, partitions=2)
    assert {p: list(records.values()) for p, records in read.items()} == recorder.sent
