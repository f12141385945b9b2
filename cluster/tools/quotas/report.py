"""`quotas report`: tables and plots of the rollup's windows, on the terminal or as an HTML page."""

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cluster.model.errors import UserError
from cluster.model.printable import one_line
from cluster.runtime.installation import shown
from cluster.runtime.text_table import styled
from cluster.tools import terminal
from cluster.tools.quotas.subcommands import add_subcommand
from cluster.tools.rollup_windows import (
    add_window_options,
    chosen_windows,
    no_windows,
    span_of,
    windows_place,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.text import Text

    from cluster.analytics.usage_history import Span, Usage
    from cluster.tools.arguments import Subparsers

_PLOT_COLUMNS: Final = 72
_PLOTS_MAX: Final = 6
_STYLES: Final = {"over": "bold red", "near": "yellow", "": ""}
_MARGIN: Final = 40
"""Columns needed beside a plot, for its axis and the text after its line of throttle times."""


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `quotas report` and its options to `subparsers`."""
    parser = add_subcommand(
        subparsers, "report", "quotas report", "quotas report --client-id loader-1 --html page.html"
    )
    add_window_options(parser)
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="also write a page with tables and plots"
    )
    parser.add_argument(
        "--client-id", action="append", metavar="C", help="only this client; may be repeated"
    )
    parser.add_argument("--json", action="store_true", help="a list, for scripts")


def run(args: argparse.Namespace) -> int:
    """Print tables and plots of the windows, or write the HTML page. Returns the exit status."""
    output = windows_place(args, "jinja2")

    from cluster.analytics.usage_history import usages
    from cluster.analytics.window_files import QUOTA_WINDOWS

    width, windows = chosen_windows(args, QUOTA_WINDOWS)
    if not windows.num_rows:
        raise no_windows(args)
    known = sorted(set(windows["client_id"].to_pylist()) - {None})
    windows = _of_clients(windows, args.client_id)
    if not windows.num_rows:
        raise UserError(
            f"no windows of client {' or '.join(args.client_id)};"
            f" there are {', '.join(map(one_line, known))}"
        )
    found = usages(windows)
    span = span_of(windows, width)
    if args.html is not None:
        _write_page(args.html, found, span, shown(output))
    if args.json:
        print(json.dumps([usage.as_json() for usage in found], indent=2))
    else:
        _print(found, span)
    if args.html is not None:
        print(f"Page written to {shown(args.html.absolute())}", file=sys.stderr)
    return 0


def _of_clients(windows: "pa.Table", client_ids: list[str] | None) -> "pa.Table":
    if not client_ids:
        return windows
    import pyarrow as pa
    import pyarrow.compute as pc

    return windows.filter(pc.is_in(windows["client_id"], pa.array(client_ids)))


def _write_page(path: Path, found: "list[Usage]", span: "Span", source: str) -> None:
    from cluster.analytics.html_report import page

    draft = path.with_name(path.name + ".new")
    try:
        draft.write_text(page(found, span, source), "utf-8")
        draft.replace(path)
    except OSError as problem:
        draft.unlink(missing_ok=True)
        raise UserError(f"cannot write {path}: {problem.strerror}") from None


def _print(found: "list[Usage]", span: "Span") -> None:
    """Print table and plots, with colours on terminals only."""
    from rich.text import Text

    from cluster.analytics import html_report, terminal_plot
    from cluster.analytics.quantities import clock

    columns = shutil.get_terminal_size((120, 24)).columns
    console = terminal.console(width=max(columns, 40), highlight=False, soft_wrap=True)
    console.print(
        f"{clock(span.first_s, with_day=True)} to {clock(span.end_s, with_day=True)} UTC,"
        f" windows of {span.width_s} s; limits and rates are per broker\n",
        style="dim",
    )
    terminal.print_table(
        [name.upper() for name, _ in html_report.COLUMNS],
        [_cells(usage) for usage in found],
        right=[name.upper() for name, kind in html_report.COLUMNS if kind != "text"],
    )
    plotted = [usage for usage in found if usage.limit is not None]
    for usage in plotted[:_PLOTS_MAX]:
        brokers = "broker" if len(usage.series) == 1 else "busiest broker"
        console.print(Text.assemble("\n", (usage.name, "bold"), f": {usage.quota}, {brokers}"))
        for pieces in terminal_plot.plot(
            usage, span, max(10, min(_PLOT_COLUMNS, columns - _MARGIN))
        ):
            console.print(Text.assemble(*pieces))
    if len(plotted) > _PLOTS_MAX:
        console.print(f"\n{len(plotted) - _PLOTS_MAX} more plots: --client-id, --html", style="dim")


def _cells(usage: "Usage") -> "list[str | Text]":
    from cluster.analytics import html_report

    names = [name for name, _ in html_report.COLUMNS]
    cells: list[str | Text] = [*html_report.cells(usage)]
    share = names.index("of limit")
    cells[share] = styled(html_report.cells(usage)[share], _STYLES[html_report.level(usage)])
    return cells
