"""The two clusters that `bench/groups.py` compares: our own, and Apache Kafka's from its jars.

Each has three brokers, and what concerns groups is set to the same values. Everything else is as it
comes with the system: Kafka's heap and garbage collector are those of its start script.
"""

import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

import psutil

from cluster.config.broker import LOG_PREALLOCATE_STEP_BYTES
from cluster.model.errors import UserError
from tests.compat import kafka_jvm
from tests.compat.installing import may_install
from tests.support.running_cluster import HOST, Address, Cluster, free_ports

BROKERS: Final = 3
START_S: Final = 120.0
_CLUSTER_ID: Final = "bWlsZW5hLWJlbmNobWFyaw"
_JAVA: Final = (  # what kafka-server-start.sh gives
    *("java", "-server", "-Xms1G", "-Xmx1G", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
_START_BROKERS: Final = f"""
for broker in {" ".join(map(str, range(BROKERS)))}; do
    "$0" "$@" kafka-$broker.properties >>kafka-$broker.log 2>&1 &
    echo $!
done
wait
"""


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
    """Brokers of Apache Kafka, the first of which is the controller, too. They ask no ZooKeeper."""

    name = f"Kafka {kafka_jvm.NEWEST}"

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        """Raises LookupError when Kafka is not here and must not be fetched."""
        self._class_path = _class_path()
        self._directory = directory
        first = free_ports(BROKERS + 1)
        self.addresses: Sequence[Address] = [(HOST, first + broker) for broker in range(BROKERS)]
        controller = f"{HOST}:{first + BROKERS}"
        for broker, (host, port) in enumerate(self.addresses):
            listeners = f"PLAINTEXT://{host}:{port}"
            properties = {
                "process.roles": "broker" if broker else "broker,controller",
                "node.id": str(broker),
                "controller.quorum.voters": f"0@{controller}",
                "controller.listener.names": "CONTROLLER",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "listeners": listeners if broker else f"{listeners},CONTROLLER://{controller}",
                "advertised.listeners": listeners,
                "log.dirs": str(self.log_dir(broker)),
                **settings,
            }
            text = "".join(f"{key}={value}\n" for key, value in properties.items())
            self._properties(broker).write_text(text)
        self._shell: subprocess.Popen[bytes] | None = None
        self._processes: list[psutil.Process] = []

    def start(self) -> None:
        formats = [
            self._java(broker, "kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c")
            for broker in range(BROKERS)
        ]
        for broker, formatted in enumerate(formats):
            if formatted.wait(START_S):
                raise UserError(self._log(broker).read_text()[-2_000:])
        # One session, as our processes are: the kernel shares processors out among sessions.
        self._shell = subprocess.Popen(
            ["sh", "-c", _START_BROKERS, *(*_JAVA, "-cp", self._class_path, "kafka.Kafka")],
            cwd=self._directory,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        assert self._shell.stdout is not None
        for _ in range(BROKERS):
            self._processes.append(psutil.Process(int(self._shell.stdout.readline())))

    def process(self, broker: int) -> psutil.Process:
        return self._processes[broker]

    def log_dir(self, broker: int) -> Path:
        return self._directory / f"kafka-{broker}"

    def stop_broker(self, broker: int) -> None:
        self._processes[broker].send_signal(signal.SIGTERM)

    def close(self) -> None:
        for process in self._processes:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        if self._shell is not None:
            self._shell.wait()
        for broker in range(BROKERS):
            shutil.rmtree(self.log_dir(broker), ignore_errors=True)

    def _properties(self, broker: int) -> Path:
        return self._directory / f"kafka-{broker}.properties"

    def _log(self, broker: int) -> Path:
        return self._directory / f"kafka-{broker}.log"

    def _java(self, broker: int, main_class: str, *arguments: str) -> "subprocess.Popen[bytes]":
        with self._log(broker).open("ab") as log:
            return subprocess.Popen(
                [
                    *(*_JAVA, "-cp", self._class_path, main_class, *arguments),
                    str(self._properties(broker)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )


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
