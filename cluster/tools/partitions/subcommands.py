"""The sub-commands of `partitions`, in the order of its help: one row and one module each."""

from typing import TYPE_CHECKING, Final

from cluster.tools.arguments import add_parser_of
from cluster.tools.commands import Command
from cluster.tools.kafka_connection import add_servers

if TYPE_CHECKING:
    import argparse

    from cluster.tools.arguments import Subparsers

PARTITION_COMMANDS: Final = {
    command.name: command
    for command in (
        Command(
            "elect-leaders",
            "partitions.elect_leaders",
            "have preferred replicas lead, or any where none in sync is left",
        ),
        Command(
            "reassign",
            "partitions.reassign",
            "move partitions to other brokers or log directories, as a file says",
        ),
        Command(
            "balance",
            "partitions.balance",
            "spread leaders, replicas and bytes evenly over the live brokers",
        ),
    )
}
"""`module` is one below `tools/`, with `add_parser(subparsers)` and `run(args) -> int`."""
CLIENT_ID: Final = "milena-partitions"


def add_subcommand(
    subparsers: "Subparsers", name: str, *examples: str
) -> "argparse.ArgumentParser":
    """A sub-command's parser with the options of a connection."""
    command = PARTITION_COMMANDS[name]
    parser = add_parser_of(subparsers, command, *examples)
    parser.set_defaults(partition_module=command.module)
    add_servers(parser)
    return parser
