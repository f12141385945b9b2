"""Orders to the supervisor of a running cluster to have more or fewer brokers."""

import time
from collections.abc import Collection
from typing import Any, Final

from cluster.datadir.paths import DataDir
from cluster.datadir.supervisor_socket import ask_supervisor
from cluster.local.orders import POLL_S
from cluster.model.errors import UserError
from cluster.runtime.installation import shown

_JOIN_PATIENCE_S: Final = 60.0
"""Without news from the broker; one that recovers logs takes longer."""
_LEAVE_PATIENCE_S: Final = 60.0
"""More than the supervisor waits before it kills a broker that does not stop."""


def add_broker(
    files: DataDir, broker_id: int | None, rack: str | None, in_use: Collection[int]
) -> int:
    """Start one more broker; returns its id once it serves and all brokers know it.

    Without an id it gets one after those of the data directory and those `in_use`.
    Raises UserError if it cannot start; it is then forgotten.
    """
    request = {"command": "add-broker", "id": broker_id, "rack": rack, "in_use": list(in_use)}
    added: int = ask_supervisor(files.control_socket, request)["id"]
    heard = time.monotonic()
    while True:
        state = _state_of(files, added)
        if state is None:
            raise UserError(f"broker {added} was removed while it started")
        if state["state"] == "running" and state["is_known"]:
            return added
        if state["state"] == "recovering":
            heard = time.monotonic()
        if time.monotonic() - heard > _JOIN_PATIENCE_S:
            raise UserError(
                f"broker {added} is {state['state']} after {_JOIN_PATIENCE_S:g} s: see"
                f" {shown(files.log(f'broker-{added}'))}"
            )
        time.sleep(POLL_S)


def remove_broker(files: DataDir, broker_id: int) -> None:
    """Stop a broker and have the supervisor forget it; returns when that is done.

    Raises UserError.
    """
    ask_supervisor(files.control_socket, {"command": "remove-broker", "id": broker_id})
    deadline = time.monotonic() + _LEAVE_PATIENCE_S
    while _state_of(files, broker_id) is not None:
        if time.monotonic() > deadline:
            raise UserError(f"broker {broker_id} has not stopped within {_LEAVE_PATIENCE_S:g} s")
        time.sleep(POLL_S)


def _state_of(files: DataDir, broker_id: int) -> dict[str, Any] | None:
    request = {"command": "broker-state", "id": broker_id}
    state: dict[str, Any] | None = ask_supervisor(files.control_socket, request)["broker"]
    return state
