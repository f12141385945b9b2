"""The rollup as a job of a standalone Spark cluster, and by Spark's own connector for Kafka."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path

import pytest

from tests.compat.installing import may_install
from tests.support.metric_records import generated_group_records, generated_records, produce
from tests.support.running_cluster import Cluster
from tests.support.spark import need_spark
from tests.support.topics import create_topic, unique_name
from tests.support.waiting import wait_until

need_spark()

import pyspark  # noqa: E402

from cluster.analytics.rollup.job import RollupOptions, roll_up  # noqa: E402
from cluster.analytics.rollup.spark_session import spark_session  # noqa: E402
from tests.support.plain_windows import assert_windows_of  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.spark]

ROOT = Path(__file__).parents[2]
SPARK = Path(pyspark.__file__).parent
CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
PATIENCE_S = 180.0
LIGHT = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
RECORDS = [*generated_records(7, seconds=100), *generated_group_records(7, seconds=100)]


def environment() -> dict[str, str]:
    return {
        **os.environ,
        "SPARK_HOME": str(SPARK),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LAUNCHER_OPTS": LIGHT,
        "SPARK_DAEMON_JAVA_OPTS": LIGHT,
    }


@pytest.fixture(scope="module")
def standalone(tmp_path_factory) -> Iterator[str]:
    """The address of a Spark master with two workers."""
    place = tmp_path_factory.mktemp("standalone")
    with ExitStack() as ended:

        def start(name: str, what: str, *more: str) -> Path:
            log = place / f"{name}.log"
            with log.open("w") as output:
                process = subprocess.Popen(
                    [str(SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{what}", *more],
                    env=environment(),
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
            ended.callback(process.wait)
            ended.callback(process.terminate)
            return log

        here = ("--host", "127.0.0.1", "--webui-port", "0")
        log = start("master", "master.Master", *here, "--port", "0")
        found = wait_until(
            lambda: re.search(r"Starting Spark master at (spark://\S+)", log.read_text()),
            "a Spark master",
            PATIENCE_S,
        )
        for number in range(2):
            start(
                f"worker-{number}",
                "worker.Worker",
                *here,
                *("--cores", "1", "--memory", "600m", "--work-dir", str(place / f"work-{number}")),
                found[1],
            )
        wait_until(
            lambda: log.read_text().count("Registering worker") == 2, "its workers", PATIENCE_S
        )
        yield found[1]


def filled_topic(cluster: Cluster) -> str:
    topic = create_topic(cluster, unique_name("metrics"), partitions=3)
    produce(cluster.bootstrap, topic, [*RECORDS, b"bad"])
    return topic


def windows(output: Path) -> dict[str, bytes]:
    found = {str(path.relative_to(output)): path.read_bytes() for path in output.rglob("*.parquet")}
    assert found
    return found


def rolled_up(cluster: Cluster, topic: str, output: Path, **how: str) -> RollupOptions:
    return RollupOptions(
        connection={"bootstrap.servers": cluster.bootstrap},
        topic=topic,
        output=output,
        log=output / "rollup.log",
        master="local[2]",
        **how,  # type: ignore[arg-type]
    )


def test_a_submitted_job_equals_plain_python(standalone, cluster, tmp_path):
    topic = filled_topic(cluster)
    submitted = subprocess.run(
        [
            *(SPARK / "bin" / "spark-submit", "--master", standalone),
            *("--conf", "spark.executor.memory=512m", "--conf", "spark.driver.host=127.0.0.1"),
            *("--conf", f"spark.driver.extraJavaOptions={LIGHT}"),
            *("--conf", f"spark.executor.extraJavaOptions={LIGHT}"),
            *(ROOT / "etc" / "spark" / "rollup_job.py", "--bootstrap-server", cluster.bootstrap),
            *("--topic", topic, "--output", tmp_path / "submitted"),
        ],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert submitted.returncode == 0, submitted.stderr[-3000:]
    assert_windows_of(tmp_path / "submitted", RECORDS)


@pytest.mark.skipif(
    not may_install(), reason="the connector comes from Maven: MILENA_TEST_INSTALL=1"
)
def test_both_sources_give_the_same_windows(cluster, tmp_path):
    topic = filled_topic(cluster)
    with spark_session("local[2]", tmp_path / "spark.log", CONNECTOR) as spark:
        for source in ("python", "kafka"):
            options = rolled_up(cluster, topic, tmp_path / source, source=source)
            summary = roll_up(options, lambda _: nullcontext(), lambda *_: nullcontext(spark))
            assert summary.rejected_records == 1
    assert windows(tmp_path / "python") == windows(tmp_path / "kafka")
    assert (tmp_path / "python" / "aside" / "00000001.jsonl").read_text() == (
        tmp_path / "kafka" / "aside" / "00000001.jsonl"
    ).read_text()
