"""The sub-commands of `transactions`, in the order of its help: one row and one module each."""

from typing import TYPE_CHECKING, Final

from cluster.tools.arguments import add_parser_of
from cluster.tools.commands import Command
from cluster.tools.kafka_connection import add_servers

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers
    from cluster.tools.command_parser import CommandParser

TRANSACTION_COMMANDS: Final = {
    command.name: command
    for command in (
        Command("list", "transactions.list", "print the transactional ids and their states"),
        Command("describe", "transactions.describe", "show the transaction of one id"),
        Command(
            "describe-producers",
            "transactions.describe_producers",
            "show the producers that a partition remembers",
        ),
        Command(
            "explain",
            "transactions.explain",
            "say what becomes of transactions, and what read_committed consumers wait for",
        ),
        Command(
            "find-hanging",
            "transactions.find_hanging",
            "find transactions that their coordinator does not know, which only `abort` ends",
        ),
        Command(
            "abort", "transactions.abort", "end a hanging transaction in one partition by an abort"
        ),
        Command(
            "force-terminate",
            "transactions.force_terminate",
            "abort the open transaction of an id, and fence its producer",
        ),
    )
}
"""`module` is one below `tools/`, with `add_parser(subparsers)` and `run(args) -> int`."""
ALIASES: Final = {"force-terminate": ("forceTerminateTransaction", "forceTerminate")}
"""Names of Kafka's tool."""


def add_subcommand(subparsers: "Subparsers", name: str, *examples: str) -> "CommandParser":
    """A sub-command's parser with the options of a connection and `--json`."""
    command = TRANSACTION_COMMANDS[name]
    parser = add_parser_of(subparsers, command, *examples, aliases=ALIASES.get(name, ()))
    parser.set_defaults(transaction_module=command.module)
    add_servers(parser, is_nested=True)
    return parser
