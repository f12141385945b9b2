"""What the commands share: the layout of their help, `--data-dir`, finding the cluster."""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cluster.datadir.paths import DataDir
from cluster.local.orders import describe
from cluster.model.errors import UserError
from cluster.runtime.installation import DATA_DIR_VARIABLE, default_data_dir, launcher
from cluster.tools.command_parser import WIDTH_MAX, CommandParser
from cluster.tools.commands import COMMANDS, Command

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[CommandParser]
    """The type of the argument of each command's `add_parser`."""


DATA_DIR_DEFAULT: Final = f"${DATA_DIR_VARIABLE}, else var"


class UsageError(UserError):
    """Options that are invalid or contradict each other: printed in one line, exit status 2."""


def add_command(
    subparsers: "Subparsers", name: str, *examples: str, data_dir_default: str = DATA_DIR_DEFAULT
) -> CommandParser:
    """Add a command, with `--data-dir` and these examples at the end of `--help`."""
    return add_parser_of(subparsers, COMMANDS[name], *examples, data_dir_default=data_dir_default)


def add_parser_of(
    subparsers: "Subparsers",
    command: Command,
    *examples: str,
    data_dir_default: str = DATA_DIR_DEFAULT,
    aliases: Sequence[str] = (),
) -> CommandParser:
    """Add a command or a sub-command in the way that all of them are added."""
    summary = command.summary
    parser = subparsers.add_parser(
        command.name,
        aliases=aliases,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=example(*examples),
    )
    add_data_dir(parser, default=argparse.SUPPRESS, shown_default=data_dir_default)
    return parser


def add_data_dir(
    parser: argparse.ArgumentParser,
    *,
    default: str | None,
    shown_default: str = DATA_DIR_DEFAULT,
) -> None:
    """Add `--data-dir`, which chooses the cluster; it may stand before or after the command."""
    parser.add_argument(
        "--data-dir",
        type=Path,
        default=default,
        metavar="DIR",
        help=f"the cluster's directory (default: {shown_default})",
    )


def example(*commands: str) -> str:
    """The examples at the end of a help text; a long one goes on in the next line."""
    word = "example" if len(commands) == 1 else "examples"
    program = launcher()
    lines = [f"{word}:"]
    for command in commands:
        line = f"  {program}"
        for part in re.split(r" (?=--[a-z])", command):
            if len(line) + len(part) + 3 > WIDTH_MAX:
                lines.append(f"{line} \\")
                line = "     "
            line += f" {part}"
        lines.append(line)
    return "\n".join(lines)


def data_dir(args: argparse.Namespace) -> DataDir:
    """The data directory of the cluster that the command is about."""
    chosen: Path | None = args.data_dir
    return DataDir(default_data_dir() if chosen is None else chosen.absolute())


_SIGNED: Final = ("--brokers", "--growth")
_NEGATIVE: Final = re.compile(r"-\.?\d")


def with_signed_values(arguments: Sequence[str]) -> list[str]:
    """The arguments with `--growth=-20%` for `--growth -20%`: argparse reads `-20%` as an option.

    Done for the options whose values may be negative, also where their names are abbreviated.
    """
    found: list[str] = []
    for index, argument in enumerate(arguments):
        if argument == "--":  # what follows is for another program
            return [*found, *arguments[index:]]
        name = found[-1] if found else ""
        is_signed = len(name) > 2 and any(option.startswith(name) for option in _SIGNED)
        if is_signed and _NEGATIVE.match(argument):
            found[-1] = f"{name}={argument}"
        else:
            found.append(argument)
    return found


def running_state(args: argparse.Namespace) -> dict[str, Any]:
    """The supervisor's answer to `status`. Raises NotRunning."""
    return describe(data_dir(args))


def bootstrap_server(args: argparse.Namespace) -> str:
    """The brokers to connect to, as host:port by commas. Raises NotRunning.

    Those of `--bootstrap-server`, else of `--command-config`, else the running cluster's.
    """
    return stated_servers(args) or str(running_state(args)["bootstrap"])


def stated_servers(args: argparse.Namespace) -> str | None:
    """The brokers that the options name; None for the cluster of the data directory."""
    given: str | None = getattr(args, "bootstrap_server", None)
    return given or dict(getattr(args, "command_properties", ())).get("bootstrap.servers")
