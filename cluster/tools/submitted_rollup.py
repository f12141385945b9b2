"""The rollup as a job of any Spark cluster: `spark-submit etc/spark/rollup_job.py --help`.

The session, its master and its settings are those of spark-submit; this process is the driver and
writes the files. Python of the workers needs pyarrow and confluent-kafka; this package is sent.
"""

import argparse
import contextlib
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from cluster.analytics.rollup.job import RollupOptions, roll_up
from cluster.analytics.rollup.offset_ranges import PYTHON, SOURCES
from cluster.analytics.rollup.spark_session import submitted_session
from cluster.model.errors import UserError
from cluster.model.topics import METRICS_TOPIC
from cluster.tools.arguments import duration


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it with these arguments, or those of the process. Returns the exit status."""
    parser = argparse.ArgumentParser(description="Rolls metric records up, on spark-submit's Spark")
    parser.add_argument("--bootstrap-server", required=True, metavar="HOST:PORT")
    parser.add_argument("--output", required=True, type=Path, metavar="DIR")
    parser.add_argument("--topic", default=METRICS_TOPIC)
    parser.add_argument("--source", choices=SOURCES, default=PYTHON)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--retain", type=duration, metavar="30d")
    parser.add_argument(
        "--property",
        action="append",
        type=_property,
        default=[],
        metavar="KEY=VALUE",
        help="a setting of the Kafka client (librdkafka's name); may be repeated",
    )
    chosen = parser.parse_args(arguments)
    output = chosen.output.absolute()
    options = RollupOptions(
        connection={"bootstrap.servers": chosen.bootstrap_server, **dict(chosen.property)},
        topic=chosen.topic,
        output=output,
        log=output / "rollup.log",
        master="that of spark-submit",
        source=chosen.source,
        full=chosen.full,
        retain=chosen.retain,
    )
    try:
        summary = roll_up(options, _told, lambda *_: submitted_session())
    except UserError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    told = {"records": summary.records, "windows": summary.windows, "output": str(output)}
    print(json.dumps(told))
    return 0


def _property(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not key or not sign:
        raise argparse.ArgumentTypeError(f"must be KEY=VALUE, not {text}")
    return key, value


@contextlib.contextmanager
def _told(title: str) -> Iterator[None]:
    print(f"{title} ...", file=sys.stderr, flush=True)
    yield


if __name__ == "__main__":
    sys.exit(main())
