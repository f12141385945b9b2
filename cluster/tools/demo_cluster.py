"""The cluster of one run of a command: started for it, and removed at the end in any case."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from cluster.datadir.lock_file import is_locked
from cluster.datadir.paths import DataDir
from cluster.datadir.supervisor_socket import ask_supervisor
from cluster.model.addresses import BROKER_PORT, LOOPBACK, REGISTRY_PORT
from cluster.model.errors import UserError
from cluster.runtime.installation import DATA_DIR_VARIABLE, chosen_data_dir, shown
from cluster.runtime.interrupts import deferred_interrupt, handled_by
from cluster.runtime.ports import WantedPort, choose_ports

BROKERS: Final = 3
_START_TIMEOUT_S: Final = 60.0
_STOP_TIMEOUT_S: Final = 30.0
_POLL_S: Final = 0.05


def own_directory(chosen: Path | None, command: str = "demo") -> DataDir:
    """The directory `chosen`, else a new temporary one. Raises UserError unless it is empty."""
    if chosen is None:
        return DataDir(Path(tempfile.mkdtemp(prefix=f"milena-{command}-")))
    path = chosen.absolute()
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        by_variable = f" (${DATA_DIR_VARIABLE})" if path == chosen_data_dir() else ""
        raise UserError(
            f"{shown(path)}{by_variable} is not empty: {command} wants a --data-dir of its own"
        )
    return DataDir(path)


def start_cluster(files: DataDir, port: int | None, *, secure: bool = False) -> dict[str, Any]:
    """Start three brokers and return the supervisor's `status`.

    They listen on consecutive ports from `port` on; with None on the default ports if these are
    free, else on any free ports. `secure`: see `start --secure`. Raises UserError with the reason
    of a failure.
    """
    with deferred_interrupt():  # a start can be undone only when it is over
        done = _start(files, *wanted_ports(port), secure=secure)
        if done.returncode != 0 and "already in use" in done.stderr:  # taken since the check
            done = _start(files, port or 0, 0, secure=secure)
    return _state(files, done)


def start_one_broker(
    files: DataDir, overrides: Sequence[str], *, secure: bool = False
) -> dict[str, Any]:
    """As `start_cluster`, but one broker on free ports, with such settings (`key=value`)."""
    with deferred_interrupt():
        done = _start(files, 0, 0, 1, overrides, secure=secure)
    return _state(files, done)


def _state(files: DataDir, done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    if done.returncode != 0:
        reasons = (done.stderr or done.stdout).strip().splitlines()
        reason = reasons[-1] if reasons else f"status {done.returncode}"
        raise UserError(f"the cluster did not start: {reason.removeprefix('error: ')}")
    return ask_supervisor(files.control_socket, {"command": "status"})


def _start(
    files: DataDir,
    port: int,
    registry_port: int,
    brokers: int = BROKERS,
    overrides: Sequence[str] = (),
    *,
    secure: bool = False,
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(sys.executable, "-P", "-m", "cluster", "--data-dir", str(files.path)),
            *("start", "--detach", "--brokers", str(brokers)),
            *("--port", str(port), "--registry-port", str(registry_port)),
            *(["--secure"] if secure else []),
            *(f"--override={override}" for override in overrides),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_START_TIMEOUT_S,
        env={**os.environ, "PYTHONPATH": _python_path()},
        start_new_session=True,
    )


def remove_cluster(files: DataDir) -> None:
    """Stop the cluster and remove its directory, chosen by `own_directory`. Raises UserError."""
    with handled_by(signal.SIG_IGN):  # cleaning up is short and must not be interrupted
        deadline = time.monotonic() + _STOP_TIMEOUT_S
        while is_locked(files.lock_file):
            with suppress(UserError):  # the supervisor may be starting or busy: try again
                ask_supervisor(files.control_socket, {"command": "stop"})
            if time.monotonic() > deadline:
                raise UserError(
                    f"the cluster in {shown(files.path)} has not stopped within"
                    f" {_STOP_TIMEOUT_S:g} s: see {shown(files.log('supervisor'))}"
                )
            time.sleep(_POLL_S)
        shutil.rmtree(files.path, ignore_errors=True)


def wanted_ports(port: int | None) -> tuple[int, int]:
    first = BROKER_PORT if port is None else port
    return (
        first if port is not None or _are_free(first, BROKERS) else 0,
        REGISTRY_PORT if _are_free(REGISTRY_PORT, 1) else 0,
    )


def _are_free(first: int, count: int) -> bool:
    try:
        choose_ports(WantedPort("", LOOPBACK, first + number, "") for number in range(count))
    except UserError:
        return False
    return True


def _python_path() -> str:
    root = str(Path(__file__).parents[2])
    inherited = os.environ.get("PYTHONPATH")
    return f"{root}:{inherited}" if inherited else root
