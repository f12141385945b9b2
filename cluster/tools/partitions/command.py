"""`partitions`: elects leaders, and moves partitions to other brokers."""

import argparse
import importlib
from typing import TYPE_CHECKING

from cluster.client.refusals import reason_of
from cluster.model.errors import Refused, UserError
from cluster.tools.arguments import add_command
from cluster.tools.missing_rights import right_hint
from cluster.tools.partitions.subcommands import PARTITION_COMMANDS

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `partitions` and its sub-commands to `subparsers`."""
    parser = add_command(
        subparsers,
        "partitions",
        "partitions elect-leaders --election-type preferred --all-topic-partitions",
        "partitions balance --execute",
        "partitions reassign --execute --reassignment-json-file plan.json --throttle 50000000",
    )
    actions = parser.add_subparsers(
        title="sub-commands", metavar="SUB-COMMAND", dest="partitions_command", required=True
    )
    for command in PARTITION_COMMANDS.values():
        importlib.import_module(f"cluster.tools.{command.module}").add_parser(actions)


def run(args: argparse.Namespace) -> int:
    """Run the chosen sub-command. Returns the exit status; raises UserError."""
    module = importlib.import_module(f"cluster.tools.{args.partition_module}")
    try:
        status: int = module.run(args)
    except Refused as refused:
        raise UserError(f"{reason_of(refused)}{right_hint(refused.code, args)}") from None
    return status
