"""Shared by reports over the rollup's windows: their options, and reading the windows."""

import argparse
import contextlib
import shlex
import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.analytics.windows.places import scheme_of
from cluster.analytics.windows.widths import WIDTHS_S
from cluster.model.errors import UserError
from cluster.runtime.installation import launcher, shown
from cluster.tools.arguments import data_dir
from cluster.tools.extra_packages import need_extra
from cluster.tools.rollup import WINDOWS_EXTRA, output_place
from cluster.views.amounts import duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.analytics.reports.periods import Days, Period, Read
    from cluster.analytics.windows.kinds import WindowKind
    from cluster.analytics.windows.store import Store

"""Those of `windows/kinds.py`, which needs PyArrow."""


def add_window_options(parser: argparse.ArgumentParser) -> None:
    """Add `--rollup`, `--width`, `--last`, `--since` and `--until`."""
    add_place(parser)
    parser.add_argument(
        "--width",
        choices=WIDTHS_S,
        help="of the windows (default: 10s for up to 2 hours, 1m for 2 days, 1h for 60 days)",
    )
    parser.add_argument(
        "--last",
        type=duration,
        metavar="30m",
        help="only this much before the latest window: a number and s, m, h or d",
    )
    add_period(parser)


def add_place(parser: argparse.ArgumentParser) -> None:
    """Add `--rollup`, the place of the windows."""
    parser.add_argument(
        *("--rollup", "--output"),
        dest="output",
        metavar="DIR",
        help="where `rollup` wrote the windows: a folder, or s3://BUCKET/PREFIX"
        " (default: rollup, in --data-dir)",
    )


def add_period(parser: argparse.ArgumentParser) -> None:
    """Add `--since` and `--until`, whose values are times in UTC or None."""
    for name, which in (("--since", "at or after"), ("--until", "before")):
        parser.add_argument(
            name,
            type=_time,
            metavar="TIME",
            help=f"only windows that begin {which} it: 2026-11-22, 2026-11-22T14:30, in UTC",
        )


def windows_place(args: argparse.Namespace) -> str:
    """The place of the windows for people, once the packages that read them are installed.

    Raises UserError for an unusable place, or one without windows.
    """
    place = _place(args)
    if isinstance(place, Path) and not place.is_dir():
        raise UserError(_nothing_in(shown(place), args))
    need_extra(WINDOWS_EXTRA, "pyarrow")
    return shown(place) if isinstance(place, Path) else open_windows(args).shown()


def open_windows(args: argparse.Namespace) -> "Store":
    """The store of the windows. Raises UserError for an unusable place."""
    from cluster.analytics.windows.store import UnknownStore, open_store

    try:
        return open_store(_place(args))
    except (UnknownStore, OSError) as problem:
        raise UserError(str(problem)) from None


def _place(args: argparse.Namespace) -> Path | str:
    """A folder, or a URI."""
    place = output_place(args)
    return place if scheme_of(place) else Path(place)


def no_windows(args: argparse.Namespace, kind: "WindowKind") -> UserError:
    """The error for missing windows of a kind or period, with the remedy."""
    place = _place(args)
    named = shown(place) if isinstance(place, Path) else open_windows(args).shown()
    period = [
        f"{word} {time:%Y-%m-%d %H:%M:%S} UTC"
        for word, time in (("from", args.since), ("before", args.until))
        if time is not None
    ]
    if period:
        return UserError(f"there are no windows {' '.join(period)} in {named}")
    if _has_been_written(args):
        return UserError(
            f"there are no windows of {kind.name}s in {named}: no such records were in the topic"
            f" when `{rollup_command(args)}` ran"
        )
    return UserError(_nothing_in(named, args))


def _nothing_in(named: str, args: argparse.Namespace) -> str:
    return f"there are no windows in {named}: run `{rollup_command(args)}` first"


def _has_been_written(args: argparse.Namespace) -> bool:
    """Whether a rollup has read anything into the place. Raises UserError."""
    from cluster.analytics.windows.commits import read_manifest

    with readable_windows(args):
        manifest = read_manifest(open_windows(args))
    return manifest is not None and manifest.progress is not None


def rollup_command(args: argparse.Namespace, *options: str) -> str:
    """The command line that runs `rollup` into the place of the windows."""
    place = () if args.output is None else ("--output", args.output)
    return f"{launcher(data_dir(args).path)} {shlex.join(['rollup', *place, *options])}"


def chosen_period(
    args: argparse.Namespace, kind: "WindowKind", width: str | None = None
) -> "Period | None":
    """The windows of a kind and width that the options choose; None if there are none.

    Call it within `readable_windows`.
    """
    from cluster.analytics.reports.periods import period_of

    read, days = _reader(args, kind)
    begin, end = possible_period(args, kind, is_warned=width is not None)
    return period_of(read, days, width or args.width, begin, end, args.last)


def possible_period(
    args: argparse.Namespace, kind: "WindowKind", *, is_warned: bool = False
) -> tuple[datetime, datetime]:
    """The period of the options, without impossible times.

    Warns on stderr if windows are left out, unless `is_warned` already. Call it within
    `readable_windows`.
    """
    from cluster.analytics.reports.periods import EARLIEST, impossible_windows
    from cluster.analytics.windows.repair import AHEAD

    now = datetime.now(UTC)
    if not is_warned:
        left_out = impossible_windows(*_reader(args, kind), args.since, args.until, now)
        if left_out:
            print(_impossible(args, left_out), file=sys.stderr)
    return max(args.since or EARLIEST, EARLIEST), min(args.until or now + AHEAD, now + AHEAD)


def _reader(args: argparse.Namespace, kind: "WindowKind") -> "tuple[Read, Days]":
    from cluster.analytics.windows.kinds import QUOTA
    from cluster.analytics.windows.reading import days_by_width, read_windows

    store = open_windows(args)
    read = partial(read_windows, store, kind, with_dictionaries=kind is QUOTA)
    return read, days_by_width(store, kind)


@contextlib.contextmanager
def readable_windows(args: argparse.Namespace) -> "Iterator[None]":
    """Read windows within the block. Raises UserError for unreadable ones."""
    import pyarrow as pa

    from cluster.analytics.windows.manifest import UnusableDirectory

    try:
        yield
    except UnusableDirectory as problem:
        raise UserError(f"cannot read the windows: {problem}") from None
    except (OSError, pa.ArrowException) as problem:
        reason = str(problem).partition("\n")[0]
        raise UserError(f"cannot read the windows in {windows_place(args)}: {reason}") from None


def _impossible(args: argparse.Namespace, count: int) -> str:
    windows = "1 window that begins" if count == 1 else f"{count:,} windows that begin"
    return (
        f"{windows} before 2020 or later than now left out:"
        f" `{rollup_command(args, '--repair')}` removes such"
    )


def _time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"must be a time such as 2026-11-22 or 2026-11-22T14:30:00, not {text}"
        ) from None
