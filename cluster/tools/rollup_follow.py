"""`rollup --follow`: its options, and a line about each batch until Ctrl-C."""

import argparse
import json
import signal
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cluster.analytics.rollup.offset_ranges import PYTHON
from cluster.runtime.installation import shown
from cluster.runtime.interrupts import handled_by
from cluster.tools.arguments import UsageError, duration
from cluster.tools.options import at_least_one

if TYPE_CHECKING:
    from cluster.analytics.rollup.follow_job import Step
    from cluster.analytics.rollup.job import Phase, RollupOptions

_INTERVAL: Final = timedelta(seconds=10)
_WATERMARK: Final = timedelta(minutes=1)
_MOST: Final = 500_000
_CHECKPOINT: Final = ".follow"
_ONLY_FOLLOWING: Final = ("trigger_interval", "watermark", "max_records", "checkpoint")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add `--follow` and what goes with it."""
    parser.add_argument(
        "--follow", action="store_true", help="go on adding what comes, until Ctrl-C"
    )
    parser.add_argument(
        "--trigger-interval",
        type=duration,
        metavar="10s",
        help="how often, with --follow (default: 10s)",
    )
    parser.add_argument(
        "--watermark",
        type=duration,
        metavar="1m",
        help="with --follow, windows that began longer than this before the newest one are closed:"
        " their records that come now are added, and count as late (default: 1m)",
    )
    parser.add_argument(
        "--max-records",
        type=at_least_one,
        metavar="N",
        help=f"read at a time with --follow (default: {_MOST:,})",
    )
    parser.add_argument(
        "--checkpoint",
        type=Path,
        metavar="DIR",
        help=f"where --follow notes its batches (default: {_CHECKPOINT}, in the output directory)",
    )


def check(args: argparse.Namespace) -> None:
    """Raises UsageError if an option is given that has no effect with the others."""
    if not args.follow:
        for name in _ONLY_FOLLOWING:
            if getattr(args, name) is not None:
                raise UsageError(f"--{name.replace('_', '-')} is for rollup --follow")
        if args.packages is not None and args.source == PYTHON:
            raise UsageError("--packages is for --source kafka")
        return
    if args.full:
        raise UsageError("--full reads the whole topic once: run it before, without --follow")
    if args.source != PYTHON or args.packages is not None:
        raise UsageError(
            "--follow reads with our data source only: leave out --source kafka and --packages"
        )
    if args.when_told:
        raise UsageError("--when-told reads once: leave out --follow")


def run_follow(args: argparse.Namespace, options: "RollupOptions", phase: "Phase") -> int:
    """Follow until SIGINT or SIGTERM, the normal end. Returns 0. Raises UserError."""
    from cluster.analytics.rollup.follow_job import FollowOptions, follow

    checkpoint = args.checkpoint or options.output / _CHECKPOINT
    report = _Report(args.json)
    signals: list[int] = []
    following = FollowOptions(
        rollup=options,
        checkpoint=checkpoint.absolute(),
        interval_s=(args.trigger_interval or _INTERVAL).total_seconds(),
        most=args.max_records or _MOST,
        watermark=args.watermark or _WATERMARK,
    )

    with handled_by(lambda number, _frame: signals.append(number), (signal.SIGINT, signal.SIGTERM)):
        follow(following, phase, report.tell, lambda: bool(signals))
    report.end(options.output)
    return 0


class _Report:
    """A line for each batch, and sums at the end."""

    def __init__(self, is_json: bool) -> None:
        self._is_json = is_json
        self._totals: Counter[str] = Counter()
        self._late = 0

    def tell(self, step: "Step") -> None:
        """Print what became of a batch."""
        found = step_as_json(step)
        if step.batch.added is not None:
            self._totals.update(step.batch.added.counts)
            self._late += step.batch.added.late
        print(json.dumps(found) if self._is_json else step_as_text(found), flush=True)

    def end(self, output: Path) -> None:
        """Print how much there was in all."""
        if self._is_json:
            return
        lost = self._totals.pop("lost", 0)
        print(
            f"\n{self._totals.total():,} records, {self._late:,} of them late,"
            f" {self._totals['rejected']:,} rejected, {lost:,} removed before they were read;"
            f" windows in {shown(output)}"
        )


def step_as_json(step: "Step") -> dict[str, Any]:
    """What is printed of a batch."""
    batch = step.batch
    counts = Counter(batch.added.counts) if batch.added else Counter[str]()
    lost = counts.pop("lost", 0)
    records = counts.total()
    windows = batch.added.windows if batch.added else {}
    return {
        "batch": batch.number,
        "records": records,
        "records_per_second": round(records / max(step.seconds, 0.001)),
        "behind": step.behind,
        "late": batch.added.late if batch.added else 0,
        "rejected": counts["rejected"],
        "lost": lost,
        "windows": {kind: sum(by_width.values()) for kind, by_width in windows.items()},
        "closed_spans": batch.closed,
        "closed_until": batch.closed_until and batch.closed_until.isoformat(),
        "was_there": batch.added is None,
    }


def step_as_text(found: dict[str, Any]) -> str:
    """The line about a batch, from what `step_as_json` made."""
    behind = "unknown" if found["behind"] is None else f"{found['behind']:,}"
    words = [
        f"batch {found['batch']}",
        f"{found['records']:,} records, {found['records_per_second']:,}/s",
        f"behind by {behind}",
    ]
    if found["closed_until"]:
        until = found["closed_until"][:19].replace("T", " ")
        words.append(f"closed up to {until} UTC (+{found['closed_spans']:,} spans of 10 s)")
    words += [f"{found[name]:,} {name}" for name in ("late", "rejected", "lost") if found[name]]
    if found["was_there"]:
        words.append("was in the windows already")
    return "; ".join(words)
