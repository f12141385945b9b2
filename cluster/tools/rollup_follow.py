"""`rollup --follow`: its options, and a line about each batch until Ctrl-C."""

import argparse
import json
import signal
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cluster.analytics.rollup.offset_ranges import PYTHON
from cluster.analytics.windows.places import scheme_of
from cluster.runtime.interrupts import handled_by
from cluster.runtime.whole_numbers import at_least_one
from cluster.tools.arguments import UsageError
from cluster.views.amounts import duration

if TYPE_CHECKING:
    from cluster.analytics.rollup.follow_job import BatchReport, FollowOptions
    from cluster.analytics.rollup.job import Phase, RollupOptions, StartSpark

_INTERVAL: Final = timedelta(seconds=10)
_WATERMARK: Final = timedelta(minutes=1)
_MOST: Final = 2_000_000
_CHECKPOINT: Final = "_follow"
_ONLY_FOLLOWING: Final = ("trigger_interval", "watermark", "max_records", "checkpoint")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add `--follow` and its options."""
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
        return
    if args.full:
        raise UsageError("--full reads the whole topic once: run it before, without --follow")
    if args.source != PYTHON or args.packages is not None:
        raise UsageError(
            "--follow reads with our data source only: leave out --source kafka and --packages"
        )
    if args.engine == "local":
        raise UsageError("--follow is a stream of Spark: leave out --engine local")
    if args.checkpoint is None and scheme_of(args.output or "") not in ("", "file"):
        raise UsageError(
            "--output is not a directory: say with --checkpoint DIR where batches are noted"
        )


def run_follow(
    args: argparse.Namespace,
    options: "RollupOptions",
    phase: "Phase",
    start_spark: "StartSpark",
    prepare: Callable[[], None],
) -> int:
    """Follow until SIGINT or SIGTERM, the normal end; a second signal skips the last merges.

    Returns 0. Raises UserError, KeyboardInterrupt.
    """
    checkpoint = args.checkpoint or Path(options.output) / _CHECKPOINT
    return followed(
        following_options(args, options, checkpoint.absolute()),
        Report(args.json, options.output),
        phase,
        start_spark,
        prepare,
    )


def following_options(
    args: argparse.Namespace, options: "RollupOptions", checkpoint: Path
) -> "FollowOptions":
    """The options for following."""
    from cluster.analytics.rollup.follow_job import FollowOptions

    return FollowOptions(
        rollup=options,
        checkpoint=checkpoint,
        interval_s=(args.trigger_interval or _INTERVAL).total_seconds(),
        most=args.max_records or _MOST,
        watermark=args.watermark or _WATERMARK,
    )


def followed(
    options: "FollowOptions",
    report: "Report",
    phase: "Phase",
    start_spark: "StartSpark",
    prepare: Callable[[], None],
) -> int:
    """Follow with these options, and report. See `run_follow`."""
    from cluster.analytics.rollup.follow_job import follow

    signals: list[int] = []

    def end(number: int, _frame: object) -> None:
        if signals:
            raise KeyboardInterrupt
        signals.append(number)

    with handled_by(end, (signal.SIGINT, signal.SIGTERM)):
        follow(options, phase, report.tell, lambda: bool(signals), start_spark, prepare)
    report.end()
    return 0


class Report:
    """Prints a line for each batch, and sums at the end."""

    def __init__(self, is_json: bool, output: str) -> None:
        self._is_json = is_json
        self._output = output
        self._totals: Counter[str] = Counter()

    def tell(self, step: "BatchReport") -> None:
        """Print the line about a batch."""
        found = step_as_json(step)
        for name in ("records", "late", "rejected", "lost"):
            self._totals[name] += found[name]
        print(json.dumps(found) if self._is_json else step_as_text(found), flush=True)

    def end(self) -> None:
        """Print the totals."""
        if self._is_json:
            return
        from cluster.analytics.windows.store import without_secrets

        totals = self._totals
        print(
            f"\n{totals['records']:,} records, {totals['late']:,} of them late,"
            f" {totals['rejected']:,} rejected, {totals['lost']:,} removed before they were read;"
            f" windows in {without_secrets(self._output)}"
        )


def step_as_json(step: "BatchReport") -> dict[str, Any]:
    """The JSON output about a batch."""
    batch, result = step.batch, step.batch.result
    rejected = sum(result.rejected.values()) if result else 0
    records = sum(result.counts.values()) + rejected if result else 0
    return {
        "batch": batch.number,
        "records": records,
        "records_per_second": round(records / max(step.seconds, 0.001)),
        "seconds": round(step.seconds, 3),
        "work_seconds": round(step.work_seconds, 3),
        "behind": step.behind,
        "kinds": dict(result.counts) if result else {},
        "late": result.late if result else 0,
        "rejected": rejected,
        "lost": result.lost if result else 0,
        "merged": {kind: sum(by_width.values()) for kind, by_width in step.merged.windows.items()}
        if step.merged
        else {},
        "closed_spans": batch.closed,
        "closed_until": batch.closed_until and batch.closed_until.isoformat(),
        "was_there": result is None,
    }


def step_as_text(found: dict[str, Any]) -> str:
    """The line about a batch, from the document of `step_as_json`."""
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
    if found["merged"]:
        words.append(f"{sum(found['merged'].values()):,} windows written")
    if found["was_there"]:
        words.append("was in the windows already")
    return "; ".join(words)
