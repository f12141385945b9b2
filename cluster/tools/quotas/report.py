"""`quotas report`: tables and plots of the rollup's windows, on the terminal or as an HTML page."""

import argparse
import json
import shutil
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cluster.model.errors import UserError
from cluster.model.printable import one_line
from cluster.runtime.installation import launcher, shown
from cluster.runtime.text_table import styled
from cluster.tools import terminal
from cluster.tools.arguments import data_dir
from cluster.tools.extra_packages import need_extra
from cluster.tools.quotas.subcommands import add_subcommand
from cluster.tools.rollup import EXTRA, output_dir

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.text import Text

    from cluster.analytics.usage_history import Span, Usage
    from cluster.tools.arguments import Subparsers

_WIDTHS_S: Final = {"10s": 10, "1m": 60}
_LONG: Final = timedelta(hours=2)
"""Longer periods are shown in windows of one minute, unless an option says otherwise."""
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
    parser.add_argument(
        "--output",
        type=Path,
        metavar="DIR",
        help="where `rollup` wrote the windows (default: rollup, in --data-dir)",
    )
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="also write a page with tables and plots"
    )
    parser.add_argument(
        "--width",
        choices=tuple(_WIDTHS_S),
        help="of the windows (default: 10s for up to two hours, else 1m)",
    )
    parser.add_argument(
        "--client-id", action="append", metavar="C", help="only this client; may be repeated"
    )
    parser.add_argument(
        "--last",
        type=_duration,
        metavar="30m",
        help="only this much before the latest window: a number and s, m, h or d",
    )
    parser.add_argument("--json", action="store_true", help="a list, for scripts")


def run(args: argparse.Namespace) -> int:
    """Print tables and plots of the windows, or write the HTML page. Returns the exit status."""
    output = output_dir(args)
    hint = f"run `{launcher(data_dir(args).path)} rollup` first"
    if not output.is_dir():
        raise UserError(f"there are no windows in {shown(output)}: {hint}")
    need_extra(EXTRA, "pyarrow", "jinja2")

    from cluster.analytics.usage_history import Span, usages

    width, windows = _windows(args, output)
    if not windows.num_rows:
        raise UserError(f"there are no windows in {shown(output)}: {hint}")
    known = sorted(set(windows["client_id"].to_pylist()) - {None})
    windows = _of_clients(windows, args.client_id)
    if not windows.num_rows:
        raise UserError(
            f"no windows of client {' or '.join(args.client_id)};"
            f" there are {', '.join(map(one_line, known))}"
        )
    found = usages(windows)
    starts = windows["window_start"]
    width_s = _WIDTHS_S[width]
    span = Span(
        int(starts[0].as_py().timestamp()), int(starts[-1].as_py().timestamp()) + width_s, width_s
    )
    if args.html is not None:
        _write_page(args.html, found, span, shown(output))
    if args.json:
        print(json.dumps([usage.as_json() for usage in found], indent=2))
    else:
        _print(found, span)
    if args.html is not None:
        print(f"Page written to {shown(args.html.absolute())}", file=sys.stderr)
    return 0


def _windows(args: argparse.Namespace, output: Path) -> "tuple[str, pa.Table]":
    """The windows within `--last` and their width: the chosen one, or one that suits the period."""
    import pyarrow as pa

    from cluster.analytics.window_files import read_windows

    width = args.width or "10s"
    try:
        windows = _within(read_windows(output, width), args.last)
        starts = windows["window_start"]
        is_long = windows.num_rows and starts[-1].as_py() - starts[0].as_py() > _LONG
        if is_long and args.width is None:
            width = "1m"
            windows = _within(read_windows(output, width), args.last)
    except (OSError, pa.ArrowException) as problem:
        reason = str(problem).partition("\n")[0]
        raise UserError(f"cannot read the windows in {shown(output)}: {reason}") from None
    return width, windows


def _within(windows: "pa.Table", last: timedelta | None) -> "pa.Table":
    if last is None or not windows.num_rows:
        return windows
    import pyarrow as pa
    import pyarrow.compute as pc

    starts = windows["window_start"]
    try:
        first = starts[-1].as_py() - last
    except OverflowError:  # before the year 1: everything
        return windows
    return windows.filter(pc.greater(starts, pa.scalar(first, starts.type)))


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


def _duration(text: str) -> timedelta:
    units = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
    if not text[:-1].isdecimal() or text[-1:] not in units or not int(text[:-1]):
        raise argparse.ArgumentTypeError(f"must be like 90s, 30m, 6h or 2d, not {text}")
    try:
        return timedelta(**{units[text[-1]]: int(text[:-1])})
    except OverflowError:  # millions of years
        raise argparse.ArgumentTypeError(f"must be less than 999999999d, not {text}") from None
