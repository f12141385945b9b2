"""Replication by local connections: what fails there loses nothing and doubles nothing.

A broker that has none replicates by ZeroMQ beside those that have.
"""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.support.one_odd_broker import ODD, OtherHost, RegistryThere, odd_program, other_host
from tests.support.recording_producer import Recorder, read_all
from tests.support.replica_files import assert_replicas_are_equal
from tests.support.running_cluster import Address, Cluster
from tests.support.topics import create_topic, leader, wait_for_isr
from tests.support.waiting import wait_until

NewCluster = Callable[..., Cluster]

PARTITIONS = 3
WITH_LOGINS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}
"""With an authorizer the registry takes logins, so links between hosts have keys."""
SHORT_SESSION = {"zookeeper.session.timeout.ms": "4000"}
CONNECTED = "is on this machine: fetching by a local connection"


def locally_followed(cluster: Cluster, follower: int) -> set[int]:
    """The leaders from which a broker has begun to fetch by a local connection."""
    lines = cluster.log_lines(follower, CONNECTED)
    return {int(line.partition(CONNECTED)[0].split()[-1]) for line in lines}


def wait_for_local_connections(cluster: Cluster, brokers: set[int]) -> None:
    for follower in brokers:
        wait_until(
            partial(_follows, cluster, follower, brokers - {follower}),
            f"broker {follower} to fetch from {brokers - {follower}} by local connections",
        )


def _follows(cluster: Cluster, follower: int, leaders: set[int]) -> bool:
    return locally_followed(cluster, follower) >= leaders


def spread(cluster: Cluster) -> list[list[int]]:
    """Each broker leads one partition, and all follow it."""
    return [
        [(number + step) % cluster.size for step in range(cluster.size)]
        for number in range(PARTITIONS)
    ]


def check_exactly_once(cluster: Cluster, topic: str, recorder: Recorder) -> None:
    assert recorder.failed == []
    read = read_all(cluster, topic, PARTITIONS)
    for partition in range(PARTITIONS):
        assert list(read[partition].values()) == recorder.sent[partition]


def in_sync(cluster: Cluster, topic: str) -> None:
    for partition in range(PARTITIONS):
        wait_for_isr(cluster, topic, cluster.size, partition)


@contextlib.contextmanager
def load(cluster: Cluster, topic: str) -> Iterator[Callable[[], None]]:
    """Records of an idempotent producer with acks=all; gives a wait for more acknowledgements.

    At the end: nothing lost, nothing doubled, and equal files.
    """
    recorder = Recorder(
        cluster,
        topic,
        partitions=PARTITIONS,
        enable_idempotence=True,
        request_timeout_ms=1_500,
        socket_timeout_ms=2_000,
    )

    def wait_for_more() -> None:
        count = recorder.acknowledged_count
        wait_until(lambda: recorder.acknowledged_count > count + 100, "acknowledgements")

    with recorder.producing("load", per_second=300):
        wait_for_more()
        yield wait_for_more
        wait_for_more()
    in_sync(cluster, topic)
    check_exactly_once(cluster, topic, recorder)
    cluster.stop()
    assert_replicas_are_equal(cluster, topic, PARTITIONS)


def harm(cluster: Cluster, broker: int, way: str) -> None:
    if way == "kill":
        cluster.kill(broker)
    elif way == "pause":
        cluster.pause(broker)
    else:
        cluster.restart(broker)


@pytest.mark.parametrize(
    "way",
    [
        "kill",
        pytest.param("pause", marks=pytest.mark.long),
        pytest.param("restart", marks=pytest.mark.long),
    ],
)
def test_leader_follower_and_both_fail_and_nothing_is_lost_or_doubled(
    new_cluster: NewCluster, way: str
) -> None:
    """Each broker leads one partition and follows the others."""
    cluster = new_cluster(overrides=SHORT_SESSION).start()
    topic = create_topic(cluster, assignments=spread(cluster))
    in_sync(cluster, topic)
    wait_for_local_connections(cluster, {0, 1, 2})

    with load(cluster, topic) as wait_for_more:
        for victims in ([0], [1], [0, 2]):
            begun = [len(cluster.log_lines(each, CONNECTED)) for each in range(cluster.size)]
            for victim in victims:
                harm(cluster, victim, way)
            if len(victims) == 1:
                wait_for_more()  # by the two others
            if way == "pause":
                for victim in victims:
                    cluster.resume(victim)
            in_sync(cluster, topic)
            wait_until(
                lambda t=topic: [leader(cluster, t, p) for p in range(PARTITIONS)] == [0, 1, 2],
                "the preferred replicas to lead again",
            )
            if way != "pause":
                survivor = next(each for each in range(cluster.size) if each not in victims)
                wait_until(
                    lambda s=survivor, b=begun: len(cluster.log_lines(s, CONNECTED)) > b[s],
                    "another local connection",
                )
            wait_for_more()


def test_a_broker_without_shared_memory_replicates_by_zeromq(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    program = odd_program(tmp_path, {"replica.fetch.shared.memory": "false"})
    replicates_by_zeromq(new_cluster(installed=program).start())


def replicates_by_zeromq(cluster: Cluster) -> None:
    """The odd broker does, and the others use local connections; also after one is killed."""
    topic = create_topic(cluster, assignments=spread(cluster))
    in_sync(cluster, topic)
    wait_for_local_connections(cluster, {0, 1})

    with load(cluster, topic) as wait_for_more:
        for victim in (ODD, 0):
            cluster.kill(victim)
            wait_for_more()
            in_sync(cluster, topic)
        wait_for_more()

    assert locally_followed(cluster, ODD) == set()
    assert [locally_followed(cluster, each) for each in (0, 1)] == [{1}, {0}]


class ClusterOfTwoHosts(Cluster):
    """The odd broker is on another host than the others."""

    def __init__(self, path: Path, host: OtherHost) -> None:
        self._host = host
        super().__init__(
            path / "cluster",
            overrides={
                "listeners": f"PLAINTEXT://{host.here}:0",
                "milena.control.host": host.here,
                **WITH_LOGINS,
            },
            installed=odd_program(
                path,
                {
                    "listeners": f"PLAINTEXT://{host.there}:{{port}}",
                    "advertised.listeners": f"PLAINTEXT://{host.there}:{{port}}",
                    "milena.control.host": host.there,
                },
                host.namespace,
            ),
        )

    @property
    def addresses(self) -> list[Address]:
        ports = [port for _, port in super().addresses]
        hosts = [self._host.there if broker == ODD else self._host.here for broker in range(3)]
        return list(zip(hosts, ports, strict=True))


def test_a_broker_of_another_network_replicates_by_zeromq(tmp_path: Path) -> None:
    """It is reached by TCP alone, as it would be on another host."""
    with other_host() as host:
        if host is None:
            pytest.skip("no network namespace can be made here")
        cluster = ClusterOfTwoHosts(tmp_path, host)
        with RegistryThere(host.namespace, cluster.registry_port), cluster:
            replicates_by_zeromq(cluster)
