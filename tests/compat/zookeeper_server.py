"""Apache ZooKeeper from the Debian package, as a process of its own for tests and benchmarks.

It is installed by apt only where that is wished for: as root, with apt at hand, and CI=true or
MILENA_TEST_INSTALL=1. Otherwise a test that needs it is skipped and says why.
"""

import functools
import os
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tests.compat.installing import may_install, need_beyond_pypi, one_at_a_time
from tests.support.waiting import wait_until

HOST = "127.0.0.1"
CLI = Path("/usr/share/zookeeper/bin/zkCli.sh")
_JAR = Path("/usr/share/java/zookeeper.jar")
_CLASS_PATH = f"/etc/zookeeper/conf:{_JAR}:/usr/share/java/slf4j-simple.jar"
_START_SECONDS = 30.0


def require_zookeeper() -> None:
    """Skip the running test unless ZooKeeper is here or can be installed."""
    need_beyond_pypi("Apache ZooKeeper")
    reason = _why_absent()
    if reason is not None:
        pytest.skip(reason)


@functools.cache
def _why_absent() -> str | None:
    if not may_install():
        problem = "no Debian package `zookeeper`; MILENA_TEST_INSTALL=1 installs it"
        return None if is_installed() else problem
    with one_at_a_time("apt-get"):
        return None if is_installed() else _install()


def _install() -> str | None:
    """Why it is still absent."""
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        return "no Debian package `zookeeper`, and only root with apt-get can install it"
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update"], ["install", "-y", "--no-install-recommends", "zookeeper"]):
        done = subprocess.run(
            [apt, *arguments], env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            return f"apt-get {arguments[0]} failed: {done.stderr.strip()[-200:]}"
    return None if is_installed() else "the package `zookeeper` has no server"


def is_installed() -> bool:
    """Whether a server can be started here."""
    return _JAR.exists() and shutil.which("java") is not None


def server_command(config: Path, heap_mib: int, java_options: Sequence[str] = ()) -> list[str]:
    """The words that run a server of this configuration."""
    return [
        "java",
        f"-Xmx{heap_mib}m",
        *java_options,
        "-XX:TieredStopAtLevel=1",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        "-cp",
        _CLASS_PATH,
        "org.apache.zookeeper.server.quorum.QuorumPeerMain",
        str(config),
    ]


def free_port() -> int:
    """A port that nobody has at this moment."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


class ZooKeeperProcess:
    """One data directory; processes serve it one after the other, always on the same port."""

    def __init__(
        self,
        directory: Path,
        *,
        tick_time_ms: int = 200,
        settings: Mapping[str, str] | None = None,
        heap_mib: int = 256,
        java_options: Sequence[str] = (),
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.log_path = directory / "zookeeper.log"
        self._heap_mib = heap_mib
        self._java_options = java_options
        self._process: subprocess.Popen[bytes] | None = None
        facts = {
            "dataDir": str(directory / "data"),
            "clientPort": str(self.port),
            "clientPortAddress": HOST,
            "tickTime": str(tick_time_ms),
            "maxClientCnxns": "0",
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
            "extendedTypesEnabled": "true",
            **(settings or {}),
        }
        self._config = directory / "zoo.cfg"
        self._config.write_text("".join(f"{key}={value}\n" for key, value in facts.items()))

    @property
    def pid(self) -> int:
        """The id of the running process."""
        assert self._process is not None
        return self._process.pid

    @property
    def address(self) -> str:
        """Host and port, as `zookeeper.connect` takes it."""
        return f"{HOST}:{self.port}"

    def start(self) -> Self:
        """Returns when clients can connect."""
        with self.log_path.open("a") as log:
            self._process = subprocess.Popen(
                server_command(self._config, self._heap_mib, self._java_options),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        wait_until(self._is_serving, "ZooKeeper to serve", _START_SECONDS)
        return self

    def kill(self) -> None:
        """Send SIGKILL and wait for the end of the process."""
        process, self._process = self._process, None
        assert process is not None
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

    def _is_serving(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log_path.read_text()
        return "Mode: " in four_letter_word(self.port, "srvr")


def four_letter_word(port: int, word: str, host: str = HOST) -> str:
    """What a server answers to a word; empty when there is no server."""
    try:
        with socket.create_connection((host, port), timeout=5) as connection:
            connection.sendall(word.encode())
            received = bytearray()
            while chunk := connection.recv(65_536):
                received += chunk
    except OSError:
        return ""
    return received.decode()
