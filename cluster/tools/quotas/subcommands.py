"""The sub-commands of `quotas`, in the order of its help: one row and one module each."""

from typing import TYPE_CHECKING, Final

from cluster.tools.arguments import DATA_DIR_DEFAULT, add_parser_of
from cluster.tools.commands import Command

if TYPE_CHECKING:
    import argparse

    from cluster.tools.arguments import Subparsers

QUOTA_COMMANDS: Final = {
    command.name: command
    for command in (
        Command("set", "quotas.set", "limit a client, a user, or all others (default)"),
        Command("unset", "quotas.unset", "remove limits"),
        Command("list", "quotas.list", "show the limits that are set"),
        Command("explain", "quotas.explain", "say why a client is throttled, broker by broker"),
        Command(
            "simulate", "quotas.simulate", "say when a load would be throttled, without a cluster"
        ),
        Command(
            "client-check",
            "quotas.client_check",
            "run a Kafka client of yours under a quota, and say whether it pauses",
        ),
        Command("watch", "quotas.watch", "show live how much of each quota its clients use"),
        Command("report", "quotas.report", "show what clients used over time, from the rollup"),
        Command(
            "recommend",
            "quotas.recommend",
            "say which limits fit what clients did, and which clients a limit would have throttled",
        ),
    )
}
"""`module` is one below `tools/`, with `add_parser(subparsers)` and `run(args) -> int`."""


def add_subcommand(
    subparsers: "Subparsers", name: str, *examples: str, data_dir_default: str = DATA_DIR_DEFAULT
) -> "argparse.ArgumentParser":
    """A sub-command's parser, with `--data-dir` and its examples at the end of `--help`."""
    command = QUOTA_COMMANDS[name]
    return add_parser_of(subparsers, command, *examples, data_dir_default=data_dir_default)
