"""`transactions`: shows and ends transactions, as kafka-transactions does, and explains them."""

import argparse
import importlib
from typing import TYPE_CHECKING

from cluster.client.refusals import reason_of
from cluster.model.errors import Refused, UserError
from cluster.tools.arguments import add_command
from cluster.tools.kafka_connection import add_servers
from cluster.tools.missing_rights import right_hint
from cluster.tools.transactions.subcommands import TRANSACTION_COMMANDS

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `transactions` and its sub-commands to `subparsers`."""
    parser = add_command(
        subparsers,
        "transactions",
        "transactions list",
        "transactions describe --transactional-id payments-1",
        "transactions find-hanging --topic orders",
        "transactions abort --topic orders --partition 0 --start-offset 4711",
    )
    add_servers(parser)
    actions = parser.add_subparsers(
        title="sub-commands", metavar="SUB-COMMAND", dest="transaction_command", required=True
    )
    for command in TRANSACTION_COMMANDS.values():
        importlib.import_module(f"cluster.tools.{command.module}").add_parser(actions)


def run(args: argparse.Namespace) -> int:
    """Run the chosen sub-command. Returns the exit status; raises UserError."""
    module = importlib.import_module(f"cluster.tools.{args.transaction_module}")
    try:
        status: int = module.run(args)
    except Refused as refused:
        raise UserError(f"{reason_of(refused)}{right_hint(refused.code, args)}") from None
    return status
