"""What reports over the rollup's windows share: their options, and reading the windows."""

import argparse
import contextlib
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.model.errors import UserError
from cluster.runtime.installation import launcher, shown
from cluster.tools.arguments import data_dir, duration
from cluster.tools.extra_packages import need_extra
from cluster.tools.rollup import EXTRA, output_dir

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    import pyarrow.compute as pc

    from cluster.analytics.reports.periods import Days, Period, Read
    from cluster.analytics.windows.kinds import WindowKind

_WIDTHS = ("10s", "1m", "1h", "1d")
"""Those of `windows/kinds.py`, which needs PyArrow."""


def add_window_options(parser: argparse.ArgumentParser) -> None:
    """Add `--rollup`, `--width`, `--last`, `--since` and `--until`."""
    add_place(parser)
    parser.add_argument(
        "--width",
        choices=_WIDTHS,
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


def windows_place(args: argparse.Namespace) -> str:
    """Where the windows are, for people, once the packages that read them are there. Raises
    UserError."""
    output = output_dir(args)
    if not output.is_dir():
        raise no_windows(args)
    need_extra(EXTRA, "pyarrow")
    return shown(output)


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


def chosen_period(
    args: argparse.Namespace, kind: "WindowKind", width: str | None = None
) -> "Period | None":
    """The windows of a kind that the options choose, of this width if one is given; None if there
    are none.

    Says on stderr if windows of impossible times are left out. To be called within
    `readable_windows`.
    """
    from cluster.analytics.reports.periods import AHEAD, EARLIEST, impossible_windows, period_of

    read, days = _reader(args, kind)
    now = datetime.now(UTC)
    left_out = impossible_windows(read, days, args.since, args.until, now)
    if left_out and width is None:  # else of another kind, after one of which it was said
        print(_impossible(args, left_out), file=sys.stderr)
    return period_of(
        read,
        days,
        width or args.width,
        max(args.since or EARLIEST, EARLIEST),
        min(args.until or now + AHEAD, now + AHEAD),
        args.last,
    )


@contextlib.contextmanager
def readable_windows(args: argparse.Namespace) -> "Iterator[None]":
    """Within the block, windows are read. Raises UserError for a file that is broken."""
    import pyarrow as pa

    try:
        yield
    except (OSError, pa.ArrowException) as problem:
        reason = str(problem).partition("\n")[0]
        place = shown(output_dir(args))
        raise UserError(f"cannot read the windows in {place}: {reason}") from None


def _impossible(args: argparse.Namespace, count: int) -> str:
    place = "" if args.output is None else f" --output {shlex.quote(str(args.output))}"
    windows = "1 window that begins" if count == 1 else f"{count:,} windows that begin"
    return (
        f"{windows} before 2020 or later than now left out:"
        f" `{launcher(data_dir(args).path)} rollup{place} --repair` removes such"
    )


def _reader(args: argparse.Namespace, kind: "WindowKind") -> "tuple[Read, Days]":
    from cluster.analytics import window_files
    from cluster.analytics.windows.kinds import WIDTHS_S

    output = output_dir(args)
    (old,) = [each for each in window_files.WINDOW_KINDS if each.name == kind.name]
    days = {width: window_files.days_there(output, old, width) for width in WIDTHS_S}

    def read(
        width: str,
        since: datetime | None,
        until: datetime | None,
        columns: "Sequence[str]",
        where: "pc.Expression | None",
    ) -> "pa.Table":
        import pyarrow as pa
        import pyarrow.compute as pc

        chosen = [
            day
            for day in days[width]
            if (since is None or day >= since.date()) and (until is None or day <= until.date())
        ]
        table = window_files.read_windows(output, width, chosen, old)
        for time, is_within in ((since, pc.greater_equal), (until, pc.less)):
            if time is not None:
                starts = table["window_start"]
                table = table.filter(is_within(starts, pa.scalar(time, starts.type)))
        return (table if where is None else table.filter(where)).select(columns)

    return read, days


def _time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"must be a time such as 2026-11-22 or 2026-11-22T14:30:00, not {text}"
        ) from None
