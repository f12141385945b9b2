"""Apache Kafka's command-line tools and brokers (ZooKeeper mode), as processes of tests."""

import functools
import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

import pytest

from tests.compat.installing import may_install, need_beyond_pypi
from tests.compat.kafka_jvm import VERSION, class_path, fetch
from tests.support.running_cluster import Address
from tests.support.topics import describe
from tests.support.waiting import is_readable, wait_until

# A JVM of its own for each tool: compiled as little as a run of a second needs.
_JAVA: Final = ("java", "-XX:TieredStopAtLevel=1")
_QUIET: Final = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
_PROGRAMS: Final = Path(__file__).with_name("java_programs")
_TOOL_DEADLINE_S: Final = 120.0
_BROKER_DEADLINE_S: Final = 120.0


class ToolFailed(AssertionError):
    """A tool ended with another exit status than 0; says what it wrote."""


def require_kafka(version: str = VERSION) -> str:
    """The class path; skips the running test where Kafka is not and must not be fetched."""
    need_beyond_pypi("Apache Kafka")
    jars, problem = _class_path(version)
    if jars is None:
        pytest.skip(problem)
    return jars


@functools.cache
def _class_path(version: str) -> tuple[str | None, str]:
    """The class path of a version of Kafka, fetched at most once; or None and the reason."""
    jars = class_path(version)
    problem = f"no Apache Kafka; `python -m tests.compat.kafka_jvm {version}` fetches it"
    if jars is None and may_install():
        problem = fetch(version=version)
        jars = class_path(version)
    return jars, problem


def run_tool(
    main_class: str,
    *arguments: str,
    stdin: str = "",
    fails: bool = False,
    version: str = VERSION,
) -> str:
    """Run one tool of Kafka to its end. Returns its output, stdout and stderr.

    Raises ToolFailed when its exit status is not 0; with `fails`, when it is 0.
    """
    done = subprocess.run(
        _tool_command(main_class, arguments, version),
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_TOOL_DEADLINE_S,
        check=False,
    )
    if fails is not (done.returncode != 0):
        raise ToolFailed(f"{main_class} {arguments}: {done.returncode}\n{done.stdout}")
    return done.stdout


def run_program(name: str, *arguments: str, stdin: str = "", version: str = VERSION) -> str:
    """Run one of `java_programs/`, compiled on the way. Returns its stdout.

    Skips the test where there is no JDK.
    """
    if shutil.which("javac") is None:
        pytest.skip("no Java compiler")
    source = str(_PROGRAMS / f"{name}.java")
    done = subprocess.run(
        [*_JAVA, "-cp", require_kafka(version), source, *arguments],
        check=True,
        timeout=_TOOL_DEADLINE_S,
        input=stdin,
        stdout=subprocess.PIPE,
        text=True,
    )
    return done.stdout


def compiled(name: str, directory: Path, version: str = VERSION, *, jars: str = "") -> Path:
    """Compile one of `java_programs/` into a directory, and return that. Skips as `run_program`.

    `jars` is a class path without Kafka's brokers, of the `version` that is meant.
    """
    if shutil.which("javac") is None:
        pytest.skip("no Java compiler")
    source = _PROGRAMS / f"{name}.java"
    subprocess.run(
        ["javac", "-cp", jars or require_kafka(version), "-d", directory, source],
        check=True,
        timeout=_TOOL_DEADLINE_S,
        stdin=subprocess.DEVNULL,
    )
    return directory


def java_command(classes: Path, version: str = VERSION, *, jars: str = "") -> list[str]:
    """How to run a class that is compiled there: its name is the next argument."""
    return [*_JAVA, "-Xmx256m", _QUIET, "-cp", f"{classes}:{jars or require_kafka(version)}"]


class Ended(NamedTuple):
    """What came of a tool."""

    status: int
    stdout: str
    stderr: str
    output: str
    """Both in the order in which they were written."""


class ToolShell:
    """A JVM that runs one tool after the other; a context manager that ends it.

    For tools that end by themselves, leave no threads behind and count nothing from run to run.
    """

    def __init__(self, directory: Path, *options: str, version: str = VERSION) -> None:
        """`directory` is for what is compiled, `options` are for the JVM. Skips the running test as
        `run_program`.
        """
        classes = compiled("ToolShell", directory, version)
        self._process = subprocess.Popen(
            [*java_command(classes, version), *options, "ToolShell"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def run(self, main_class: str, *arguments: str, stdin: str = "", fails: bool = False) -> str:
        """Run one tool as the function `run_tool` does."""
        ended = self.outcome(main_class, *arguments, stdin=stdin)
        if fails is not (ended.status != 0):
            raise ToolFailed(f"{main_class} {arguments}: {ended.status}\n{ended.output}")
        return ended.output

    def outcome(self, main_class: str, *arguments: str, stdin: str = "") -> Ended:
        """Run one tool to its end, whatever its exit status."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = {"class": main_class, "arguments": arguments, "stdin": stdin}
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        assert is_readable(self._process.stdout, _TOOL_DEADLINE_S), f"{main_class} does not end"
        return Ended(**json.loads(self._process.stdout.readline()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


@contextmanager
def running_tool(main_class: str, *arguments: str) -> Iterator[Callable[[], str]]:
    """Start one of Kafka's tools. Yields a function that waits for its end and returns its stdout.

    That function raises ToolFailed when the exit status is not 0.
    """
    with (
        tempfile.TemporaryFile("w+") as output,  # a pipe that nobody reads would stop the tool
        subprocess.Popen(
            _tool_command(main_class, arguments), stdin=subprocess.DEVNULL, stdout=output
        ) as process,
    ):

        def finish() -> str:
            status = process.wait(_TOOL_DEADLINE_S)
            output.seek(0)
            if status != 0:
                raise ToolFailed(f"{main_class} {arguments}: {status}\n{output.read()}")
            return output.read()

        try:
            yield finish
        finally:
            process.kill()  # does nothing to one that has ended


def _tool_command(main_class: str, arguments: tuple[str, ...], version: str = VERSION) -> list[str]:
    return [*_JAVA, "-Xmx256m", _QUIET, "-cp", require_kafka(version), main_class, *arguments]


class KafkaProcess:
    """One Kafka broker on a log directory and a registry; a context manager that ends it."""

    def __init__(
        self,
        log_dir: Path,
        *,
        broker_id: int,
        address: Address,
        registry: str,
        overrides: Mapping[str, str] | None = None,
        java: Sequence[str] = _JAVA,
    ) -> None:
        """`registry` is what `zookeeper.connect` takes; files of its own lie beside `log_dir`."""
        self._java = java
        self.broker_id = broker_id
        self.address = address
        self.log_path = log_dir.with_name(f"{log_dir.name}-kafka.log")
        settings = {
            "broker.id": str(broker_id),
            "listeners": "PLAINTEXT://{}:{}".format(*address),
            "log.dirs": str(log_dir),
            "zookeeper.connect": registry,
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **(overrides or {}),
        }
        self._config = log_dir.with_name(f"{log_dir.name}-kafka.properties")
        self._config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """The address for clients' `bootstrap.servers`."""
        return "{}:{}".format(*self.address)

    @property
    def pid(self) -> int:
        """The process, while it runs."""
        assert self._process is not None
        return self._process.pid

    def log(self) -> str:
        """What it has logged so far."""
        return self.log_path.read_text()

    def start(self) -> Self:
        """Returns when it has named itself the controller: from then on it takes every request."""
        with self.log_path.open("a") as log:
            self._process = subprocess.Popen(
                [
                    *self._java,
                    "-Xmx512m",
                    "-Dorg.slf4j.simpleLogger.showDateTime=true",
                    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
                    "-cp",
                    require_kafka(),
                    "kafka.Kafka",
                    str(self._config),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        wait_until(self._serves, "Kafka's start", _BROKER_DEADLINE_S)
        return self

    def stop(self) -> None:
        """Send SIGTERM, so that Kafka closes its logs, and wait for its end."""
        process = self._taken()
        process.terminate()
        process.wait(_BROKER_DEADLINE_S)

    def kill(self) -> None:
        """Send SIGKILL and wait for the end of the process."""
        process = self._taken()
        process.kill()
        process.wait()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self.kill()

    def _taken(self) -> "subprocess.Popen[bytes]":
        process, self._process = self._process, None
        assert process is not None
        return process

    def _serves(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log()[-4_000:]
        view = describe(self.address)
        return view is not None and view.controller_id == self.broker_id
