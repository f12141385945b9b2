"""Brokers on the built-in registry and on a real ZooKeeper ensemble: the same code, the same
behaviour when brokers, sessions or the registry itself die.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic

import pytest
from confluent_kafka import Producer
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NoNodeError

from cluster.coordinator.registry.client.session_close import close_session
from tests.compat.zookeeper_server import HOST, ZooKeeperProcess, require_zookeeper
from tests.support.running_cluster import Cluster
from tests.support.topics import controller, create_topic, leader, partition_state, wait_for_isr
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.compat, pytest.mark.beyond_pypi]

SESSION_TIMEOUT_MS = 20_000
FAST_S = 12.0
"""Well below the session timeout, so the supervisor must have closed the dead broker's session."""
CHROOT = "/some/kafka"
IDENTITY = "milena:s3cret"
SETTINGS = {
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "milena.registry.auth": f"digest:{IDENTITY}",
    "zookeeper.set.acl": "true",
}


class Registry:
    """Where the brokers are registered, and how it is made to fail."""

    def __init__(self, cluster: Cluster, zookeeper: ZooKeeperProcess | None) -> None:
        self.cluster = cluster
        self.zookeeper = zookeeper
        self.is_built_in = zookeeper is None
        self.client = KazooClient(
            cluster.state()["registry"],
            auth_data=[("digest", IDENTITY)],
            connection_retry={"max_tries": -1, "delay": 0.05, "backoff": 1, "max_jitter": 0.0},
        )
        self.client.start(timeout=30)

    @property
    def port(self) -> int:
        return int(self.cluster.state()["registry"].partition("/")[0].rpartition(":")[2])

    def owner(self, broker: int) -> int | None:
        """The session that has registered a broker; None when it is not registered."""
        with suppress(NoNodeError):
            stat = self.client.get(f"/brokers/ids/{broker}")[1]
            return int(stat.ephemeralOwner)
        return None

    def fail(self) -> None:
        """kill -9; the built-in registry is started again by the supervisor."""
        if self.zookeeper is not None:
            self.zookeeper.kill()
            self.zookeeper.start()
            return
        before = self.cluster.state()["registry_process"]["pid"]
        self.cluster.command("kill", "registry")
        wait_until(
            lambda: self.cluster.state()["registry_process"]["pid"] not in (before, None),
            "another registry process",
        )


@pytest.fixture(params=["built-in", "zookeeper"])
def registry(
    request: pytest.FixtureRequest, tmp_path: Path, new_cluster: Callable[..., Cluster]
) -> Iterator[Registry]:
    if request.param == "built-in":
        with new_cluster(brokers=3, overrides=SETTINGS) as cluster:
            one = Registry(cluster, None)
            yield one
            one.client.stop()
            one.client.close()
        return
    require_zookeeper()
    with ZooKeeperProcess(tmp_path / "zookeeper", tick_time_ms=2_000) as zookeeper:
        overrides = {**SETTINGS, "zookeeper.connect": f"{zookeeper.address}{CHROOT}"}
        with new_cluster(brokers=3, overrides=overrides) as cluster:
            one = Registry(cluster, zookeeper)
            yield one
            one.client.stop()
            one.client.close()


def produce(cluster: Cluster, topic: str, count: int = 50) -> None:
    """Every record is acknowledged by all in-sync replicas."""
    failures = []
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "acks": "all", "message.timeout.ms": 20_000}
    )
    for number in range(count):
        producer.produce(
            topic,
            str(number).encode(),
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(25) == 0
    assert failures == []


def test_brokers_and_sessions_that_die_are_replaced_and_znodes_are_protected(
    registry: Registry,
) -> None:
    cluster = registry.cluster
    assert (cluster.state()["registry_process"] is not None) is registry.is_built_in
    topic = create_topic(cluster, partitions=1)
    produce(cluster, topic)
    only_the_brokers_may_read(registry)
    a_dead_broker_is_replaced_at_once(registry, topic)
    a_lost_session_is_replaced(registry, topic)
    sessions_outlive_the_registry(registry, topic)
    for broker in range(cluster.size):
        assert "Traceback" not in cluster.log_text(f"broker-{broker}")
    a_dead_broker_is_replaced_at_once(registry, topic)


def only_the_brokers_may_read(registry: Registry) -> None:
    stranger = KazooClient(f"{HOST}:{registry.port}")
    stranger.start(timeout=30)
    prefix = "" if registry.is_built_in else CHROOT
    for path in ("/brokers/ids/0", "/controller", "/cluster/id"):
        with pytest.raises(NoAuthError):
            stranger.get(prefix + path)
    stranger.stop()
    stranger.close()
    password = IDENTITY.partition(":")[2]
    for name in ("broker-0", "supervisor"):
        assert password not in registry.cluster.log_text(name)


def a_dead_broker_is_replaced_at_once(registry: Registry, topic: str) -> None:
    cluster = registry.cluster
    victim = leader(cluster, topic, 0)
    asked = (victim + 1) % cluster.size
    began = monotonic()
    cluster.kill(victim, stay_down=True)
    wait_until(lambda: registry.owner(victim) is None, "the end of its registration", FAST_S)

    def has_moved() -> bool:
        state = partition_state(cluster, topic, 0, asked)
        return state is not None and state.leader_id not in (victim, -1)

    wait_until(has_moved, "another leader", FAST_S)
    assert monotonic() - began < FAST_S
    produce(cluster, topic)
    cluster.restart(victim)
    wait_for_isr(cluster, topic, 3)


def a_lost_session_is_replaced(registry: Registry, topic: str) -> None:
    """Broker by broker, the controller too: it steps down, registers again and serves again."""
    cluster = registry.cluster
    first = controller(cluster)
    for broker in (first, (first + 1) % cluster.size):
        session = json.loads((cluster.data_dir / "run" / f"broker-{broker}.session").read_text())
        session_id, password = session["session_id"], bytes.fromhex(session["password"])
        assert registry.owner(broker) == session_id
        assert close_session(HOST, registry.port, session_id, password, 5_000)
        wait_until(
            lambda broker=broker, old=session_id: registry.owner(broker) not in (None, old),
            "a new registration",
        )
        wait_for_isr(cluster, topic, 3)
        produce(cluster, topic)


def sessions_outlive_the_registry(registry: Registry, topic: str) -> None:
    cluster = registry.cluster
    before = [registry.owner(broker) for broker in range(cluster.size)]
    registry.fail()
    produce(cluster, topic)
    wait_until(lambda: registry.client.connected, "the client's connection")
    assert [registry.owner(broker) for broker in range(cluster.size)] == before
    produce(cluster, create_topic(cluster), 5)
