"""The rollup as a job of any Spark cluster: `spark-submit etc/spark/rollup_job.py --help`.

The session, its master and its settings are those of spark-submit; this process is the driver.
Python of the workers needs pyarrow and confluent-kafka; this package is sent.
"""

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Iterator, Sequence

from cluster.analytics.rollup.engines import AUTO, SPARK
from cluster.analytics.rollup.job import RollupOptions, roll_up
from cluster.analytics.rollup.offset_ranges import PYTHON, SOURCES
from cluster.analytics.rollup.preflight import check_pyspark
from cluster.analytics.rollup.spark_session import submitted_session
from cluster.model.errors import UserError
from cluster.model.topics import METRICS_TOPIC
from cluster.tools import rollup_follow
from cluster.tools.arguments import UsageError
from cluster.tools.kafka_connection import add_servers, client_properties
from cluster.tools.options import key_value
from cluster.tools.rollup import output_place, retained, summary_as_json


def main(arguments: Sequence[str] | None = None) -> int:
    """Run with these arguments, or those of the process. Returns the exit status."""
    args = _parser().parse_args(arguments)
    try:
        return _run(args)
    except UsageError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    except UserError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # of spark-submit, which Ctrl-C has ended before this process
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rollup_job.py", description="Rolls metric records up, on spark-submit's Spark."
    )
    add_servers(parser)
    parser.add_argument(
        "--output",
        required=True,
        metavar="DIR",
        help="where the windows go: a directory that all workers share, s3://BUCKET/FOLDER and"
        " the like",
    )
    parser.add_argument(
        "--topic",
        default=METRICS_TOPIC,
        metavar="T",
        help=f"where the metrics are (default: {METRICS_TOPIC})",
    )
    parser.add_argument(
        "--source",
        choices=SOURCES,
        default=PYTHON,
        help="what reads: our data source, or Spark's own connector (default: python)",
    )
    parser.add_argument(
        "--full",
        action="store_true",
        help="read all that the topic holds, not only what is new since the last run",
    )
    parser.add_argument(
        "--retain",
        type=retained,
        default={},
        metavar="30d",
        help="remove windows of days that ended so long ago; or by width, 10s=7d,1m=30d,1h=365d",
    )
    parser.add_argument(
        "--property",
        action="append",
        type=key_value,
        default=[],
        metavar="KEY=VALUE",
        help="a setting of the Kafka client (librdkafka's name); may be repeated. Everybody on"
        " the machine can read it: passwords belong in the file of --command-config",
    )
    rollup_follow.add_options(parser)
    parser.add_argument(
        "--json",
        action="store_true",
        help="with --follow one object for each batch; the summary is one always",
    )
    parser.set_defaults(packages=None, engine=AUTO, data_dir=None)
    return parser


def _run(args: argparse.Namespace) -> int:
    began = time.monotonic()
    rollup_follow.check(args)
    given = dict(args.command_properties) | dict(args.property)
    servers = args.bootstrap_server or given.get("bootstrap.servers")
    if servers is None:
        raise UsageError("--bootstrap-server is missing")
    args.bootstrap_server = servers
    options = RollupOptions(
        connection={**client_properties(args), **dict(args.property), "bootstrap.servers": servers},
        topic=args.topic,
        output=output_place(args),
        log=None,
        master=None,
        engine=SPARK,
        source=args.source,
        full=args.full,
        retain=args.retain,
    )
    if args.follow:
        return rollup_follow.run_follow(args, options, _phase, submitted_session, check_pyspark)
    summary = roll_up(options, _phase, submitted_session)
    print(json.dumps(summary_as_json(summary, options, time.monotonic() - began)))
    return 0


@contextlib.contextmanager
def _phase(title: str) -> Iterator[None]:
    with contextlib.suppress(BrokenPipeError):  # spark-submit may end first
        print(f"{title} ...", file=sys.stderr, flush=True)
    yield


if __name__ == "__main__":
    sys.exit(main())
