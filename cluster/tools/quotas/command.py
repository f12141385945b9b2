"""`quotas`: sets and lists client quotas, and shows their use and why clients are throttled."""

import argparse
import importlib
from typing import TYPE_CHECKING

from cluster.tools.arguments import add_command
from cluster.tools.quotas.subcommands import QUOTA_COMMANDS

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `quotas` and its sub-commands to `subparsers`."""
    parser = add_command(
        subparsers,
        "quotas",
        "quotas set --client-id loader-1 --producer-byte-rate 1MiB",
        "quotas explain --client-id loader-1",
        "quotas watch",
    )
    actions = parser.add_subparsers(
        title="sub-commands", metavar="SUB-COMMAND", dest="quota_command", required=True
    )
    for command in QUOTA_COMMANDS.values():
        importlib.import_module(f"cluster.tools.{command.module}").add_parser(actions)


def run(args: argparse.Namespace) -> int:
    """Run the chosen sub-command."""
    module = QUOTA_COMMANDS[args.quota_command].module
    status: int = importlib.import_module(f"cluster.tools.{module}").run(args)
    return status
