"""Limits on connections: how many, how many of one address, how long silent."""

from collections.abc import Callable

import pytest

from cluster.model.errors import ErrorCode
from tests.support.broker_probes import assert_closed_with_one_line, batch_of
from tests.support.kafka_wire import (
    ClosedByPeer,
    WireClient,
    fetch_request,
    metadata_request,
    produce_request,
)
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic
from tests.support.waiting import wait_until

NewCluster = Callable[..., Cluster]


def test_connections_per_address_are_limited(new_cluster: NewCluster) -> None:
    cluster = new_cluster(brokers=1, overrides={"max.connections.per.ip": "5"}).start()
    clients = [WireClient(cluster.addresses[0]) for _ in range(5)]
    for client in clients:
        client.call(metadata_request())

    with WireClient(cluster.addresses[0]) as sixth:
        assert_closed_with_one_line(cluster, sixth, "max.connections.per.ip", broker=0)
    clients.pop().close()

    def admitted() -> bool:
        with WireClient(cluster.addresses[0]) as another:
            try:
                return bool(another.call(metadata_request()).brokers)
            except ClosedByPeer:
                return False

    wait_until(admitted, "the freed place")
    for client in clients:
        client.call(metadata_request())
        client.close()


def test_connections_above_the_limit_wait_for_a_place(new_cluster: NewCluster) -> None:
    overrides = {
        "max.connections": "5",
        "listener.name.plaintext.max.connections": "3",
        "listeners": "PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
    }
    cluster = new_cluster(brokers=1, overrides=overrides).start()
    (broker,) = cluster.state()["brokers"]
    ports = {each["name"]: each["port"] for each in broker["listeners"]}
    address, other = (("127.0.0.1", ports[name]) for name in ("PLAINTEXT", "OTHER"))
    clients = [WireClient(address) for _ in range(3)]
    for client in clients:
        client.call(metadata_request())

    with WireClient(address, timeout_s=0.3) as fourth:
        fourth.send(metadata_request())
        with pytest.raises(TimeoutError):
            fourth.receive_bytes(1)
        with WireClient(other) as through_another:
            assert len(through_another.call(metadata_request()).brokers) == 1
        (line,) = cluster.log_lines(0, "not accepting new connections for now")
        assert "3 are open (listener.name.plaintext.max.connections)" in line
        clients.pop().close()
        fourth.set_timeout(60.0)
        assert len(fourth.receive().brokers) == 1
        clients += [WireClient(other) for _ in range(2)]
        for client in clients:
            client.call(metadata_request())
        with WireClient(other, timeout_s=0.3) as sixth:  # where the broker's own limit holds
            sixth.send(metadata_request())
            with pytest.raises(TimeoutError):
                sixth.receive_bytes(1)
    for client in clients:
        client.close()


def test_idle_connections_are_closed(new_cluster: NewCluster) -> None:
    cluster = new_cluster(brokers=1, overrides={"connections.max.idle.ms": "2500"}).start()
    name = create_topic(cluster, replication_factor=1)
    with (
        WireClient(cluster.addresses[0]) as idle,
        WireClient(cluster.addresses[0]) as busy,
        WireClient(cluster.addresses[0]) as waiting,
    ):
        idle.call(metadata_request())
        waiting.send(fetch_request(name, 0, max_wait_ms=25_000))  # waits longer than that
        closed = False

        def is_closed() -> bool:
            nonlocal closed
            busy.call(metadata_request())
            idle.set_timeout(0.05)
            try:
                closed = idle.wait_for_close() == b""
            except TimeoutError:
                return False
            return closed

        wait_until(is_closed, "the idle connection to be closed")
        busy.call(produce_request(name, bytes(batch_of(b"x"))))
        ((partition,),) = (one.partitions for one in waiting.receive().responses)
        assert partition.error_code == ErrorCode.none
