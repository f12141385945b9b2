"""While thousands of partitions are created and deleted, another client is served promptly."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cluster.protocol.api import ApiKey
from tests.support.broker_probes import batch_of, list_offsets_request
from tests.support.kafka_wire import WireClient, produce_request, request
from tests.support.recording_producer import Recorder, read_all
from tests.support.running_cluster import Cluster
from tests.support.topics import controller, create_topic, describe, leader
from tests.support.waiting import wait_until

NewCluster = Callable[..., Cluster]

MANY = 1_500
NO_TIMEOUT_MS = 60_000

pytestmark = pytest.mark.slow


def enlarge(cluster: Cluster, topic: str, count: int) -> None:
    """CreatePartitions, whose answer is waited for."""
    with WireClient(cluster.addresses[controller(cluster)], timeout_s=90.0) as client:
        (result,) = client.call(
            request(
                ApiKey.CREATE_PARTITIONS,
                3,
                topics=[{"name": topic, "count": count, "assignments": None}],
                timeout=NO_TIMEOUT_MS,
                validate_only=False,
            )
        ).results
    assert result.error_code == 0, result


def partitions_of(cluster: Cluster, broker: int, topic: str) -> list[Any]:
    view = describe(cluster.addresses[broker], topic)
    return [] if view is None else list(view.topics[0].partitions)


def end_offsets(cluster: Cluster, broker: int, topic: str, numbers: list[int]) -> dict[int, int]:
    """The end of each partition that the broker answers for."""
    asked = list_offsets_request(topic, -1)
    (one,) = asked.topics[0].partitions
    partitions = tuple(replace(one, partition_index=number) for number in numbers)
    asked = replace(asked, topics=(replace(asked.topics[0], partitions=partitions),))
    with WireClient(cluster.addresses[broker], timeout_s=60.0) as client:
        answered = client.call(asked).topics[0].partitions
    return {p.partition_index: p.offset for p in answered if p.error_code == 0}


def serving(cluster: Cluster, broker: int, topic: str) -> int:
    """How many partitions of a topic this broker leads, and answers for."""
    led = [
        p.partition_index for p in partitions_of(cluster, broker, topic) if p.leader_id == broker
    ]
    return len(end_offsets(cluster, broker, topic, led))


def complete(cluster: Cluster, topic: str, names: set[str]) -> list[Path]:
    """The partition directories of broker 0 that have these files."""
    return [
        directory
        for directory in cluster.log_dir(0).glob(f"{topic}-*")
        if names <= {path.name for path in directory.iterdir()}
    ]


def wait_until_all_serve(cluster: Cluster, topic: str, count: int, brokers: list[int]) -> None:
    wait_until(
        lambda: sum(serving(cluster, broker, topic) for broker in brokers) == count,
        f"every leader of {topic} to serve",
    )


def test_a_bystander_is_answered_in_order_while_partitions_come_move_and_go(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster(overrides={"log.segment.delete.delay.ms": "0"}).start()
    topic = create_topic(cluster, "bystander")
    many = create_topic(cluster, "many")
    victim = next(
        broker
        for broker in range(cluster.size)
        if broker not in (leader(cluster, topic), controller(cluster))
    )
    others = [broker for broker in range(cluster.size) if broker != victim]
    recorder = Recorder(cluster, topic)
    with recorder.producing("steady", per_second=200):
        before = recorder.acknowledged_count
        enlarge(cluster, many, MANY)
        wait_until_all_serve(cluster, many, MANY, [*others, victim])
        wait_until(lambda: recorder.acknowledged_count > before, "records acknowledged meanwhile")

        cluster.kill(victim, stay_down=True)
        wait_until_all_serve(cluster, many, MANY, others)
        cluster.restart(victim)

        with WireClient(cluster.addresses[controller(cluster)], timeout_s=90.0) as client:
            client.call(
                request(
                    ApiKey.DELETE_TOPICS,
                    5,
                    topic_names=[many],
                    timeout=NO_TIMEOUT_MS,
                )
            )
        wait_until(
            lambda: not list(cluster.data_dir.glob("broker-*/many-*")), "the directories to go"
        )

    assert recorder.failed == []
    assert read_all(cluster, topic) == recorder.acknowledged
    offsets = list(recorder.acknowledged[0])
    assert offsets == sorted(offsets)


def test_brokers_killed_while_partitions_are_made_have_all_of_them_afterwards(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster(brokers=1).start()
    many = create_topic(cluster, "many", replication_factor=1)
    enlarge(cluster, many, MANY)
    with WireClient(cluster.addresses[0]) as client:
        # Whatever of its directory is there by now: the record brings the rest along.
        answer = client.call(produce_request(many, bytes(batch_of(b"kept")), partition=MANY - 1))
        assert answer.responses[0].partition_responses[0].error_code == 0
    cluster.kill_everything()

    cluster.start()
    wait_until_all_serve(cluster, many, MANY, [0])
    ends = end_offsets(cluster, 0, many, list(range(MANY)))
    assert ends == {number: int(number == MANY - 1) for number in range(MANY)}

    names = {"partition.metadata", *(f"{0:020d}.{s}" for s in ("log", "index", "timeindex"))}
    wait_until(lambda: len(complete(cluster, many, names)) == MANY, "every directory to be made")
    cluster.stop()
    cluster.start()
    wait_until_all_serve(cluster, many, MANY, [0])
    assert end_offsets(cluster, 0, many, list(range(MANY))) == ends
