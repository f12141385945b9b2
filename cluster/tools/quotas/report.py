"""`quotas report`: tables and plots of the rollup's windows, on the terminal or as files."""

import argparse
import csv
import io
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cluster.model.csv_cells import inert
from cluster.model.errors import UserError
from cluster.model.finite_json import finite, json_text
from cluster.model.kept_names import spellings
from cluster.model.printable import one_line
from cluster.runtime.installation import shown
from cluster.runtime.text_table import styled
from cluster.runtime.whole_numbers import at_least_one
from cluster.tools import terminal
from cluster.tools.arguments import UsageError
from cluster.tools.quotas.subcommands import add_subcommand
from cluster.tools.rollup_windows import (
    add_window_options,
    chosen_period,
    no_windows,
    readable_windows,
    windows_place,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from rich.text import Text

    from cluster.analytics.reports.periods import Period
    from cluster.analytics.reports.usage_history import ClientUsage
    from cluster.analytics.reports.usage_report import UsageReport
    from cluster.tools.arguments import Subparsers

_PLOT_COLUMNS: Final = 72
_ROWS_MAX: Final = 100
_NAMES_MAX: Final = 20
_STYLES: Final = {"over": "bold red", "near": "yellow", "": ""}
_MARGIN: Final = 40
"""The columns needed beside a plot, for its axis and the text after the throttle times."""


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
    parser.add_argument(
        "--all",
        "--all-clients",
        dest="all_clients",
        action="store_true",
        help="also Milena's own tools and page",
    )
    parser.add_argument("--json", action="store_true", help="a list of all, for scripts")


def run(args: argparse.Namespace) -> int:
    """Print tables and plots of the windows, and write files. Returns the exit status."""
    if args.json and args.top is not None and args.html is None and args.png is None:
        raise UsageError("--top is for the table: --json has all rows")
    if args.png is not None:
        from cluster.analytics.reports.browser_process import find_browser

        find_browser()
    place = windows_place(args)

    from cluster.analytics.reports.usage_history import TOTALS_COLUMNS, totals, usages
    from cluster.analytics.windows.kinds import QUOTA

    report = None
    with readable_windows(args):
        period = chosen_period(args, QUOTA)
        if period is None:
            raise no_windows(args, QUOTA)
        found = totals(period.pieces(TOTALS_COLUMNS))
        found = _of(found, "client_id", "client", args.client_id)
        found = _of(found, "user", "user", args.user)
        if not args.json or args.html is not None or args.png is not None:
            report = _report(args, period, found, place)
    files = _write_files(args, found, report)
    if args.json:
        _print_json(usages(found))
    elif report is not None:
        _print(report)
    for what, path in files:
        print(f"{what} written to {shown(path.absolute())}", file=sys.stderr)
    return 0


def _of(found: "pa.Table", column: str, what: str, names: list[str] | None) -> "pa.Table":
    """The rows with one of these names in a column. Raises UserError if there are none."""
    if not names:
        return found
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = [spelling for name in names for spelling in spellings(name)]
    chosen = found.filter(pc.is_in(found[column], pa.array(wanted)))
    if not chosen.num_rows:
        known = sorted(set(pc.unique(found[column]).to_pylist()) - {None})
        named = [one_line(name) for name in known[:_NAMES_MAX]]
        more = [f"{len(known) - len(named):,} more"] if len(known) > len(named) else []
        raise UserError(
            f"no windows of {what} {' or '.join(map(one_line, names))};"
            f" there are {', '.join([*named, *more])}"
        )
    return chosen


def _report(
    args: argparse.Namespace, period: "Period", found: "pa.Table", source: str
) -> "UsageReport":
    """The table and plots of the rows of `totals`."""
    from cluster.analytics.reports.usage_history import SERIES_COLUMNS, add_series, of_usages
    from cluster.analytics.reports.usage_report import usage_report

    with_own = args.all_clients or bool(args.client_id)
    report = usage_report(found, period.width_s, args.top or _ROWS_MAX, source, with_own=with_own)
    plotted = report.plotted
    add_series(plotted, period.pieces(SERIES_COLUMNS, of_usages(plotted)))
    return report


def _print_json(found: "Iterable[ClientUsage]") -> None:
    """Print a list with a line for each item, written as it is made."""
    before = "["
    for usage in found:
        print(f"{before}\n{json_text(usage.as_json())}", end="")
        before = ","
    print("\n]")


def _write_files(
    args: argparse.Namespace, found: "pa.Table", report: "UsageReport | None"
) -> list[tuple[str, Path]]:
    """Write the files that the options name; returns the kind and place of each."""
    from cluster.analytics.reports import browser_process, html_report
    from cluster.analytics.reports.usage_history import usages

    made: list[tuple[str, Path]] = []
    if args.html is not None and report is not None:
        _write(args.html, [html_report.page(report)])
        made.append(("Page", args.html))
    if args.png is not None and report is not None:
        drawn = html_report.page(report, with_script=False)
        browser_process.draw(drawn, html_report.height(report), args.png)
        made.append(("Picture", args.png))
    if args.csv is not None:
        _write(args.csv, _as_csv(usages(found)))
        made.append(("Table", args.csv))
    return made


def _as_csv(found: "Iterable[ClientUsage]") -> "Iterator[str]":
    """The values of `--json`, a line for each client and quota; brokers are separated by spaces."""
    text = io.StringIO()
    table: csv.DictWriter[str] | None = None
    for usage in found:
        row = finite(usage.as_json())
        if table is None:
            table = csv.DictWriter(text, row)
            table.writeheader()
        cells = {**row, "brokers": " ".join(map(str, row["brokers"]))}
        table.writerow({name: inert(value) for name, value in cells.items()})
        yield text.getvalue()
        text.seek(0)
        text.truncate()


def _write(path: Path, parts: "Iterable[str]") -> None:
    draft = path.with_name(path.name + ".new")
    try:
        with draft.open("w", encoding="utf-8", newline="") as file:
            file.writelines(parts)
        draft.replace(path)
    except OSError as problem:
        draft.unlink(missing_ok=True)
        raise UserError(f"cannot write {path}: {problem.strerror}") from None


def _print(report: "UsageReport") -> None:
    """Print table and plots, with colors on terminals only."""
    from rich.text import Text

    from cluster.analytics.reports import terminal_plot
    from cluster.analytics.reports.usage_report import answer
    from cluster.analytics.reports.usage_table import usage_table
    from cluster.views.quantities import clock

    span = report.span
    columns = shutil.get_terminal_size((120, 24)).columns
    console = terminal.console(width=max(columns, 40), highlight=False, soft_wrap=True)
    console.print(Text(answer(report.summary)))
    console.print(
        f"{clock(span.first_s, with_day=True)} to {clock(span.end_s, with_day=True)} UTC,"
        f" windows of {span.width_s} s; limits and rates are per broker\n",
        style="dim",
    )
    table = usage_table(report.shown)
    names = [name for name, _ in table.columns]
    terminal.print_table(
        [name.upper() for name in names],
        [
            _cells(usage, names, cells)
            for usage, cells in zip(report.shown, table.rows, strict=True)
        ],
        right=[name.upper() for name, kind in table.columns if kind != "text"],
    )
    notes = list(table.notes)
    if report.more:
        notes.append(f"{report.more:,} more: --top, --csv, --json")
    if report.own_clients:
        verb = "is" if report.own_clients == 1 else "are"
        notes.append(f"{report.own_clients} of Milena's own clients {verb} not shown: --all")
    for note in notes:
        console.print(note, style="dim")
    for usage in report.terminal_plots:
        if not usage.series:  # the rollup removed its windows meanwhile
            continue
        brokers = "broker" if len(usage.series) == 1 else "busiest broker"
        title = f": {one_line(usage.quota)}, {brokers}"
        console.print(Text.assemble("\n", (usage.name, "bold"), title))
        for pieces in terminal_plot.plot(
            usage, span, max(10, min(_PLOT_COLUMNS, columns - _MARGIN))
        ):
            console.print(Text.assemble(*pieces))
    if report.more_terminal_plots:
        more = f"\n{report.more_terminal_plots:,} more plots: --client-id, --html"
        console.print(more, style="dim")


def _cells(
    usage: "ClientUsage", names: "Sequence[str]", cells: "Sequence[str]"
) -> "list[str | Text]":
    from cluster.analytics.reports.usage_table import OF_LIMIT, level

    styles = {OF_LIMIT: _STYLES[level(usage)]}
    return [styled(cell, styles.get(name, "")) for name, cell in zip(names, cells, strict=True)]
