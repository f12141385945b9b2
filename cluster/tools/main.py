"""Reads the command line, finds the command in its table, imports only that command's module.

To add a command: one row in `commands`, one module with `add_parser(subparsers)` and
`run(args) -> int`. Exit status: 0 done, 1 it failed (one line on stderr), 2 wrong usage.
"""

import argparse
import importlib
import sys
from collections.abc import Sequence

from cluster.model.errors import StorageFailed, UserError
from cluster.tools.arguments import UsageError, add_data_dir, example
from cluster.tools.commands import COMMANDS, Command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit status."""
    argv = list(sys.argv[1:] if arguments is None else arguments)
    chosen = _chosen(argv)
    try:
        args = _parser(chosen).parse_args(argv)
        if chosen is None:
            _parser(None).print_help()
            return 2
        status: int = importlib.import_module(f"cluster.tools.{chosen.module}").run(args)
    except UsageError as problem:
        return _complain(f"{problem} (see `--help`)", 2)
    except (UserError, StorageFailed) as problem:
        return _complain(str(problem), 1)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has enough
        return 1
    return status


def _chosen(argv: Sequence[str]) -> Command | None:
    """The command that these arguments name, seen before they are parsed."""
    words = iter(argv)
    for word in words:
        if word == "--data-dir":
            next(words, None)
        elif not word.startswith("-"):
            return COMMANDS.get(word)
    return None


def _parser(chosen: Command | None) -> argparse.ArgumentParser:
    """Every command by name, and the chosen one with its options."""
    parser = argparse.ArgumentParser(
        prog="bin/cluster",
        description="A Kafka-compatible cluster on this machine.",
        epilog=example("start --detach", "topics --create --topic orders --partitions 3", "stop"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_data_dir(parser, default=None)
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    for command in COMMANDS.values():
        if command == chosen:
            module = importlib.import_module(f"cluster.tools.{command.module}")
            module.add_parser(subparsers)
        else:
            subparsers.add_parser(command.name, help=command.summary)
    return parser


def _complain(problem: str, status: int) -> int:
    print(f"error: {problem}", file=sys.stderr)
    return status
