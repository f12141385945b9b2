"""What reports over the rollup's windows share: their options, and reading the windows."""

import argparse
import contextlib
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cluster.model.errors import UserError
from cluster.runtime.installation import launcher, shown
from cluster.tools.arguments import data_dir, duration
from cluster.tools.extra_packages import need_extra
from cluster.tools.rollup import EXTRA, output_dir

if TYPE_CHECKING:
    import pyarrow as pa

    from cluster.analytics.reports.usage_history import Span
    from cluster.analytics.window_files import WindowKind

WIDTHS_S: Final = {"10s": 10, "1m": 60, "1h": 3600}
_LONG: Final = timedelta(hours=2)
"""Longer periods are shown in windows of one minute, unless an option says otherwise."""


def add_window_options(parser: argparse.ArgumentParser) -> None:
    """Add `--rollup`, `--width`, `--last`, `--since` and `--until`."""
    add_place(parser)
    parser.add_argument(
        "--width",
        choices=tuple(WIDTHS_S),
        help="of the windows (default: 10s for up to two hours, else 1m)",
    )
    parser.add_argument(
        "--last",
        type=duration,
        metavar="30m",
        help="only this much before the latest window: a number and s, m, h or d",
    )
    add_period(parser)


def add_place(parser: argparse.ArgumentParser) -> None:
    """Add `--rollup`, where the windows are."""
    parser.add_argument(
        *("--rollup", "--output"),
        dest="output",
        type=Path,
        metavar="DIR",
        help="where `rollup` wrote the windows (default: rollup, in --data-dir)",
    )


def add_period(parser: argparse.ArgumentParser) -> None:
    """Add `--since` and `--until`, of which the values are times in UTC or None."""
    for name, which in (("--since", "at or after"), ("--until", "before")):
        parser.add_argument(
            name,
            type=_time,
            metavar="TIME",
            help=f"only windows that begin {which} it: 2026-11-22, 2026-11-22T14:30, in UTC",
        )


def windows_place(args: argparse.Namespace) -> Path:
    """The folder of the windows, once the packages that read them are there. Raises UserError."""
    output = output_dir(args)
    if not output.is_dir():
        raise no_windows(args)
    need_extra(EXTRA, "pyarrow")
    return output


def no_windows(args: argparse.Namespace) -> UserError:
    """There are none, or none within the period; says how to make some."""
    period = [
        f"{word} {time:%Y-%m-%d %H:%M:%S} UTC"
        for word, time in (("from", args.since), ("before", args.until))
        if time is not None
    ]
    if period and output_dir(args).is_dir():
        return UserError(f"there are no windows {' '.join(period)} in {shown(output_dir(args))}")
    place = "" if args.output is None else f" --output {shlex.quote(str(args.output))}"
    hint = f"run `{launcher(data_dir(args).path)} rollup{place}` first"
    return UserError(f"there are no windows in {shown(output_dir(args))}: {hint}")


def chosen_windows(args: argparse.Namespace, kind: "WindowKind") -> "tuple[str, pa.Table]":
    """The windows within the period, and their width: the chosen one, or one that suits the period.

    Raises UserError if a file is broken.
    """
    import pyarrow as pa

    output = output_dir(args)
    width = args.width or "1m"
    try:
        windows = _read(output, width, kind, args)
        starts = windows["window_start"]
        is_short = not windows.num_rows or starts[-1].as_py() - starts[0].as_py() <= _LONG
        if is_short and args.width is None:
            width = "10s"
            windows = _read(output, width, kind, args)
    except (OSError, pa.ArrowException) as problem:
        reason = str(problem).partition("\n")[0]
        raise UserError(f"cannot read the windows in {shown(output)}: {reason}") from None
    return width, windows


def span_of(windows: "pa.Table", width: str) -> "Span":
    """From the first of the windows, of which there are some, to the end of the last."""
    from cluster.analytics.reports.usage_history import Span

    starts = windows["window_start"]
    width_s = WIDTHS_S[width]
    return Span(
        int(starts[0].as_py().timestamp()), int(starts[-1].as_py().timestamp()) + width_s, width_s
    )


def _read(output: Path, width: str, kind: "WindowKind", args: argparse.Namespace) -> "pa.Table":
    """The windows within the period. Files of other days are not opened."""
    from cluster.analytics.window_files import days_there, read_windows

    days = days_there(output, kind, width)
    if args.since is not None:
        days = [day for day in days if day >= args.since.date()]
    if args.until is not None:
        days = [day for day in days if day <= args.until.date()]
    if args.last is None:
        return _within(read_windows(output, width, days, kind), args)
    windows = kind.schema.empty_table()
    while days and not windows.num_rows:  # of the latest day there may be none before --until
        latest = days.pop()
        windows = _within(read_windows(output, width, [latest], kind), args)
    if not windows.num_rows:
        return windows
    with contextlib.suppress(OverflowError):  # before the year 1: everything
        first = (windows["window_start"][-1].as_py() - args.last).date()
        days = [day for day in days if day >= first]
    return _within(read_windows(output, width, [*days, latest], kind), args)


def _within(windows: "pa.Table", args: argparse.Namespace) -> "pa.Table":
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = windows["window_start"].type
    for time, is_within in ((args.since, pc.greater_equal), (args.until, pc.less)):
        if time is not None:
            windows = windows.filter(is_within(windows["window_start"], pa.scalar(time, kind)))
    if args.last is None or not windows.num_rows:
        return windows
    starts = windows["window_start"]
    try:
        first = starts[-1].as_py() - args.last
    except OverflowError:  # before the year 1: everything
        return windows
    return windows.filter(pc.greater(starts, pa.scalar(first, kind)))


def _time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"must be a time such as 2026-11-22 or 2026-11-22T14:30:00, not {text}"
        ) from None
