"""The two clusters that `bench/groups.py` compares: our own, and Apache Kafka's from its jars.

Each has three brokers, and what concerns groups is set to the same values. Everything else is as it
comes with the system: Kafka's heap and garbage collector are those of its start script.
"""

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

import psutil

from bench.kafka_server import KafkaServer
from cluster.config.broker import LOG_PREALLOCATE_STEP_BYTES
from tests.compat import kafka_jvm
from tests.compat.installing import may_install
from tests.support.running_cluster import Address, Cluster, free_ports

BROKERS: Final = 3


class System(Protocol):
    """A running cluster."""

    name: str
    addresses: Sequence[Address]

    def start(self) -> None:
        """Returns when its processes run; they may not serve yet."""
        ...

    def process(self, broker: int) -> psutil.Process:
        """One broker's process."""
        ...

    def log_dir(self, broker: int) -> Path:
        """Where one broker's partitions are."""
        ...

    def stop_broker(self, broker: int) -> None:
        """Begin a controlled shutdown of one broker, which stays down."""
        ...

    def close(self) -> None:
        """End every process."""
        ...


class OwnSystem:
    """This project's cluster, started by its command line."""

    name = "milena"

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        step = LOG_PREALLOCATE_STEP_BYTES  # tests take a smaller one
        self._cluster = Cluster(
            directory / "milena",
            brokers=BROKERS,
            overrides={step.name: str(step.default), **settings},
        )
        self.addresses: Sequence[Address] = self._cluster.addresses

    def start(self) -> None:
        self._cluster.start()

    def process(self, broker: int) -> psutil.Process:
        return psutil.Process(self._cluster.pid(broker))

    def log_dir(self, broker: int) -> Path:
        return self._cluster.log_dir(broker)

    def stop_broker(self, broker: int) -> None:
        self._cluster.kill(broker, "TERM", stay_down=True)

    def close(self) -> None:
        self._cluster.close()


class KafkaSystem:
    """Brokers of Apache Kafka, the first of which is the controller, too."""

    name = f"Kafka {kafka_jvm.NEWEST}"

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        """Raises LookupError when Kafka is not here and must not be fetched."""
        self._server = KafkaServer(
            directory,
            class_path=_class_path(),
            brokers=BROKERS,
            controllers=1,
            first_port=free_ports(BROKERS + 1),
            settings=settings,
        )
        self.addresses = self._server.addresses

    def start(self) -> None:
        self._server.prepare()
        self._server.start()

    def process(self, broker: int) -> psutil.Process:
        return self._server.processes[broker]

    def log_dir(self, broker: int) -> Path:
        return self._server.log_dir(broker)

    def stop_broker(self, broker: int) -> None:
        self.process(broker).send_signal(signal.SIGTERM)

    def close(self) -> None:
        self._server.close()


def _class_path() -> str:
    path = kafka_jvm.class_path(kafka_jvm.NEWEST)
    problem = "Apache Kafka is not here; MILENA_TEST_INSTALL=1 fetches it"
    if path is None and may_install():
        problem = kafka_jvm.fetch(version=kafka_jvm.NEWEST)
        path = kafka_jvm.class_path(kafka_jvm.NEWEST)
    if path is None:
        raise LookupError(problem)
    return path


def cpu_seconds(process: psutil.Process) -> float:
    """What a process has taken of processors until now, user and system."""
    times = process.cpu_times()
    return float(times.user + times.system)


def resident_mb(system: System) -> float:
    """The resident memory of all brokers together; what processes share counts in each."""
    brokers = range(len(system.addresses))
    return sum(system.process(broker).memory_info().rss for broker in brokers) / 1e6
