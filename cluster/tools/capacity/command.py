"""`capacity`: growth, disks and other scenarios, from the rollup."""

import argparse
import importlib
from typing import TYPE_CHECKING

from cluster.tools.arguments import add_command
from cluster.tools.capacity.subcommands import CAPACITY_COMMANDS

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `capacity` and its sub-commands to `subparsers`."""
    parser = add_command(
        subparsers,
        "capacity",
        "capacity report --html capacity.html",
        "capacity what-if --growth 30% --brokers +1",
    )
    actions = parser.add_subparsers(
        title="sub-commands", metavar="SUB-COMMAND", dest="capacity_command", required=True
    )
    for command in CAPACITY_COMMANDS.values():
        importlib.import_module(f"cluster.tools.{command.module}").add_parser(actions)


def run(args: argparse.Namespace) -> int:
    """Run the chosen sub-command."""
    module = CAPACITY_COMMANDS[args.capacity_command].module
    status: int = importlib.import_module(f"cluster.tools.{module}").run(args)
    return status
