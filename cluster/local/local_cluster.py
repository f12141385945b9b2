"""A cluster on this machine that a program starts, disturbs and stops."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Self

import psutil

from cluster.datadir.lock_file import is_locked
from cluster.datadir.paths import DataDir
from cluster.launch.broker_ids import parse_broker_ids
from cluster.launch.options import DEFAULT_BROKERS, StartOptions
from cluster.local import orders
from cluster.model.addresses import BROKER_PORT, LOOPBACK, REGISTRY_PORT
from cluster.model.errors import UserError
from cluster.runtime.interrupts import deferred_interrupt
from cluster.runtime.ports import free_ports

Address = tuple[str, int]

_ROOT: Final = Path(__file__).parents[2]
_COMMAND_TIMEOUT_S: Final = 240.0
"""A rollup that starts Spark takes more than a minute on a slow machine."""
_STOP_PATIENCE_S: Final = 60.0
_CLOSE_PATIENCE_S: Final = 30.0
_TAIL_LINES: Final = 40
_FAILED: Final = "Cannot start: "


class CommandFailed(UserError):
    """A command of the cluster failed; the text has its arguments, exit status and output."""

    def __init__(self, done: subprocess.CompletedProcess[str], arguments: Sequence[str]) -> None:
        super().__init__(f"{tuple(arguments)}: {done.returncode}\n{done.stdout}{done.stderr}")
        lines = (done.stderr or done.stdout).strip().splitlines()
        # A failed start is followed by the end of a log.
        failed = [line.removeprefix(_FAILED) for line in lines if line.startswith(_FAILED)]
        self.reason = [*lines, *failed][-1].removeprefix("error: ") if lines else ""
        """Why a start failed, else the last line that the command wrote."""


class LocalCluster:
    """A data directory and the cluster that runs on it; a context manager starts and closes it.

    Processes run as from the command line: killing this program does not stop them. For a port of
    0 in the options a free one is chosen here, once, so that clients reconnect after a restart.
    """

    def __init__(
        self,
        options: StartOptions,
        *,
        program: Path | None = None,
        keeps_logs: bool = False,
    ) -> None:
        """`program` is an installed `milena` to run instead of this code. `keeps_logs`: `close`
        removes the data, but leaves the logs.
        """
        self._ids = tuple(range(options.brokers or DEFAULT_BROKERS))
        if options.broker_ids is not None:
            self._ids = parse_broker_ids(options.broker_ids)
        size = len(self._ids)
        first = free_ports(size + 2)
        self.options: Final = replace(
            options,
            detach=True,
            brokers=size,
            port=first if options.port == 0 else options.port,
            registry_port=first + size if options.registry_port == 0 else options.registry_port,
            dashboard_port=first + size + 1
            if options.dashboard_port == 0
            else options.dashboard_port,
        )
        self._files = DataDir(options.data_dir)
        self._program = program
        self._keeps_logs = keeps_logs

    # -- life ------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start it, also after `stop` or a crash; returns when it is ready. Raises CommandFailed.

        Ctrl-C takes effect once the start is over, because only then can it be undone.
        """
        with deferred_interrupt():
            self.command("start", *self.options.arguments())
        return self

    def stop(self) -> None:
        """Stop it cleanly and keep the data. Raises UserError, and NotRunning if it is down."""
        orders.request_stop(self._files)
        orders.wait_until_stopped(self._files, _STOP_PATIENCE_S)

    def end(self) -> None:
        """Stop whatever runs, by force if it does not end by itself, and keep the data."""
        deadline = time.monotonic() + _CLOSE_PATIENCE_S
        while is_locked(self._files.lock_file):
            with suppress(UserError):  # the supervisor may be starting or busy: try again
                orders.request_stop(self._files)
            if time.monotonic() > deadline:
                self.kill_everything()
                break
            time.sleep(orders.POLL_S)

    def close(self) -> None:
        """Stop whatever runs, as `end` does, and remove the data."""
        self.end()
        if not self._keeps_logs:
            shutil.rmtree(self._files.path, ignore_errors=True)
            return
        for path in [self._files.path / "registry", *map(self.log_dir, self._ids)]:
            shutil.rmtree(path, ignore_errors=True)

    def kill_everything(self) -> None:
        """SIGKILL to supervisor, registry and brokers; returns when all are gone."""
        # The supervisor comes first: it would start the others again.
        processes = [psutil.Process(pid) for pid in self.processes().values()]
        for process in processes:
            process.kill()
        while any(map(_is_alive, processes)):
            time.sleep(orders.POLL_S)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- processes -------------------------------------------------------------------------------

    def kill(
        self, process: int | str, signal_name: str = "KILL", *, stay_down: bool = False
    ) -> None:
        """Send a signal to a broker, by its id, or to the `registry` or `dashboard`.

        The supervisor starts what dies again, unless it is to stay down. Raises UserError.
        """
        number = signal.Signals[f"SIG{signal_name}"]
        orders.send_signal(self._files, process, number, stay_down=stay_down)

    def pause(self, process: int | str) -> None:
        """Stop a process from running without ending it (SIGSTOP). Raises UserError."""
        self.kill(process, "STOP")

    def resume(self, process: int | str) -> None:
        """Let a paused process run on (SIGCONT). Raises UserError."""
        self.kill(process, "CONT")

    def restart(self, process: int | str) -> None:
        """Stop one process cleanly if it runs, and start it; returns when it serves.

        Raises UserError if it does not come back.
        """
        orders.restart(self._files, process)

    def processes(self) -> dict[str, int]:
        """The process id of the supervisor and of every child that runs, by name."""
        state = self.state()
        found = {"supervisor": state["supervisor_pid"]}
        for name in orders.NAMED:
            if state[f"{name}_process"] is not None:
                found[name] = state[f"{name}_process"]["pid"]
        found |= {f"broker-{broker['id']}": broker["pid"] for broker in state["brokers"]}
        return {name: pid for name, pid in found.items() if pid is not None}

    # -- facts -----------------------------------------------------------------------------------

    @property
    def data_dir(self) -> Path:
        return self._files.path

    @property
    def size(self) -> int:
        """The number of brokers."""
        return len(self._ids)

    @property
    def addresses(self) -> list[Address]:
        """Where each broker listens, in the order of their ids."""
        host, first = self.options.host or LOOPBACK, self.options.port or BROKER_PORT
        return [(host, first + broker) for broker in range(self.size)]

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers, for clients' `bootstrap.servers`."""
        return ",".join(f"{host}:{port}" for host, port in self.addresses)

    @property
    def registry_port(self) -> int:
        port = self.options.registry_port
        return REGISTRY_PORT if port is None else port

    @property
    def dashboard_port(self) -> int | None:
        """None: the default one, or any free one where that is taken."""
        return self.options.dashboard_port

    def state(self) -> dict[str, Any]:
        """The supervisor's answer to `status`. Raises NotRunning."""
        return orders.describe(self._files)

    def log_dir(self, broker: int) -> Path:
        """The directory with a broker's partitions."""
        return self._files.broker(broker)

    def log_path(self, name: str) -> Path:
        """The log of a process: `broker-0`, `registry`, `dashboard` or `supervisor`."""
        return self._files.log(name)

    def log_tails(self) -> Iterator[tuple[str, str]]:
        """Name and end of every log, to show why something failed."""
        for path in sorted(self._files.logs.glob("*.log")):
            yield path.name, "\n".join(path.read_text().splitlines()[-_TAIL_LINES:])

    def command(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run one command of the command line on this cluster. Raises CommandFailed."""
        done = subprocess.run(
            self.command_line(*arguments),
            cwd=None if self._program is None else self._files.path.parent,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_COMMAND_TIMEOUT_S,
            check=False,
            pass_fds=() if self.options.lifeline is None else (self.options.lifeline,),
            start_new_session=True,  # Ctrl-C is for this program
        )
        if check and done.returncode != 0:
            raise CommandFailed(done, arguments)
        return done

    def command_line(self, *arguments: str) -> list[str]:
        """The words that run a command on this cluster, in this `environment`."""
        program = [sys.executable, "-P", "-m", "cluster"]
        if self._program is not None:
            program = [str(self._program)]
        return [*program, *arguments, "--data-dir", str(self._files.path)]

    def environment(self) -> dict[str, str]:
        inherited = os.environ.get("PYTHONPATH")
        if self._program is not None:
            return {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
        path = f"{_ROOT}:{inherited}" if inherited else str(_ROOT)
        return {**os.environ, "PYTHONPATH": path}


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
