"""Orders to the supervisor of a running cluster, and waiting until they are carried out."""

import signal
import time
from typing import Any, Final

from cluster.datadir.lock_file import is_locked
from cluster.datadir.paths import DataDir
from cluster.datadir.supervisor_socket import ask_supervisor
from cluster.model.errors import UserError
from cluster.runtime.installation import shown

NAMED: Final = ("registry", "dashboard")
"""Processes that have no number."""
POLL_S: Final = 0.02
_RESTART_PATIENCE_S: Final = 90.0
"""Long enough for a controlled shutdown and a start; a recovery in progress may take longer."""


def describe(files: DataDir) -> dict[str, Any]:
    """The state of the cluster. Raises NotRunning."""
    return ask_supervisor(files.control_socket, {"command": "status"})


def send_signal(
    files: DataDir, process: int | str, number: signal.Signals, *, stay_down: bool = False
) -> dict[str, Any]:
    """Signal a broker, by its id, or one of `NAMED`. Returns its state. Raises UserError.

    A process that dies is started again, unless it is to stay down.
    """
    return ask_supervisor(
        files.control_socket,
        {"command": "kill", "id": process, "signal": int(number), "stay_down": stay_down},
    )


def request_stop(files: DataDir) -> dict[str, Any]:
    """Order a clean stop, which then goes on. Returns the state. Raises NotRunning."""
    return ask_supervisor(files.control_socket, {"command": "stop"})


def wait_until_stopped(files: DataDir, patience_s: float) -> None:
    """Return once no supervisor holds the data directory. Raises UserError if one still does."""
    deadline = time.monotonic() + patience_s
    while is_locked(files.lock_file):
        if time.monotonic() > deadline:
            raise UserError(
                f"the cluster in {shown(files.path)} has not stopped within {patience_s:g} s:"
                f" see {shown(files.log('supervisor'))}"
            )
        time.sleep(POLL_S)


def restart(files: DataDir, process: int | str) -> dict[str, Any]:
    """Stop a process cleanly if it runs, and start it. Returns its state once it serves.

    Raises UserError if it does not come back.
    """
    heard = time.monotonic()
    before = ask_supervisor(files.control_socket, {"command": "restart", "id": process})["pid"]
    while True:
        found = _process(describe(files), process)
        if found["state"] == "running" and found["pid"] != before:
            return found
        if found["state"] == "recovering":
            heard = time.monotonic()
        if found["state"] == "failed" or time.monotonic() - heard > _RESTART_PATIENCE_S:
            name = process if process in NAMED else f"broker-{process}"
            raise UserError(
                f"{label(process)} did not come back: see {shown(files.log(str(name)))}"
            )
        time.sleep(POLL_S)


def label(process: int | str) -> str:
    """`Broker 1` or `The registry`, at the beginning of a sentence."""
    return f"The {process}" if process in NAMED else f"Broker {process}"


def _process(state: dict[str, Any], wanted: int | str) -> dict[str, Any]:
    if wanted in NAMED:
        named: dict[str, Any] = state[f"{wanted}_process"]
        return named
    brokers: list[dict[str, Any]] = state["brokers"]
    return next(broker for broker in brokers if broker["id"] == wanted)
