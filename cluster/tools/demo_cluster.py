"""A cluster that belongs to one run of `demo`: started, and gone at the end whatever happened."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from cluster.model.errors import UserError
from cluster.runtime.installation import shown
from cluster.supervisor.control_socket import NotRunning, ask_supervisor
from cluster.supervisor.lock_file import is_locked
from cluster.supervisor.plan import DataDir
from cluster.supervisor.ports import WantedPort, choose_ports

BROKERS: Final = 3
DEFAULT_PORT: Final = 9092
DEFAULT_REGISTRY_PORT: Final = 2181
_HOST: Final = "127.0.0.1"
_START_TIMEOUT_S: Final = 60.0
_STOP_TIMEOUT_S: Final = 30.0
_POLL_S: Final = 0.05


def own_directory(chosen: Path | None) -> DataDir:
    """An empty directory for the demo alone. Raises UserError for one that holds something."""
    if chosen is None:
        return DataDir(Path(tempfile.mkdtemp(prefix="milena-demo-")))
    path = chosen.absolute()
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UserError(f"{shown(path)} is not empty: the demo wants a --data-dir of its own")
    return DataDir(path)


def start_cluster(files: DataDir, port: int | None) -> dict[str, Any]:
    """Start three brokers on these ports, or else on free ones; what the supervisor says.

    Raises UserError with the reason why it cannot.
    """
    first, registry = _ports(port)
    command = [
        *(sys.executable, "-P", "-m", "cluster", "--data-dir", str(files.path)),
        *("start", "--detach", "--brokers", str(BROKERS)),
        *("--port", str(first), "--registry-port", str(registry)),
    ]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": _python_path()},
        start_new_session=True,  # Ctrl-C is ours: we stop what has started
    )
    try:
        out, err = process.communicate(timeout=_START_TIMEOUT_S)
    except KeyboardInterrupt:
        with uninterrupted():  # what it has begun can be stopped only once it is there
            process.communicate(timeout=_START_TIMEOUT_S)
        raise
    if process.returncode != 0:
        reasons = (err or out).strip().splitlines()
        reason = reasons[-1] if reasons else f"status {process.returncode}"
        raise UserError(f"the cluster did not start: {reason.removeprefix('error: ')}")
    return ask_supervisor(files.control_socket, {"command": "status"})


def remove_cluster(files: DataDir) -> None:
    """Stop it and remove its directory, which `own_directory` has chosen. Raises UserError."""
    with uninterrupted():
        deadline = time.monotonic() + _STOP_TIMEOUT_S
        while is_locked(files.lock_file):
            with suppress(NotRunning):  # its socket comes later than its lock
                ask_supervisor(files.control_socket, {"command": "stop"})
            if time.monotonic() > deadline:
                raise UserError(
                    f"the cluster in {shown(files.path)} has not stopped within"
                    f" {_STOP_TIMEOUT_S:g} s: see {shown(files.log('supervisor'))}"
                )
            time.sleep(_POLL_S)
        shutil.rmtree(files.path, ignore_errors=True)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C waits until this is over: it is short, and what it does must be done."""
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ports(port: int | None) -> tuple[int, int]:
    first = DEFAULT_PORT if port is None else port
    return (
        first if port is not None or _are_free(first, BROKERS) else 0,
        DEFAULT_REGISTRY_PORT if _are_free(DEFAULT_REGISTRY_PORT, 1) else 0,
    )


def _are_free(first: int, count: int) -> bool:
    try:
        choose_ports(WantedPort("", _HOST, first + number, "") for number in range(count))
    except UserError:
        return False
    return True


def _python_path() -> str:
    root = str(Path(__file__).parents[2])
    inherited = os.environ.get("PYTHONPATH")
    return f"{root}:{inherited}" if inherited else root
