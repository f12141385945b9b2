"""`kill`: sends a signal to one process of the cluster, to try out failures."""

import argparse
import signal
from typing import TYPE_CHECKING, Any

from cluster.local.orders import NAMED, label, send_signal
from cluster.runtime.installation import launcher
from cluster.tools.arguments import UsageError, add_command, data_dir
from cluster.views.process_orders import RESUME, command_line

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `kill` and its options to `subparsers`."""
    parser = add_command(
        subparsers,
        "kill",
        "kill 1",
        "kill 1 --stay-down",
        "kill 2 --signal TERM",
    )
    add_id(parser)
    parser.add_argument(
        "--signal",
        type=_signal,
        default=signal.SIGKILL,
        metavar="NAME",
        help="KILL (default), TERM for a controlled shutdown, ...; STOP and CONT are what `pause`"
        " and `resume` send",
    )
    parser.add_argument(
        "--stay-down", action="store_true", help="do not start it again before `restart`"
    )


def add_id(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names the process: a broker id, or one of `NAMED`."""
    parser.add_argument(
        "id", type=process_id, metavar="ID", help=f"a broker's number, or {' or '.join(NAMED)}"
    )


def run(args: argparse.Namespace) -> int:
    """Send the signal and print what will happen next. Returns the exit status."""
    number: signal.Signals = args.signal
    if args.stay_down and number in (signal.SIGSTOP, signal.SIGCONT):
        raise UsageError(f"--stay-down does not go with --signal {number.name[3:]}")
    reply = send_signal(data_dir(args), args.id, number, stay_down=args.stay_down)
    name = label(args.id)
    if reply["pid"] is None:
        print(f"{name} has no process.", end=" ")
    else:
        print(f"{name} (pid {reply['pid']}) was sent {number.name}.", end=" ")
    command = launcher(data_dir(args).path)
    print(_what_next(args.id, number, reply, command, stay_down=args.stay_down))
    return 0


def _what_next(
    wanted: int | str,
    number: signal.Signals,
    reply: dict[str, Any],
    command: str,
    *,
    stay_down: bool,
) -> str:
    if stay_down:
        return f"It stays down until `{command} restart {wanted}`."
    if number == signal.SIGSTOP:
        return (
            "It is paused: the others notice when its session times out."
            f" Resume it with `{command_line(command, wanted, RESUME)}`."
        )
    if number == signal.SIGCONT:
        return f"It is {reply['state']}."
    if number == signal.SIGTERM:
        return "It shuts down cleanly; then the supervisor starts it again after 1 s."
    if number == signal.SIGKILL:
        return "The supervisor starts it again after 1 s."
    return "If it dies, the supervisor starts it again after 1 s."


def process_id(text: str) -> int | str:
    """The argument that names a process. Raises ArgumentTypeError."""
    if text not in NAMED and not text.isdecimal():
        raise argparse.ArgumentTypeError(
            f"must be a broker's number, `registry` or `dashboard`, not {text}"
        )
    return text if text in NAMED else int(text)


def _signal(text: str) -> signal.Signals:
    name = text.upper()
    try:
        if text.isdecimal():
            return signal.Signals(int(text))
        return signal.Signals[name if name.startswith("SIG") else f"SIG{name}"]
    except (KeyError, ValueError):
        raise argparse.ArgumentTypeError(f"there is no signal {text}") from None
