"""What reports over the rollup's windows share: their options, and reading the windows."""

import argparse
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cluster.model.errors import UserError
from cluster.runtime.installation import launcher, shown
from cluster.tools.arguments import data_dir
from cluster.tools.extra_packages import need_extra
from cluster.tools.rollup import EXTRA, output_dir

if TYPE_CHECKING:
    import pyarrow as pa

    from cluster.analytics.usage_history import Span
    from cluster.analytics.window_files import WindowKind

WIDTHS_S: Final = {"10s": 10, "1m": 60}
_LONG: Final = timedelta(hours=2)
"""Longer periods are shown in windows of one minute, unless an option says otherwise."""


def add_window_options(parser: argparse.ArgumentParser) -> None:
    """Add `--output`, `--width` and `--last`."""
    parser.add_argument(
        "--output",
        type=Path,
        metavar="DIR",
        help="where `rollup` wrote the windows (default: rollup, in --data-dir)",
    )
    parser.add_argument(
        "--width",
        choices=tuple(WIDTHS_S),
        help="of the windows (default: 10s for up to two hours, else 1m)",
    )
    parser.add_argument(
        "--last",
        type=_duration,
        metavar="30m",
        help="only this much before the latest window: a number and s, m, h or d",
    )


def windows_place(args: argparse.Namespace, *packages: str) -> Path:
    """The folder of the windows, once the packages that read them are there. Raises UserError."""
    output = output_dir(args)
    if not output.is_dir():
        raise no_windows(args)
    need_extra(EXTRA, "pyarrow", *packages)
    return output


def no_windows(args: argparse.Namespace) -> UserError:
    """There are none; says how to make some."""
    hint = f"run `{launcher(data_dir(args).path)} rollup` first"
    return UserError(f"there are no windows in {shown(output_dir(args))}: {hint}")


def chosen_windows(args: argparse.Namespace, kind: "WindowKind") -> "tuple[str, pa.Table]":
    """The windows within `--last` and their width: the chosen one, or one that suits the period.

    Raises UserError if a file is broken.
    """
    import pyarrow as pa

    from cluster.analytics.window_files import read_windows

    output = output_dir(args)
    width = args.width or "10s"
    try:
        windows = _within(read_windows(output, width, kind=kind), args.last)
        starts = windows["window_start"]
        is_long = windows.num_rows and starts[-1].as_py() - starts[0].as_py() > _LONG
        if is_long and args.width is None:
            width = "1m"
            windows = _within(read_windows(output, width, kind=kind), args.last)
    except (OSError, pa.ArrowException) as problem:
        reason = str(problem).partition("\n")[0]
        raise UserError(f"cannot read the windows in {shown(output)}: {reason}") from None
    return width, windows


def span_of(windows: "pa.Table", width: str) -> "Span":
    """From the first of the windows, of which there are some, to the end of the last."""
    from cluster.analytics.usage_history import Span

    starts = windows["window_start"]
    width_s = WIDTHS_S[width]
    return Span(
        int(starts[0].as_py().timestamp()), int(starts[-1].as_py().timestamp()) + width_s, width_s
    )


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


def _duration(text: str) -> timedelta:
    units = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
    if not text[:-1].isdecimal() or text[-1:] not in units or not int(text[:-1]):
        raise argparse.ArgumentTypeError(f"must be like 90s, 30m, 6h or 2d, not {text}")
    try:
        return timedelta(**{units[text[-1]]: int(text[:-1])})
    except OverflowError:  # millions of years
        raise argparse.ArgumentTypeError(f"must be less than 999999999d, not {text}") from None
