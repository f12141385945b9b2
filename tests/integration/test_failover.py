"""Brokers that die, pause and come back while producers go on: nothing acknowledged is lost."""

import contextlib
import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError

from cluster.records.batch import Compression
from cluster.records.builder import NewRecord, build_batch
from tests.support.broker_probes import STARTED_MS
from tests.support.kafka_wire import (
    ClosedByPeer,
    WireClient,
    metadata_request,
    produce_request,
)
from tests.support.recording_producer import Recorder, read_all
from tests.support.replica_files import assert_replicas_are_equal, log_bytes
from tests.support.running_cluster import Cluster
from tests.support.topics import (
    controller,
    create_topic,
    describe,
    leader,
    partition_state,
    wait_for_isr,
)
from tests.support.waiting import wait_until

NewCluster = Callable[..., Cluster]
Report = Callable[[str], None]

FAILOVER_DEADLINE_S = 15.0  # less than the default session timeout
SHORT_SESSION = {"zookeeper.session.timeout.ms": "4000"}  # two ticks of the registry, its least


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest) -> Report:
    """Prints a measurement, also when the test passes."""

    def show(text: str) -> None:
        with capsys.disabled():
            print(f"\n{request.node.name}: {text}")

    return show


def preferred(cluster: Cluster, first: int) -> list[list[int]]:
    """One partition on every broker; this one leads."""
    return [[(first + step) % cluster.size for step in range(cluster.size)]]


def others(cluster: Cluster, broker: int) -> list[int]:
    return [other for other in range(cluster.size) if other != broker]


def wait_for_new_leader(cluster: Cluster, topic: str, old: int) -> tuple[int, float]:
    """The leader that another broker's Metadata names instead, and after how many seconds."""
    began = time.monotonic()
    asked = others(cluster, old)[0]

    def new() -> int | None:
        state = partition_state(cluster, topic, 0, asked)
        return state.leader_id if state and state.leader_id not in (old, -1) else None

    # A list, since broker 0 is false.
    (found,) = wait_until(
        lambda: [one] if (one := new()) is not None else None,
        f"another leader than {old}",
        FAILOVER_DEADLINE_S,
    )
    return found, time.monotonic() - began


def has_more(recorder: Recorder, count: int) -> bool:
    return recorder.acknowledged_count > count


def check_nothing_is_lost(cluster: Cluster, topic: str, recorder: Recorder) -> None:
    read = read_all(cluster, topic)[0]
    assert recorder.failed == []
    assert recorder.acknowledged[0].items() <= read.items()
    assert set(read.values()) == set(recorder.sent[0])


def check_exactly_once(cluster: Cluster, topic: str, recorder: Recorder) -> None:
    assert recorder.failed == []
    assert list(read_all(cluster, topic)[0].values()) == recorder.sent[0]


@pytest.mark.parametrize("idempotent", [True, False], ids=["idempotent", "plain"])
def test_acknowledged_records_survive_when_a_leader_is_killed(
    new_cluster: NewCluster, report: Report, idempotent: bool
) -> None:
    cluster = new_cluster().start()
    old = others(cluster, controller(cluster))[0]
    topic = create_topic(cluster, assignments=preferred(cluster, old))
    recorder = Recorder(cluster, topic, enable_idempotence=idempotent)

    with recorder.producing("load"):
        wait_until(lambda: recorder.acknowledged_count > 200, "load")
        cluster.kill(old, stay_down=True)
        new, seconds = wait_for_new_leader(cluster, topic, old)
        count = recorder.acknowledged_count
        wait_until(lambda: recorder.acknowledged_count > count + 200, "load on the new leader")
    report(f"leader {old} -> {new} in {seconds * 1000:.0f} ms")

    (check_exactly_once if idempotent else check_nothing_is_lost)(cluster, topic, recorder)
    cluster.restart(old)
    wait_for_isr(cluster, topic, 3)
    wait_until(lambda: leader(cluster, topic) == old, "the preferred replica to lead again")
    cluster.stop()
    assert_replicas_are_equal(cluster, topic)


def test_acknowledged_records_survive_when_leaders_are_killed_in_turn(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster().start()
    topic = create_topic(cluster)
    recorder = Recorder(cluster, topic, enable_idempotence=True)

    with recorder.producing("load"):
        for _ in range(4):
            wait_until(partial(has_more, recorder, recorder.acknowledged_count + 100), "load")
            old = leader(cluster, topic)
            cluster.kill(old)  # the supervisor starts it again
            wait_for_new_leader(cluster, topic, old)
            wait_for_isr(cluster, topic, 3)

    check_exactly_once(cluster, topic, recorder)
    cluster.stop()
    assert_replicas_are_equal(cluster, topic)


def test_acknowledged_records_survive_when_brokers_are_restarted_in_turn(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster().start()
    topic = create_topic(cluster)
    recorder = Recorder(cluster, topic, enable_idempotence=True)

    with recorder.producing("load"):
        for broker in range(cluster.size):
            cluster.restart(broker)
            wait_for_isr(cluster, topic, 3)

    check_exactly_once(cluster, topic, recorder)


def test_cluster_elects_another_controller_when_it_is_killed(
    new_cluster: NewCluster, report: Report
) -> None:
    cluster = new_cluster().start()
    old = controller(cluster)
    survivors = others(cluster, old)
    topic = create_topic(cluster, assignments=preferred(cluster, old))
    recorder = Recorder(cluster, topic, enable_idempotence=True)

    with recorder.producing("load"):
        wait_until(lambda: recorder.acknowledged_count > 100, "load")
        began = time.monotonic()
        cluster.kill(old, stay_down=True)

        def views() -> set[int]:
            seen = (describe(cluster.addresses[broker]) for broker in survivors)
            return {view.controller_id for view in seen if view is not None}

        wait_until(
            lambda: len(ids := views()) == 1 and ids <= set(survivors),
            "another controller",
            FAILOVER_DEADLINE_S,
        )
        seconds = time.monotonic() - began
        new, _ = wait_for_new_leader(cluster, topic, old)
        leader_seconds = time.monotonic() - began
    report(
        f"controller {old} -> {controller(cluster)} in {seconds * 1000:.0f} ms,"
        f" leader {old} -> {new} in {leader_seconds * 1000:.0f} ms"
    )

    check_exactly_once(cluster, topic, recorder)
    second = create_topic(cluster, replication_factor=2)
    assert sorted(partition_state(cluster, second, 0, new).replica_nodes) == survivors
    cluster.restart(old)
    wait_for_isr(cluster, topic, 3)
    third = create_topic(cluster, replication_factor=3)
    wait_for_isr(cluster, third, 3)


def test_paused_leader_is_replaced_and_rejoins(new_cluster: NewCluster, report: Report) -> None:
    cluster = new_cluster(overrides=SHORT_SESSION).start()
    old = others(cluster, controller(cluster))[0]
    topic = create_topic(cluster, assignments=preferred(cluster, old))
    # A paused broker keeps its connections, so only a timeout tells the client to look elsewhere.
    recorder = Recorder(
        cluster, topic, enable_idempotence=True, request_timeout_ms=1500, socket_timeout_ms=2000
    )

    with recorder.producing("load", per_second=300):
        wait_until(lambda: recorder.acknowledged_count > 50, "load")
        cluster.pause(old)
        new, seconds = wait_for_new_leader(cluster, topic, old)
        count = recorder.acknowledged_count
        wait_until(lambda: recorder.acknowledged_count > count + 50, "load on the new leader")
        cluster.resume(old)
        wait_for_isr(cluster, topic, 3)
        wait_until(
            lambda: {leader(cluster, topic, asked=broker) for broker in range(3)} == {old},
            "the preferred replica to lead again",
        )
    report(f"paused leader {old} -> {new} in {seconds * 1000:.0f} ms")

    check_exactly_once(cluster, topic, recorder)
    cluster.stop()
    assert_replicas_are_equal(cluster, topic)


def test_paused_controller_is_replaced_and_does_no_harm(new_cluster: NewCluster) -> None:
    cluster = new_cluster(overrides=SHORT_SESSION).start()
    old = controller(cluster)
    topic = create_topic(cluster, assignments=preferred(cluster, old))

    cluster.pause(old)
    wait_for_new_leader(cluster, topic, old)
    cluster.resume(old)

    wait_for_isr(cluster, topic, 3)
    wait_until(
        lambda: (
            {view.controller_id for a in cluster.addresses if (view := describe(a))}
            == {controller(cluster)}
        ),
        "all to agree on one controller",
    )
    assert controller(cluster) != old
    wait_until(
        lambda: leader(cluster, topic, asked=old) == old, "the preferred replica to lead again"
    )
    wait_for_isr(cluster, create_topic(cluster, replication_factor=3), 3)


def produce_raw(cluster: Cluster, broker: int, topic: str, value: bytes, **options: Any) -> int:
    """One record by a raw request to one broker; the error code of the answer."""
    batch = bytes(build_batch([NewRecord(value, timestamp_ms=STARTED_MS)]))
    with WireClient(cluster.addresses[broker], timeout_s=20.0) as client:
        answer = client.call(produce_request(topic, batch, **options))
    code: int = answer.responses[0].partition_responses[0].error_code
    return code


def test_metadata_names_no_dead_leader_when_none_can_be_elected(new_cluster: NewCluster) -> None:
    """The registry is paused, so that the controller cannot act; the survivors know nonetheless.
    Before the death, producers do not notice that it is paused, not even a new idempotent one.
    """
    cluster = new_cluster().start()
    old = others(cluster, controller(cluster))[0]
    topic = create_topic(cluster, assignments=preferred(cluster, old))
    pid = cluster.pid(old)
    assert pid is not None

    def named(asked: int) -> int:
        return int(partition_state(cluster, topic, 0, asked).leader_id)

    cluster.pause("registry")
    try:
        recorder = Recorder(cluster, topic, enable_idempotence=True)
        recorder.produce("record", 10)
        recorder.flush()
        assert recorder.acknowledged_count == 10
        os.kill(pid, signal.SIGKILL)
        for survivor in others(cluster, old):
            wait_until(partial(_is, named, survivor, -1), f"broker {survivor} to name no leader")
            assert [named(survivor) for _ in range(20)] == [-1] * 20
    finally:
        cluster.resume("registry")

    new, _ = wait_for_new_leader(cluster, topic, old)
    assert new in others(cluster, old)


def _is(look: Callable[[int], int], asked: int, expected: int) -> bool:
    return look(asked) == expected


def test_a_paused_leader_is_named_as_long_as_its_session_lasts(new_cluster: NewCluster) -> None:
    cluster = new_cluster().start()
    old = others(cluster, controller(cluster))[0]
    topic = create_topic(cluster, assignments=preferred(cluster, old))

    cluster.pause(old)
    try:
        for survivor in others(cluster, old):
            states = [partition_state(cluster, topic, 0, survivor) for _ in range(20)]
            assert [state.leader_id for state in states] == [old] * 20
    finally:
        cluster.resume(old)

    assert leader(cluster, topic) == old


def _call_until_it_breaks(client: WireClient) -> None:
    with contextlib.suppress(ClosedByPeer, OSError):
        while True:
            client.call(metadata_request())


def test_metadata_names_the_new_leader_in_the_first_answer(new_cluster: NewCluster) -> None:
    """It asks when its connection breaks, before anybody else can know of the death."""
    cluster = new_cluster().start()
    old = others(cluster, controller(cluster))[0]
    topic = create_topic(cluster, assignments=preferred(cluster, old))
    survivor = others(cluster, old)[0]
    pid = cluster.pid(old)
    assert pid is not None

    with WireClient(cluster.addresses[survivor]) as asking:
        asking.call(metadata_request(topic))
        with WireClient(cluster.addresses[old]) as broken:
            os.kill(pid, signal.SIGKILL)
            _call_until_it_breaks(broken)
            answer = asking.call(metadata_request(topic))

    assert answer.topics[0].partitions[0].leader_id != old


def test_produce_is_refused_when_too_few_replicas_are_in_sync(new_cluster: NewCluster) -> None:
    cluster = new_cluster().start()
    topic = create_topic(
        cluster, assignments=preferred(cluster, 0), configs={"min.insync.replicas": "3"}
    )
    assert produce_raw(cluster, 0, topic, b"1") == 0

    cluster.kill(2, stay_down=True)
    wait_for_isr(cluster, topic, 2)

    assert produce_raw(cluster, 0, topic, b"2") == KafkaError.NOT_ENOUGH_REPLICAS
    assert produce_raw(cluster, 0, topic, b"3", acks=1) == 0
    recorder = Recorder(cluster, topic, retries=0)
    recorder.produce("refused", 1)
    recorder.flush()
    assert [error.code() for error in recorder.failed] == [KafkaError.NOT_ENOUGH_REPLICAS]

    cluster.restart(2)
    wait_for_isr(cluster, topic, 3)
    assert produce_raw(cluster, 0, topic, b"4") == 0
    assert list(read_all(cluster, topic)[0].values()) == [b"1", b"3", b"4"]


def test_produce_fails_when_the_isr_shrinks_below_the_minimum_meanwhile(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster(overrides={"replica.lag.time.max.ms": "1000"}).start()
    first, follower = others(cluster, controller(cluster))  # the controller must not be paused
    topic = create_topic(
        cluster, assignments=preferred(cluster, first), configs={"min.insync.replicas": "3"}
    )
    assert produce_raw(cluster, first, topic, b"1") == 0

    cluster.pause(follower)
    try:
        code = produce_raw(cluster, first, topic, b"2", timeout_ms=15_000)
        wait_until(
            lambda: len(partition_state(cluster, topic, 0, first).isr_nodes) == 2, "a smaller ISR"
        )
    finally:
        cluster.resume(follower)

    assert code == KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    wait_for_isr(cluster, topic, 3)
    assert produce_raw(cluster, first, topic, b"3") == 0


def test_produce_times_out_while_a_follower_is_paused(new_cluster: NewCluster) -> None:
    cluster = new_cluster().start()
    topic = create_topic(cluster, assignments=preferred(cluster, 0))
    assert produce_raw(cluster, 0, topic, b"1") == 0

    cluster.pause(2)
    try:
        code = produce_raw(cluster, 0, topic, b"2", timeout_ms=300)
        assert list(read_all(cluster, topic)[0].values()) == [b"1"]  # not committed yet
    finally:
        cluster.resume(2)

    assert code == KafkaError.REQUEST_TIMED_OUT
    assert produce_raw(cluster, 0, topic, b"3") == 0
    assert list(read_all(cluster, topic)[0].values()) == [b"1", b"2", b"3"]


def test_replica_outside_the_in_sync_set_never_leads(new_cluster: NewCluster) -> None:
    cluster = new_cluster().start()
    topic = create_topic(cluster, assignments=preferred(cluster, 0))
    assert produce_raw(cluster, 0, topic, b"on all three") == 0
    for follower in (1, 2):
        cluster.kill(follower, stay_down=True)
    wait_until(
        lambda: list(partition_state(cluster, topic, 0, 0).isr_nodes) == [0], "0 to be alone"
    )
    assert produce_raw(cluster, 0, topic, b"on one") == 0

    cluster.kill(0, stay_down=True)
    cluster.restart(1)
    wait_until(lambda: partition_state(cluster, topic, 0, 1), "broker 1 to know the topic")
    assert partition_state(cluster, topic, 0, 1).leader_id == -1
    assert produce_raw(cluster, 1, topic, b"refused") == KafkaError.NOT_LEADER_FOR_PARTITION

    cluster.restart(0)
    wait_for_isr(cluster, topic, 2)
    cluster.restart(2)
    wait_for_isr(cluster, topic, 3)
    assert leader(cluster, topic) == 0
    assert list(read_all(cluster, topic)[0].values()) == [b"on all three", b"on one"]


def test_unclean_election_loses_records_but_replicas_agree(new_cluster: NewCluster) -> None:
    cluster = new_cluster().start()
    topic = create_topic(
        cluster,
        assignments=preferred(cluster, 0),
        configs={"unclean.leader.election.enable": "true"},
    )
    assert produce_raw(cluster, 0, topic, b"on all three") == 0
    for follower in (1, 2):
        cluster.kill(follower, stay_down=True)
    wait_until(
        lambda: list(partition_state(cluster, topic, 0, 0).isr_nodes) == [0], "0 to be alone"
    )
    assert produce_raw(cluster, 0, topic, b"lost 1") == 0
    assert produce_raw(cluster, 0, topic, b"lost 2") == 0

    cluster.kill(0, stay_down=True)
    cluster.restart(1)
    wait_until(
        lambda: (state := partition_state(cluster, topic, 0, 1)) and state.leader_id == 1,
        "broker 1 to lead",
    )
    assert produce_raw(cluster, 1, topic, b"instead") == 0
    cluster.restart(0)
    cluster.restart(2)
    wait_for_isr(cluster, topic, 3)

    assert list(read_all(cluster, topic)[0].values()) == [b"on all three", b"instead"]
    cluster.stop()
    assert_replicas_are_equal(cluster, topic)


@pytest.mark.parametrize("by_file", [True, False], ids=["shared-memory", "bytes"])
def test_replicas_have_the_same_bytes(new_cluster: NewCluster, by_file: bool) -> None:
    cluster = new_cluster(
        overrides={
            "replica.fetch.shared.memory": str(by_file).lower(),
            "replica.fetch.max.bytes": "20000",  # several rounds, and batches above it
            "log.segment.bytes": "300000",
        }
    ).start()
    partitions = 3
    topic = create_topic(cluster, partitions=partitions)
    leaders = [leader(cluster, topic, partition) for partition in range(partitions)]
    for number in range(60):
        codec = list(Compression)[number % 5]
        records = [
            NewRecord(
                os.urandom(1 + number * 37 % 997), b"key", STARTED_MS + number, (("h", b"1"),)
            )
            for _ in range(1 + number % 50)
        ]
        batch = bytes(build_batch(records, codec=codec))
        for partition in range(partitions):
            with WireClient(cluster.addresses[leaders[partition]]) as client:
                answer = client.call(produce_request(topic, batch, partition=partition))
                assert answer.responses[0].partition_responses[0].error_code == 0
    if Path("/proc/self/fd").exists():
        assert _reads_files_of(cluster, reader=leaders[0], owner=leaders[1]) == by_file
    cluster.kill(leaders[0], stay_down=True)
    wait_for_new_leader(cluster, topic, leaders[0])
    cluster.restart(leaders[0])
    for partition in range(partitions):
        wait_for_isr(cluster, topic, 3, partition)

    cluster.stop()

    assert_replicas_are_equal(cluster, topic, partitions)
    whole = [log_bytes(cluster, broker, topic) for broker in range(3)]
    assert len(set(whole)) == 1
    assert len(list(cluster.log_dir(1).glob(f"{topic}-0/*.log"))) > 2


def _reads_files_of(cluster: Cluster, reader: int, owner: int) -> bool:
    """Whether one broker has segment files of another one open."""
    directory = str(cluster.log_dir(owner))
    return any(
        str(link.readlink()).startswith(directory)
        for link in Path(f"/proc/{cluster.pid(reader)}/fd").iterdir()
        if link.is_symlink()
    )
