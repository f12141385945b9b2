"""`pause`: stops processes from running without ending them (SIGSTOP)."""

import argparse
import signal
from typing import TYPE_CHECKING, Any

from cluster.local.orders import NAMED, label, send_signal
from cluster.model.errors import UserError
from cluster.runtime.installation import launcher
from cluster.tools.arguments import UsageError, add_command, data_dir, running_state
from cluster.tools.kill import process_id
from cluster.views.process_orders import RESUME, command_line, pause_effect, process_of

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `pause` and its options to `subparsers`."""
    add_ids(add_command(subparsers, "pause", "pause 1", "pause 0 2", "pause registry"))


def add_ids(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name processes, or all brokers."""
    parser.add_argument(
        "ids",
        nargs="*",
        type=process_id,
        metavar="ID",
        help=f"brokers' numbers, {' or '.join(NAMED)}",
    )
    parser.add_argument("--all", action="store_true", help="all brokers")


def chosen(args: argparse.Namespace, state: dict[str, Any]) -> list[tuple[int | str, Any]]:
    """The processes that the arguments name, and their state. Raises UserError."""
    if args.all == bool(args.ids):
        raise UsageError("name the processes, or --all for every broker")
    ids = [each["id"] for each in state["brokers"]] if args.all else list(dict.fromkeys(args.ids))
    found = [(each, process_of(state, each)) for each in ids]
    for wanted, process in found:
        if process is None:
            names = [str(each["id"]) for each in state["brokers"]]
            names += [name for name in NAMED if process_of(state, name) is not None]
            raise UserError(f"{label(wanted)} does not exist: choose one of {', '.join(names)}")
    return found


def run(args: argparse.Namespace) -> int:
    """Pause the processes and print what will happen. Returns the exit status."""
    files = data_dir(args)
    command = launcher(files.path)
    for wanted, process in chosen(args, running_state(args)):
        if process["state"] == "paused":
            print(f"{label(wanted)} is paused already.")
            continue
        reply = send_signal(files, wanted, signal.SIGSTOP)
        print(f"{label(wanted)} (pid {reply['pid']}) is paused. {pause_effect(wanted, process)}")
        print(f"  Resume it with `{command_line(command, wanted, RESUME)}`.")
    return 0
