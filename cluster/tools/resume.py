"""`resume`: lets paused processes run on (SIGCONT)."""

import argparse
import signal
import time
from typing import TYPE_CHECKING

from cluster.local.orders import label, send_signal
from cluster.tools.arguments import add_command, data_dir, running_state
from cluster.tools.pause import add_ids, chosen
from cluster.views.process_orders import resume_effect

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `resume` and its options to `subparsers`."""
    add_ids(add_command(subparsers, "resume", "resume 1", "resume --all"))


def run(args: argparse.Namespace) -> int:
    """Resume the processes and print how long they were paused. Returns the exit status."""
    files = data_dir(args)
    state = running_state(args)
    for wanted, process in chosen(args, state):
        if process["pid"] is None:
            print(f"{label(wanted)} is {process['state']}: there is no process to resume.")
            continue
        # Sent in any case: something else may have stopped the process.
        reply = send_signal(files, wanted, signal.SIGCONT)
        if process["state"] != "paused":
            print(f"{label(wanted)} (pid {reply['pid']}) was not paused.")
            continue
        now_ms = time.time_ns() // 1_000_000
        effect = resume_effect(wanted, process, state["events"], now_ms)
        print(f"{label(wanted)} (pid {reply['pid']}) is resumed. {effect}")
    return 0
