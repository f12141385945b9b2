"""`quotas report`: tables and plots of the rollup's windows, on the terminal or as files."""

import argparse
import csv
import io
import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cluster.model.errors import UserError
from cluster.model.kept_names import spellings
from cluster.model.printable import one_line
from cluster.runtime.installation import shown
from cluster.runtime.text_table import styled
from cluster.tools import terminal
from cluster.tools.arguments import UsageError
from cluster.tools.options import at_least_one
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

    from cluster.analytics.reports.usage_history import Span, Usage
    from cluster.tools.arguments import Subparsers

_PLOT_COLUMNS: Final = 72
_PLOTS_MAX: Final = 6
_NAMES_MAX: Final = 20
_STYLES: Final = {"over": "bold red", "near": "yellow", "": ""}
_MARGIN: Final = 40
"""Columns needed beside a plot, for its axis and the text after its line of throttle times."""


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `quotas report` and its options to `subparsers`."""
    parser = add_subcommand(
        subparsers,
        "report",
        "quotas report",
        "quotas report --client-id loader-1 --html page.html",
        "quotas report --since 2026-11-22T09:00 --until 2026-11-22T12:00 --csv table.csv",
    )
    add_window_options(parser)
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="also write a page with tables and plots"
    )
    parser.add_argument(
        "--png", type=Path, metavar="FILE", help="also draw that page, by Chromium or Chrome"
    )
    parser.add_argument(
        "--csv", type=Path, metavar="FILE", help="also write the table, in bytes and milliseconds"
    )
    parser.add_argument(
        "--client-id", action="append", metavar="C", help="only this client; may be repeated"
    )
    parser.add_argument("--user", action="append", metavar="U", help="only this user")
    parser.add_argument(
        "--top",
        type=at_least_one,
        metavar="N",
        help="rows of the table here and in the page; --csv has all (default: 100)",
    )
    parser.add_argument("--json", action="store_true", help="a list of all, for scripts")


def run(args: argparse.Namespace) -> int:
    """Print tables and plots of the windows, and write files. Returns the exit status."""
    if args.json and args.top is not None and args.html is None and args.png is None:
        raise UsageError("--top is for the table: --json has everybody")
    if args.png is not None:
        from cluster.analytics.reports.browser_process import find_browser

        find_browser()
    output = windows_place(args)

    from cluster.analytics.reports.usage_history import usages
    from cluster.analytics.window_files import QUOTA_WINDOWS

    width, windows = chosen_windows(args, QUOTA_WINDOWS)
    if not windows.num_rows:
        raise no_windows(args)
    windows = _of(windows, "client_id", "client", args.client_id)
    windows = _of(windows, "user", "user", args.user)
    found = usages(windows)
    span = span_of(windows, width)
    files = _write_files(args, found, span, shown(output))
    if args.json:
        print(json.dumps([usage.as_json() for usage in found], indent=2))
    else:
        _print(found, span, _top(args))
    for what, path in files:
        print(f"{what} written to {shown(path.absolute())}", file=sys.stderr)
    return 0


def _of(windows: "pa.Table", column: str, what: str, names: list[str] | None) -> "pa.Table":
    """The windows with one of these names in a column. Raises UserError if there are none."""
    if not names:
        return windows
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = [spelling for name in names for spelling in spellings(name)]
    chosen = windows.filter(pc.is_in(windows[column], pa.array(wanted)))
    if not chosen.num_rows:
        known = sorted(set(windows[column].to_pylist()) - {None})
        named = [one_line(name) for name in known[:_NAMES_MAX]]
        more = [f"{len(known) - len(named):,} more"] if len(known) > len(named) else []
        raise UserError(
            f"no windows of {what} {' or '.join(names)}; there are {', '.join([*named, *more])}"
        )
    return chosen


def _write_files(
    args: argparse.Namespace, found: "list[Usage]", span: "Span", source: str
) -> list[tuple[str, Path]]:
    """Write the files that the options name; returns what each is, and where."""
    from cluster.analytics.reports import browser_process, html_report

    made: list[tuple[str, Path]] = []
    if args.html is not None:
        _write(args.html, html_report.page(found, span, source, _top(args)))
        made.append(("Page", args.html))
    if args.png is not None:
        page = html_report.page(found, span, source, _top(args))
        browser_process.draw(page, html_report.height(found, _top(args)), args.png)
        made.append(("Picture", args.png))
    if args.csv is not None:
        _write(args.csv, _as_csv(found))
        made.append(("Table", args.csv))
    return made


def _as_csv(found: "list[Usage]") -> str:
    """The values of `--json`, a line for each client and quota; brokers are separated by spaces."""
    text = io.StringIO()
    rows = [usage.as_json() for usage in found]
    table = csv.DictWriter(text, rows[0])
    table.writeheader()
    for row in rows:
        table.writerow({**row, "brokers": " ".join(map(str, row["brokers"]))})
    return text.getvalue()


def _write(path: Path, text: str) -> None:
    draft = path.with_name(path.name + ".new")
    try:
        draft.write_text(text, "utf-8", newline="")
        draft.replace(path)
    except OSError as problem:
        draft.unlink(missing_ok=True)
        raise UserError(f"cannot write {path}: {problem.strerror}") from None


def _top(args: argparse.Namespace) -> int:
    from cluster.analytics.reports.html_report import ROWS_MAX

    return args.top or ROWS_MAX


def _print(found: "list[Usage]", span: "Span", most: int) -> None:
    """Print table and plots, with colours on terminals only."""
    from rich.text import Text

    from cluster.analytics.reports import html_report, terminal_plot
    from cluster.views.quantities import clock

    columns = shutil.get_terminal_size((120, 24)).columns
    console = terminal.console(width=max(columns, 40), highlight=False, soft_wrap=True)
    console.print(
        f"{clock(span.first_s, with_day=True)} to {clock(span.end_s, with_day=True)} UTC,"
        f" windows of {span.width_s} s; limits and rates are per broker\n",
        style="dim",
    )
    terminal.print_table(
        [name.upper() for name, _ in html_report.COLUMNS],
        [_cells(usage) for usage in found[:most]],
        right=[name.upper() for name, kind in html_report.COLUMNS if kind != "text"],
    )
    if len(found) > most:
        console.print(f"{len(found) - most:,} more: --top, --csv, --json", style="dim")
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
    from cluster.analytics.reports import html_report

    names = [name for name, _ in html_report.COLUMNS]
    cells: list[str | Text] = [*html_report.cells(usage)]
    share = names.index("of limit")
    cells[share] = styled(html_report.cells(usage)[share], _STYLES[html_report.level(usage)])
    return cells
