"""A whole cluster as people run it: started, killed and stopped through its command line.

The ports are chosen once per cluster and kept over restarts, so that clients live through them.
They lie below the range that the kernel takes for outgoing connections: in it, a client that tries
again and again to reach a dead broker may be given that very port as its own.
"""

import contextlib
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import SystemRandom
from typing import IO, Any, Self

import psutil

from cluster.datadir.paths import DataDir
from cluster.datadir.supervisor_socket import NotRunning, ask_supervisor
from tests.support.waiting import wait_until

Address = tuple[str, int]

HOST = "127.0.0.1"
_ROOT = Path(__file__).parents[2]
_PORTS = range(15_000, 32_000)
_COMMAND_TIMEOUT_S = 60.0
_DEFAULT_OVERRIDES = {
    # Tests make many small partitions: 16 MiB each on every broker would fill the disk.
    "milena.log.preallocate.step.bytes": "262144",
}


class CommandFailed(AssertionError):
    """A command of the launcher ended with another exit status than 0; says what it wrote."""


class Cluster:
    """One data directory and what runs on it; a context manager that stops it."""

    def __init__(
        self,
        data_dir: Path,
        *,
        brokers: int = 3,
        overrides: Mapping[str, str] | None = None,
        installed: Path | None = None,
        secure: bool = False,
        registry_host: str | None = None,
        dashboard: bool = False,
    ) -> None:
        """`installed` is a `milena` command to use instead of this checkout. `secure` and
        `registry_host`: see these options of `start`. `dashboard`: whether it has
        one, which most tests do not use.
        """
        self.data_dir = data_dir
        self._installed = installed
        self.size = brokers
        self._files = DataDir(data_dir)
        self._overrides = {**_DEFAULT_OVERRIDES, **(overrides or {})}
        self._port = free_ports(brokers + 2)
        self._secure = secure
        self._registry_host = registry_host
        self._dashboard = dashboard

    # -- life ------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start it, also after a stop or a crash; returns when it is ready."""
        self.command("start", "--detach", *self.start_options)
        return self

    def start_in_foreground(self, output: IO[bytes]) -> subprocess.Popen[bytes]:
        """Begin to start it; what it says goes to a file."""
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "cluster", "start", *self.start_options),
                *("--data-dir", str(self.data_dir)),
            ],
            cwd=_ROOT,
            env={**os.environ, "PYTHONPATH": str(_ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )

    @property
    def start_options(self) -> list[str]:
        """The options of `start` that make this cluster."""
        return [
            f"--brokers={self.size}",
            f"--port={self._port}",
            f"--registry-port={self.registry_port}",
            *(["--secure"] if self._secure else []),
            *([f"--registry-host={self._registry_host}"] if self._registry_host else []),
            f"--dashboard-port={self.dashboard_port}" if self._dashboard else "--no-dashboard",
            *(f"--override={key}={value}" for key, value in self._overrides.items()),
        ]

    def stop(self) -> None:
        """Stop it cleanly; the data stay."""
        self.command("stop")

    def kill_everything(self) -> None:
        """SIGKILL to the supervisor, the registry and every broker, and wait until all are gone."""
        # The supervisor comes first: it would start the others again.
        processes = [psutil.Process(pid) for pid in self.processes().values()]
        for process in processes:
            process.kill()
        wait_until(lambda: not any(map(_is_alive, processes)), "every process to be gone")

    def close(self) -> None:
        """Stop all processes and remove the data, but keep the logs for debugging."""
        try:
            self.stop()
        except (CommandFailed, subprocess.TimeoutExpired):
            with contextlib.suppress(NotRunning):
                self.kill_everything()
        for path in [self.data_dir / "registry", *map(self.log_dir, range(self.size))]:
            shutil.rmtree(path, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- brokers ---------------------------------------------------------------------------------

    def kill(
        self, broker: int | str, signal_name: str = "KILL", *, stay_down: bool = False
    ) -> None:
        """Send a signal to one broker, or to the `registry`."""
        stay = ["--stay-down"] if stay_down else []
        self.command("kill", str(broker), "--signal", signal_name, *stay)

    def kill_now(self, broker: int, number: signal.Signals = signal.SIGKILL) -> None:
        """Signal one broker, which stays down: by the same order, without a command's start."""
        ask_supervisor(
            self._files.control_socket,
            {"command": "kill", "id": broker, "signal": number, "stay_down": True},
        )

    def restart(self, broker: int) -> None:
        """Stop one broker cleanly if it runs, and start it; returns when it serves."""
        self.command("restart", str(broker))

    def pid(self, broker: int) -> int | None:
        """The broker's process, if it has one."""
        pid: int | None = self.state()["brokers"][broker]["pid"]
        return pid

    # -- facts -----------------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers, for clients' `bootstrap.servers`."""
        return ",".join(f"{host}:{port}" for host, port in self.addresses)

    @property
    def addresses(self) -> list[Address]:
        """Where each broker listens, by its id."""
        return [(HOST, self._port + broker) for broker in range(self.size)]

    @property
    def registry_port(self) -> int:
        """Where the registry listens."""
        return self._port + self.size

    @property
    def dashboard_port(self) -> int:
        """Where the dashboard listens, if there is one."""
        return self.registry_port + 1

    def state(self) -> dict[str, Any]:
        """What the supervisor says, without the controller."""
        return ask_supervisor(self._files.control_socket, {"command": "status"})

    def status(self) -> dict[str, Any]:
        """`status --json`."""
        state: dict[str, Any] = json.loads(self.command("status", "--json").stdout)
        return state

    def log_dir(self, broker: int) -> Path:
        """Where a broker's partitions are."""
        return self._files.broker(broker)

    def processes(self) -> dict[str, int]:
        """Process id of the supervisor and of every child that runs, by name."""
        state = self.state()
        found = {"supervisor": state["supervisor_pid"]}
        found["registry"] = state["registry_process"]["pid"]
        if state["dashboard_process"] is not None:
            found["dashboard"] = state["dashboard_process"]["pid"]
        found |= {f"broker-{broker['id']}": broker["pid"] for broker in state["brokers"]}
        return {name: pid for name, pid in found.items() if pid is not None}

    def log_path(self, name: str) -> Path:
        """The log of a process of that name."""
        return self._files.log(name)

    def log_text(self, name: str) -> str:
        """What a process (`broker-0`, `registry`, `supervisor`) has logged so far."""
        path = self.log_path(name)
        return path.read_text() if path.exists() else ""

    def log_lines(self, broker: int, part: str) -> list[str]:
        """The lines of a broker's log that contain a text; one that is being written is none."""
        whole_lines = self.log_text(f"broker-{broker}").split("\n")[:-1]
        return [line for line in whole_lines if part in line]

    def log_tails(self, lines: int = 40) -> Iterable[tuple[str, str]]:
        """Name and end of every log."""
        for path in sorted(self._files.logs.glob("*.log")):
            yield path.name, "\n".join(path.read_text().splitlines()[-lines:])

    def command(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run one command of the launcher on this cluster. Raises CommandFailed."""
        ours = [sys.executable, "-m", "cluster"]
        environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
        if self._installed:
            del environment["PYTHONPATH"]
        done = subprocess.run(
            [
                *([self._installed] if self._installed else ours),
                *arguments,
                "--data-dir",
                str(self.data_dir),
            ],
            cwd=self.data_dir.parent if self._installed else _ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_COMMAND_TIMEOUT_S,
            check=False,
        )
        if check and done.returncode != 0:
            raise CommandFailed(f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def free_ports(count: int) -> int:
    """The first of `count` consecutive ports that are free at this moment."""
    dice = SystemRandom()
    for _ in range(100):
        first = dice.choice(_PORTS[: -count or None])
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            for port in itertools.islice(itertools.count(first), count):
                probe = held.enter_context(socket.socket())
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((HOST, port))
                probe.listen(1)
            return first
    raise AssertionError(f"no {count} free ports in a row in {_PORTS}")
