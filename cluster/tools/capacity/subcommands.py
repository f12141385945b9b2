"""The sub-commands of `capacity`: one row and one module each."""

import argparse
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from cluster.tools.commands import Command
from cluster.tools.rollup_windows import (
    add_period,
    add_place,
    no_windows,
    open_windows,
    possible_period,
    readable_windows,
    windows_place,
)
from cluster.views.amounts import duration

if TYPE_CHECKING:
    from cluster.analytics.capacity.history import WindowHistory

CAPACITY_COMMANDS: Final = {
    command.name: command
    for command in (
        Command(
            "report", "capacity.report", "show what grows, what fills up, and what is left of it"
        ),
        Command(
            "what-if",
            "capacity.what_if",
            "say what other brokers, traffic, retention or quotas would have done",
        ),
    )
}
"""`module` is one below `tools/`, with `add_parser(subparsers)` and `run(args) -> int`."""


def add_history_options(parser: argparse.ArgumentParser) -> None:
    """Add `--rollup`, `--since`, `--until`, `--last`, `--explain` and `--json`."""
    add_place(parser)
    add_period(parser)
    parser.add_argument(
        "--last",
        type=duration,
        metavar="7d",
        help="only this much before the latest window: a number and s, m, h or d",
    )
    parser.add_argument(
        "--explain", action="store_true", help="also say how each figure was reached"
    )
    parser.add_argument("--json", action="store_true", help="one object, for scripts")


def chosen_history(args: argparse.Namespace, *, quotas: Collection[str] = ()) -> "WindowHistory":
    """The windows within the period, including narrow ones of these quotas.

    Raises UserError if there are none, or if they cannot be read.
    """
    windows_place(args)

    from cluster.analytics.capacity.reading import history_in
    from cluster.analytics.windows.kinds import BROKER

    with readable_windows(args):
        since, until = possible_period(args, BROKER)
        found = history_in(open_windows(args), since, until, args.last, quotas=quotas)
    if not found.end_s:
        raise no_windows(args, BROKER)
    return found
