"""`restart`: stops one broker cleanly, also a paused one, and starts it at once."""

import argparse
import time
from typing import TYPE_CHECKING, Any, Final

from cluster.datadir.paths import DataDir
from cluster.datadir.supervisor_socket import ask_supervisor
from cluster.model.errors import UserError
from cluster.runtime.installation import shown
from cluster.tools.arguments import add_command, data_dir, running_state
from cluster.tools.kill import NAMED, add_id, label

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers

_POLL_S: Final = 0.02
_PATIENCE_S: Final = 90.0
"""Long enough for a controlled shutdown and a start; a recovery that is under way may take longer.
"""


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `restart` and its options to `subparsers`."""
    add_id(add_command(subparsers, "restart", "restart 1"))


def run(args: argparse.Namespace) -> int:
    """Restart the process and wait until the new one is ready. Returns the exit status."""
    files = data_dir(args)
    began = heard = time.monotonic()
    before = ask_supervisor(files.control_socket, {"command": "restart", "id": args.id})["pid"]
    while True:
        process = _process(running_state(args), args.id)
        if process["state"] == "running" and process["pid"] != before:
            break
        if process["state"] == "recovering":
            heard = time.monotonic()
        if process["state"] == "failed" or time.monotonic() - heard > _PATIENCE_S:
            raise UserError(f"{label(args.id)} did not come back: {_where(files, args.id)}")
        time.sleep(_POLL_S)
    seconds = time.monotonic() - began
    print(f"{label(args.id)} runs again as pid {process['pid']}, after {seconds:.1f} s")
    return 0


def _process(state: dict[str, Any], wanted: int | str) -> dict[str, Any]:
    if wanted in NAMED:
        named: dict[str, Any] = state[f"{wanted}_process"]
        return named
    brokers: list[dict[str, Any]] = state["brokers"]
    return next(broker for broker in brokers if broker["id"] == wanted)


def _where(files: DataDir, wanted: int | str) -> str:
    name = wanted if wanted in NAMED else f"broker-{wanted}"
    return f"see {shown(files.log(str(name)))}"
