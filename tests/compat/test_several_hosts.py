"""Three brokers without supervisor on three hosts, which have a ZooKeeper ensemble of three.

The hosts are network namespaces, so that whole hosts and single links can be lost.
"""

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from subprocess import Popen

import pytest
from kazoo.client import KazooClient

from cluster.coordinator.registry.documents import znodes
from cluster.model.ids import BrokerEpoch, BrokerId
from cluster.runtime.zmq_link import key_of
from tests.compat.network_hosts import Hosts, require_namespaces
from tests.compat.zookeeper_server import four_letter_word, require_zookeeper, server_command
from tests.support.kafka_wire import WireClient
from tests.support.recording_producer import Recorder, read_all
from tests.support.running_cluster import Address
from tests.support.topics import create_topics_request, describe
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.compat, pytest.mark.beyond_pypi, pytest.mark.long]

ROOT = Path(__file__).parents[2]
IDENTITY = "milena:s3cret"
TOPIC = "orders"
PARTITIONS = 3
ZOOKEEPER_PORT, BROKER_PORT = 2181, 9092
FIRST_ID = 100


class SeveralHosts:
    """Host N has broker 100 + N and ZooKeeper server N + 1."""

    def __init__(self, hosts: Hosts, path: Path) -> None:
        self.hosts = hosts
        self._path = path
        self._zookeepers: dict[int, Popen[bytes]] = {}
        self.brokers: dict[int, Popen[bytes]] = {}

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.addresses)

    @property
    def addresses(self) -> list[Address]:
        return [(self.hosts.address(host), BROKER_PORT) for host in range(3)]

    @property
    def ensemble(self) -> str:
        """The servers of ZooKeeper, as `zookeeper.connect` takes them."""
        return ",".join(f"{self.hosts.other_address(host)}:{ZOOKEEPER_PORT}" for host in range(3))

    def start_zookeeper(self, host: int) -> None:
        directory = self._path / f"zookeeper-{host}"
        directory.mkdir(exist_ok=True)
        (directory / "myid").write_text(f"{host + 1}\n")
        address = self.hosts.other_address
        facts = {
            "dataDir": directory,
            "clientPort": ZOOKEEPER_PORT,
            "clientPortAddress": address(host),
            "tickTime": 500,
            "initLimit": 20,
            "syncLimit": 4,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "srvr",
            **{f"server.{each + 1}": f"{address(each)}:2888:3888" for each in range(3)},
        }
        config = directory / "zoo.cfg"
        config.write_text("".join(f"{key}={value}\n" for key, value in facts.items()))
        with (directory / "log").open("ab") as log:
            self._zookeepers[host] = self.hosts.run(host, server_command(config, 64), log)

    def wait_for_zookeeper(self, host: int) -> None:
        def serves() -> bool:
            told = four_letter_word(ZOOKEEPER_PORT, "srvr", self.hosts.other_address(host))
            return "Mode: " in told

        wait_until(serves, f"ZooKeeper on host {host}")

    def kill_zookeeper(self, host: int) -> None:
        self._zookeepers[host].kill()
        self._zookeepers[host].wait()

    def start_broker(self, host: int) -> None:
        directory = self._path / f"broker-{host}"
        directory.mkdir(exist_ok=True)
        address = self.hosts.address(host)
        settings = {
            "broker.id": FIRST_ID + host,
            "broker.rack": f"host-{host}",
            "zookeeper.connect": f"{self.ensemble}/milena",
            "zookeeper.session.timeout.ms": 4_000,
            "milena.registry.auth": f"digest:{IDENTITY}",
            "zookeeper.set.acl": "true",
            "milena.control.host": address,
            "listeners": f"PLAINTEXT://{address}:{BROKER_PORT}",
            "log.dirs": directory / "log",
            "replica.lag.time.max.ms": 3_000,
            "milena.log.preallocate.step.bytes": 262_144,
            "milena.metrics.topic.enable": "false",
        }
        config = directory / "server.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        config.chmod(0o600)
        words = [
            *("env", f"PYTHONPATH={ROOT}", sys.executable, "-P", "-m", "cluster", "broker"),
            *("--config", str(config), "--data-dir", str(directory / "data")),
        ]
        with (directory / "output").open("ab") as output:
            self.brokers[host] = self.hosts.run(host, words, output)

    def in_sync(self, *hosts: int) -> bool:
        """Whether just these brokers are in sync everywhere, and lead, as each of them tells."""
        wanted = {FIRST_ID + host for host in hosts}
        for host in hosts:
            view = describe(self.addresses[host], TOPIC)
            if view is None or not wanted <= {each.node_id for each in view.brokers}:
                return False
            partitions = view.topics[0].partitions
            if len(partitions) != PARTITIONS or any(
                set(each.isr_nodes) != wanted or each.leader_id not in wanted for each in partitions
            ):
                return False
        return True

    def wait_in_sync(self, *hosts: int) -> None:
        wait_until(partial(self.in_sync, *hosts), f"hosts {hosts} to be in sync")

    def controller_host(self) -> int:
        def known() -> int | None:
            view = describe(self.addresses[0])
            return None if view is None or view.controller_id < 0 else view.controller_id + 1

        return wait_until(known, "a controller") - 1 - FIRST_ID

    def logs(self) -> Iterator[tuple[str, str]]:
        for path in sorted(self._path.glob("broker-*/data/logs/*.log")):
            yield str(path), path.read_text()[-3_000:]


@pytest.fixture
def several(tmp_path: Path) -> Iterator[SeveralHosts]:
    require_namespaces()
    require_zookeeper()
    with Hosts(3) as hosts, hosts.at_switch():
        made = SeveralHosts(hosts, tmp_path)
        for host in range(3):
            made.start_zookeeper(host)
        for host in range(3):
            made.wait_for_zookeeper(host)
        for host in range(3):
            made.start_broker(host)
        for host in range(3):
            wait_until(partial(describe, made.addresses[host]), f"the broker of host {host}")
        yield made


def is_encrypted(several: SeveralHosts) -> bool:
    """Whether every broker has a key at its endpoints, without which nobody is connected."""
    client = KazooClient(several.ensemble, auth_data=[("digest", IDENTITY)])
    client.start(timeout=30)
    try:
        found = []
        for host in range(3):
            document, _ = client.get(f"/milena/brokers/ids/{FIRST_ID + host}")
            broker = znodes.decode_broker(BrokerId(FIRST_ID + host), document, BrokerEpoch(0))
            found += [key_of(broker.control_endpoint), key_of(broker.replication_endpoint)]
        return None not in found
    finally:
        client.stop()
        client.close()


def files_of(process: Popen[bytes]) -> set[str]:
    """The files that a process has open or mapped."""
    folder = Path(f"/proc/{process.pid}/fd")
    opened = {str(each.readlink()) for each in folder.iterdir() if each.is_symlink()}
    mapped = Path(f"/proc/{process.pid}/maps").read_text().split()
    return opened.union(mapped)


def test_hosts_servers_and_links_are_lost_without_loss_of_records(several: SeveralHosts) -> None:
    hosts = several.hosts
    with WireClient(several.addresses[several.controller_host()]) as client:
        answer = client.call(
            create_topics_request(TOPIC, partitions=PARTITIONS, replication_factor=3)
        )
        assert answer.topics[0].error_code == 0, answer
    several.wait_in_sync(0, 1, 2)
    assert is_encrypted(several)

    recorder = Recorder(several, TOPIC, partitions=PARTITIONS, enable_idempotence=True)
    with recorder.producing("orders", per_second=200):
        hosts.unplug(2)
        several.wait_in_sync(0, 1)
        hosts.plug(2)
        several.wait_in_sync(0, 1, 2)

        several.kill_zookeeper(0)
        before = recorder.acknowledged_count
        wait_until(lambda: recorder.acknowledged_count > before + 200, "records meanwhile")
        several.start_zookeeper(0)
        several.wait_for_zookeeper(0)
        several.wait_in_sync(0, 1, 2)

        third = several.controller_host()
        one, other = {0, 1, 2} - {third}
        hosts.cut(one, other)
        wait_until(lambda: not several.in_sync(0, 1, 2), "a replica to be out of sync")
        before = recorder.acknowledged_count
        wait_until(lambda: recorder.acknowledged_count > before + 200, "records meanwhile")
        hosts.mend(one, other)
        several.wait_in_sync(0, 1, 2)

    assert recorder.failed == []
    found = read_all(several, TOPIC, PARTITIONS)
    for partition, values in recorder.sent.items():
        assert list(found[partition].values()) == values, f"partition {partition}"
    for host, process in several.brokers.items():
        log_dirs = [f"/broker-{other}/log/" for other in range(3) if other != host]
        assert not [f for f in files_of(process) if any(each in f for each in log_dirs)]
