"""`restart`: stops one process cleanly, also a paused one, and starts it at once."""

import argparse
import time
from typing import TYPE_CHECKING

from cluster.local import orders
from cluster.tools.arguments import add_command, data_dir
from cluster.tools.kill import add_id

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `restart` and its options to `subparsers`."""
    add_id(add_command(subparsers, "restart", "restart 1"))


def run(args: argparse.Namespace) -> int:
    """Restart the process and wait until the new one is ready. Returns the exit status."""
    began = time.monotonic()
    process = orders.restart(data_dir(args), args.id)
    seconds = time.monotonic() - began
    print(f"{orders.label(args.id)} runs again as pid {process['pid']}, after {seconds:.1f} s")
    return 0
