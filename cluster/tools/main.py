"""Reads the command line, finds the command in its table, imports only that command's module.

To add a command: one row in `commands`, one module with `add_parser(subparsers)` and
`run(args) -> int`. Exit status: 0 done, 1 it failed (one line on stderr), 2 wrong usage.
"""

import argparse
import errno
import importlib
import io
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from cluster import __version__
from cluster.model.errors import StorageFailed, UserError
from cluster.model.printable import one_line
from cluster.runtime.installation import launcher, remember_called
from cluster.tools.arguments import UsageError, add_data_dir, example, with_signed_values
from cluster.tools.command_parser import WIDTH_MAX, CommandParser
from cluster.tools.commands import COMMANDS, GROUPS, Command
from cluster.tools.compile import compile_later, variant
from cluster.tools.overview import overview
from cluster.tools.terminal import escaped_streams

_OUTPUT_LOST: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Errors of stdout itself: a full disk, a quota, or a terminal that was closed."""
_PROBLEM_MAX_CHARACTERS: Final = 4_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit status."""
    _have_streams()
    with escaped_streams():
        return _run(arguments)


def _run(arguments: Sequence[str] | None) -> int:
    if arguments is None:
        remember_called(sys.argv[0])
    argv = with_signed_values(sys.argv[1:] if arguments is None else arguments)
    if argv[:1] == ["help"]:
        argv = [*argv[1:], "--help"]
    chosen = _chosen(argv)
    try:
        args = command_line(argv)
        if chosen is None:
            _parser(None).print_help()
            return 2
        _check_text(vars(args))
        status: int = importlib.import_module(f"cluster.tools.{chosen.module}").run(args)
    except UsageError as problem:
        return _complain(f"{problem} (see `--help`)", 2)
    except (UserError, StorageFailed) as problem:
        return _complain(str(problem), 1)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _give_up_output()  # the reader of the pipe has closed it, e.g. `head`
        return 1
    except UnicodeEncodeError as problem:  # an argument had bytes that the locale cannot read
        return _complain(f"{problem.object!a} is not text in UTF-8", 2)
    except OSError as problem:
        if problem.errno not in _OUTPUT_LOST:
            raise
        return _output_lost(problem)
    status = _flushed(status)
    if status == 0 and chosen.starts_cluster:
        compile_later()
    return status


def command_line(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments as the parser of the command that they name reads them."""
    return _parser(_chosen(argv)).parse_args(argv)


def _check_text(found: object) -> None:
    """Raise UnicodeEncodeError for an argument with bytes that are no UTF-8 (surrogates stand for
    them), or UsageError, which does not repeat it, where it has a password: nothing that is sent or
    stored may have them. Paths may.
    """
    if isinstance(found, str):
        try:
            found.encode()
        except UnicodeEncodeError:
            if "password" not in found and "secret" not in found:
                raise
            raise UsageError("a password is not text in UTF-8") from None
    elif isinstance(found, Mapping):
        for value in found.values():
            _check_text(value)
    elif isinstance(found, list | tuple):
        for value in found:
            _check_text(value)


def _have_streams() -> None:
    """Make stdin, stdout and stderr usable whatever the parent process has closed.

    A closed one becomes /dev/null: else the next file opened would get its number, and the output.
    Characters that stdout cannot encode are escaped.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        with suppress(OSError):
            os.fstat(number)
            continue
        os.open(os.devnull, os.O_RDWR)  # gets the lowest free number: this one
        setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w"))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _flushed(status: int) -> int:
    """Flush stdout and return the exit status, or 1 with a clear message if that fails."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _give_up_output()
        return 1
    except OSError as problem:
        return _output_lost(problem)
    return status


def _output_lost(problem: OSError) -> int:
    _give_up_output()
    return _complain(f"cannot write the output: {problem.strerror}", 1)


def _give_up_output() -> None:
    """Redirect stdout to /dev/null, so that the flush at exit does not fail once more."""
    null_fd = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null_fd, 1)
    os.close(null_fd)


def _chosen(argv: Sequence[str]) -> Command | None:
    """The command that these arguments name, found before they are parsed."""
    words = iter(argv)
    for word in words:
        if word == "--data-dir":
            next(words, None)
        elif not word.startswith("-"):
            return COMMANDS.get(word)
    return None


class _Overview(CommandParser):
    """The outermost parser; its help lists the commands by purpose."""

    def format_help(self) -> str:
        """The whole text of `--help`."""
        columns = min(shutil.get_terminal_size().columns, WIDTH_MAX)
        examples = example(
            "demo", "start --detach", "topics create orders --partitions 3", "quotas watch", "stop"
        )
        return overview(self.prog, self.description or "", GROUPS, examples, columns)


class _Version(argparse.Action):
    """Prints the version; finds out only then which variant of the modules runs."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f"milena {__version__} ({variant()})")
        parser.exit()


def _parser(chosen: Command | None) -> argparse.ArgumentParser:
    """A parser that lists every command, but has options only for the chosen one."""
    parser = _Overview(prog=launcher(), description="A Kafka-compatible cluster on this machine.")
    parser.kind = "command"
    parser.chosen = "" if chosen is None else chosen.name
    parser.add_argument(
        "--version", action=_Version, nargs=0, help="show program's version number and exit"
    )
    add_data_dir(parser, default=None)
    subparsers = parser.add_subparsers(
        metavar="COMMAND", dest="command", parser_class=CommandParser
    )
    for command in COMMANDS.values():
        if command == chosen:
            module = importlib.import_module(f"cluster.tools.{command.module}")
            module.add_parser(subparsers)
        else:
            subparsers.add_parser(command.name, help=command.summary)
    return parser


def _complain(problem: str, status: int) -> int:
    print(f"error: {one_line(problem, _PROBLEM_MAX_CHARACTERS)}", file=sys.stderr)
    return status
