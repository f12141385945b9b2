"""The two systems that are compared, each as one starts it by its own command.

Both have their own defaults, but for settings that are the same for both: the replication of
internal topics, and no delay before a new consumer group is ready.
"""

import os
import shutil
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import psutil

from bench.kafka_server import KafkaServer
from cluster.launch.options import StartOptions
from cluster.local.local_cluster import LocalCluster
from cluster.model.addresses import LOOPBACK
from cluster.runtime.ports import WantedPort, choose_ports, free_ports
from tests.compat import kafka_jvm
from tests.support.running_cluster import Address
from tests.support.topics import describe
from tests.support.waiting import wait_until

ROOT: Final = Path(__file__).resolve().parent.parent
PORT_FLAG: Final = "--port"
MILENA: Final = "Milena"
KAFKA: Final = f"Kafka {kafka_jvm.NEWEST}"


class Place(NamedTuple):
    """Where a system is to run, and how much of it."""

    directory: Path
    brokers: int
    first_port: int
    """0: any free ones."""
    class_path: str
    """Kafka's jars."""
    kafka_heap: str


class System(Protocol):
    """A cluster of either kind."""

    name: str
    addresses: Sequence[Address]

    def prepare(self) -> None:
        """What is done once before the first start."""
        ...

    def start(self) -> None:
        """Start it; it may not serve yet when this returns. Raises UserError."""
        ...

    def check_alive(self) -> None:
        """Raises UserError if a process has ended by itself."""
        ...

    def processes(self) -> list[psutil.Process]:
        """All of its processes."""
        ...

    def kill(self, broker: int) -> None:
        """SIGKILL to a broker, from outside."""
        ...

    def revive(self, broker: int) -> None:
        """Have a killed broker start again."""
        ...

    def stop(self, broker: int) -> None:
        """Stop a broker cleanly; returns when it has ended, and it stays down."""
        ...

    def start_again(self, broker: int) -> None:
        """Start a stopped broker; it may not serve yet when this returns."""
        ...

    def close(self) -> None:
        """End every process and remove the data."""
        ...


class MilenaSystem:
    """This project's cluster, as `bin/cluster start` runs it, the dashboard included."""

    name = MILENA

    def __init__(self, place: Place) -> None:
        first = checked_ports(MILENA, place.first_port, place.brokers + 2)
        self._cluster = LocalCluster(
            StartOptions(
                place.directory / "milena",
                brokers=place.brokers,
                port=first,
                registry_port=first + place.brokers,
                dashboard_port=first + place.brokers + 1,
                overrides=tuple(f"{key}={value}" for key, value in _settings(place).items()),
            ),
            program=ROOT / "bin" / "cluster",
        )
        self.addresses: Sequence[Address] = self._cluster.addresses

    def prepare(self) -> None:
        """Its environment exists: this program runs in it."""

    def start(self) -> None:
        self._cluster.start()

    def check_alive(self) -> None:
        """The supervisor starts what ends."""

    def processes(self) -> list[psutil.Process]:
        supervisor = psutil.Process(self._cluster.state()["supervisor_pid"])
        return [supervisor, *supervisor.children(recursive=True)]

    def kill(self, broker: int) -> None:
        os.kill(self._cluster.state()["brokers"][broker]["pid"], signal.SIGKILL)

    def revive(self, broker: int) -> None:
        """The supervisor does so by itself."""

    def stop(self, broker: int) -> None:
        process = psutil.Process(self._cluster.state()["brokers"][broker]["pid"])
        self._cluster.kill(broker, "TERM", stay_down=True)
        _wait_until_ended(process)

    def start_again(self, broker: int) -> None:
        self._cluster.restart(broker)

    def close(self) -> None:
        self._cluster.close()


class KafkaSystem:
    """Apache Kafka; every broker is a controller, too, as three nodes are usually set up."""

    name = KAFKA

    def __init__(self, place: Place) -> None:
        self._directory = place.directory / "kafka"
        self._directory.mkdir()
        self._server = KafkaServer(
            self._directory,
            class_path=place.class_path,
            brokers=place.brokers,
            controllers=place.brokers,
            first_port=checked_ports(KAFKA, place.first_port, 2 * place.brokers),
            settings=_settings(place),
            heap=place.kafka_heap,
        )
        self.addresses: Sequence[Address] = self._server.addresses

    def prepare(self) -> None:
        self._server.prepare()

    def start(self) -> None:
        self._server.start()

    def check_alive(self) -> None:
        self._server.check_alive()

    def processes(self) -> list[psutil.Process]:
        return list(self._server.processes.values())

    def kill(self, broker: int) -> None:
        self._server.processes[broker].kill()

    def revive(self, broker: int) -> None:
        self._server.start_broker(broker)

    def stop(self, broker: int) -> None:
        process = self._server.processes[broker]
        process.send_signal(signal.SIGTERM)
        _wait_until_ended(process)

    def start_again(self, broker: int) -> None:
        self._server.start_broker(broker)

    def close(self) -> None:
        self._server.close()
        shutil.rmtree(self._directory, ignore_errors=True)


SYSTEMS: Final[dict[str, type[MilenaSystem] | type[KafkaSystem]]] = {
    "milena": MilenaSystem,
    "kafka": KafkaSystem,
}


def _wait_until_ended(process: psutil.Process) -> None:
    """Its parent may not have noticed yet."""

    def has_ended() -> bool:
        try:
            return bool(process.status() == psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return True

    wait_until(has_ended, "the end of a broker")


def _settings(place: Place) -> dict[str, str]:
    return {
        "offsets.topic.replication.factor": str(place.brokers),
        "transaction.state.log.replication.factor": str(place.brokers),
        "transaction.state.log.min.isr": str(min(2, place.brokers)),
        "group.initial.rebalance.delay.ms": "0",
    }


def checked_ports(owner: str, first: int, count: int) -> int:
    """The first of some free ports in a row. Raises UserError if one of those wanted is taken."""
    if first == 0:
        return free_ports(count)
    choose_ports(
        WantedPort(owner, LOOPBACK, port, PORT_FLAG) for port in range(first, first + count)
    )
    return first


def serves(system: System) -> bool:
    """Whether every broker lists all brokers and a controller."""
    views = [describe(address) for address in system.addresses]
    return all(
        view is not None and len(view.brokers) == len(views) and view.controller_id >= 0
        for view in views
    )


def cpu_s(system: System) -> float:
    """The CPU time of all processes so far, user and system, in seconds."""
    total = 0.0
    for process in system.processes():
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system
    return total
