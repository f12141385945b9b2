"""`capacity report`: growth, disks, busy hours, headroom, latency, lag and events of a history."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.model.errors import UserError
from cluster.model.finite_json import json_text
from cluster.runtime.installation import shown
from cluster.runtime.whole_numbers import at_least_one
from cluster.tools.arguments import UsageError, add_parser_of
from cluster.tools.capacity.subcommands import (
    CAPACITY_COMMANDS,
    add_history_options,
    chosen_history,
)
from cluster.tools.rollup_windows import windows_place

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `capacity report` and its options to `subparsers`."""
    parser = add_parser_of(
        subparsers,
        CAPACITY_COMMANDS["report"],
        "capacity report",
        "capacity report --last 7d --html capacity.html --explain",
    )
    add_history_options(parser)
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="also write a page with tables and plots"
    )
    parser.add_argument("--top", type=at_least_one, metavar="N", help="topics shown (default: 10)")


def run(args: argparse.Namespace) -> int:
    """Print the report, and write a page. Returns the exit status."""
    if args.json and args.explain:
        raise UsageError("--explain is for the text: --json has how each figure was reached")
    history = chosen_history(args)

    from cluster.analytics.capacity.report import TOP, report
    from cluster.tools.capacity.report_text import report_text

    found = report(history, args.top or TOP)
    source = windows_place(args)
    if args.html is not None:
        from cluster.analytics.capacity.page import page

        _write(args.html, page(found, source))
    if args.json:
        print(json_text(found.as_json(), indent=2))
    else:
        print("\n".join(report_text(found, source, explain=args.explain)))
    if args.html is not None:
        print(f"Page written to {shown(args.html.absolute())}", file=sys.stderr)
    return 0


def _write(path: Path, text: str) -> None:
    draft = path.with_name(path.name + ".new")
    try:
        draft.write_text(text, "utf-8", newline="")
        draft.replace(path)
    except OSError as problem:
        draft.unlink(missing_ok=True)
        raise UserError(f"cannot write {path}: {problem.strerror}") from None
