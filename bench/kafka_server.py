"""Brokers of Apache Kafka from its jars, without ZooKeeper, as processes of a benchmark.

The options of Java are those of Kafka's start scripts. All brokers run in one session, as those of
this project do, because the kernel divides the processors among sessions.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import psutil

from cluster.model.addresses import LOOPBACK
from cluster.model.errors import UserError
from tests.compat import kafka_jvm
from tests.compat.installing import CACHE
from tests.support.running_cluster import Address

HEAP: Final = "1G"
"""What kafka-server-start.sh gives each broker."""
_FORMAT_S: Final = 120.0
_CLUSTER_ID: Final = "bWlsZW5hLWJlbmNobWFyaw"
_JAVA: Final = (
    *("java", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
    *("-XX:MaxInlineLevel=15", "-Djava.awt.headless=true"),
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
_START_BROKERS: Final = """
while read -r broker; do
    "$@" "kafka-$broker.properties" </dev/null >>"kafka-$broker.log" 2>&1 &
    echo $!
done
wait
"""
"""Starts the broker whose number it reads, and prints its process id."""


class KafkaServer:
    """Some brokers, the first of which are controllers too; files are below `directory`."""

    def __init__(
        self,
        directory: Path,
        *,
        class_path: str,
        brokers: int,
        controllers: int,
        first_port: int,
        settings: Mapping[str, str],
        heap: str = HEAP,
    ) -> None:
        """Uses as many ports from `first_port` on as there are brokers and controllers."""
        self._directory = directory
        self._java = [*_JAVA, f"-Xms{heap}", f"-Xmx{heap}", "-cp", class_path]
        self._shell: subprocess.Popen[bytes] | None = None
        self.processes: dict[int, psutil.Process] = {}
        """The brokers that were started last, by their ids."""
        self.addresses: Sequence[Address] = [
            (LOOPBACK, first_port + broker) for broker in range(brokers)
        ]
        quorum = [f"{LOOPBACK}:{first_port + brokers + number}" for number in range(controllers)]
        voters = ",".join(f"{number}@{address}" for number, address in enumerate(quorum))
        for broker, (host, port) in enumerate(self.addresses):
            listener = f"PLAINTEXT://{host}:{port}"
            is_controller = broker < controllers
            properties = {
                "process.roles": "broker,controller" if is_controller else "broker",
                "node.id": str(broker),
                "controller.quorum.voters": voters,
                "controller.listener.names": "CONTROLLER",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "listeners": f"{listener},CONTROLLER://{quorum[broker]}"
                if is_controller
                else listener,
                "advertised.listeners": listener,
                "log.dirs": str(self.log_dir(broker)),
                **settings,
            }
            text = "".join(f"{key}={value}\n" for key, value in properties.items())
            self._properties(broker).write_text(text)

    def log_dir(self, broker: int) -> Path:
        """Where one broker's partitions are."""
        return self._directory / f"kafka-{broker}"

    def log(self, broker: int) -> str:
        """What one broker has logged so far."""
        path = self._directory / f"kafka-{broker}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def prepare(self) -> None:
        """Format the log directories of all brokers, as Kafka asks for once. Raises UserError."""
        with ExitStack() as running:
            formats = []
            for broker in range(len(self.addresses)):
                log = running.enter_context((self._directory / f"kafka-{broker}.log").open("ab"))
                formats.append(self._begin_format(broker, log.fileno()))
                running.callback(formats[-1].wait)
                running.callback(formats[-1].kill)  # does nothing to one that has ended
            for broker, formatted in enumerate(formats):
                if formatted.wait(_FORMAT_S):
                    raise UserError(f"Kafka cannot format its log directory: {self._end(broker)}")

    def start(self) -> None:
        """Start all brokers. Returns when their processes run; they may not serve yet."""
        self._shell = subprocess.Popen(
            ["sh", "-c", _START_BROKERS, "sh", *self._java, "kafka.Kafka"],
            cwd=self._directory,
            start_new_session=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        for broker in range(len(self.addresses)):
            self.start_broker(broker)

    def start_broker(self, broker: int) -> None:
        """Start a broker that has ended."""
        assert self._shell is not None
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(f"{broker}\n".encode())
        self._shell.stdin.flush()
        self.processes[broker] = psutil.Process(int(self._shell.stdout.readline()))

    def check_alive(self) -> None:
        """Raises UserError, with the end of its log, if a broker has ended by itself."""
        for broker, process in self.processes.items():
            with suppress(psutil.NoSuchProcess):
                if process.status() != psutil.STATUS_ZOMBIE:
                    continue
            raise UserError(f"Kafka's broker {broker} has ended: {self._end(broker)}")

    def close(self) -> None:
        """End every process by SIGKILL, and remove the data."""
        if self._shell is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._shell.pid, signal.SIGKILL)
            self._shell.communicate()  # its end, and that of all that had its output
            psutil.wait_procs(list(self.processes.values()), timeout=10)
            self._shell = None
        for broker in range(len(self.addresses)):
            shutil.rmtree(self.log_dir(broker), ignore_errors=True)

    def _properties(self, broker: int) -> Path:
        return self._directory / f"kafka-{broker}.properties"

    def _begin_format(self, broker: int, output: int) -> "subprocess.Popen[bytes]":
        tool = ["kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c"]
        return subprocess.Popen(
            [*self._java, *tool, str(self._properties(broker))],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )

    def _end(self, broker: int) -> str:
        """The last line of a broker's log that is no line of a stack trace."""
        lines = [line for line in self.log(broker).splitlines() if line.strip()]
        return next((line for line in reversed(lines) if not line.startswith("\t")), "no log")


def fetched_class_path() -> str:
    """The newest Kafka's jars, fetched if they are not here. Raises UserError."""
    if shutil.which("java") is None:
        raise UserError("there is no Java: install one (Debian: default-jdk-headless)")
    path = kafka_jvm.class_path(kafka_jvm.NEWEST)
    if path is None:
        problem = kafka_jvm.fetch(version=kafka_jvm.NEWEST)
        path = kafka_jvm.class_path(kafka_jvm.NEWEST)
        if path is None:
            raise UserError(
                f"the jars of Kafka {kafka_jvm.NEWEST} cannot be had: {problem}; install Maven and"
                " check that it reaches a repository, or copy the jars to"
                f" {CACHE / kafka_jvm.NEWEST / 'jars'}"
            )
    return path
