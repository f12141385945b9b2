"""The rollup as a job of a standalone Spark cluster, and by Spark's own connector for Kafka."""

import json
import os
import signal
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat.installing import may_install
from tests.support.metric_records import produce
from tests.support.running_cluster import Cluster
from tests.support.spark import need_spark
from tests.support.topics import metrics_topic
from tests.support.waiting import wait_until

need_spark()

from cluster.analytics.windows.kinds import WINDOW_KINDS  # noqa: E402
from cluster.analytics.windows.reading import read_windows  # noqa: E402
from cluster.analytics.windows.widths import WIDTHS_S  # noqa: E402
from tests.support.reference_windows import every_kind  # noqa: E402
from tests.support.spark_cluster import LIGHT, SPARK, environment, spark_cluster  # noqa: E402
from tests.support.window_directories import assert_plain, assert_read  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.spark]

ROOT = Path(__file__).parents[2]
CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
PATIENCE_S = 180.0
RECORDS = every_kind(7, seconds=100)


@pytest.fixture(scope="module")
def standalone(tmp_path_factory) -> Iterator[str]:
    """The address of a Spark master with two workers, each in a working directory of its own."""
    with spark_cluster(tmp_path_factory.mktemp("standalone"), workers=2) as master:
        yield master


def filled_topic(cluster: Cluster) -> str:
    topic = metrics_topic(cluster, partitions=3)
    produce(cluster.bootstrap, topic, [*RECORDS, b"bad"])
    return topic


def submission(
    standalone: str, cluster: Cluster, *more: object, **variables: str
) -> subprocess.Popen[str]:
    """A job of the Spark cluster, in a process group of its own as a terminal gives it."""
    return subprocess.Popen(
        [
            *(SPARK / "bin" / "spark-submit", "--master", standalone),
            *("--conf", "spark.executor.memory=512m", "--conf", "spark.driver.host=127.0.0.1"),
            *("--conf", f"spark.driver.extraJavaOptions={LIGHT}"),
            *("--conf", f"spark.executor.extraJavaOptions={LIGHT}"),
            *(ROOT / "etc" / "spark" / "rollup_job.py", "--bootstrap-server", cluster.bootstrap),
            *map(str, more),
        ],
        env={**environment(), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.long
def test_a_submitted_job_equals_plain_python(standalone, cluster, tmp_path):
    topic = filled_topic(cluster)
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=PLAINTEXT\nclient.rack=here\n")
    output = tmp_path / "submitted"
    job = submission(
        *(standalone, cluster, "--topic", topic, "--output", output, "--command-config", config)
    )
    out, err = job.communicate(timeout=PATIENCE_S)
    assert job.returncode == 0, err[-3000:]
    summary = json.loads(out.splitlines()[-1])
    assert summary["records"] == len(RECORDS) + 1
    assert summary["engine"] == "spark"
    assert_read(output, RECORDS)
    assert_plain(output, RECORDS)


@pytest.mark.long
def test_a_submitted_job_that_follows_merges_at_its_end(standalone, cluster, tmp_path):
    topic = filled_topic(cluster)
    output = tmp_path / "followed"
    job = submission(
        *(standalone, cluster, "--topic", topic, "--output", output, "--follow", "--json"),
        *("--trigger-interval", "1s", "--watermark", "2m", "--max-records", "1000"),
    )
    assert job.stdout is not None
    records = 0
    while records < len(RECORDS) + 1:
        line = job.stdout.readline()
        assert line, job.communicate()[1][-3000:]
        if line.startswith("{"):
            records += json.loads(line)["records"]
    os.killpg(job.pid, signal.SIGINT)  # a terminal sends it to everything in front
    job.communicate(timeout=PATIENCE_S)
    wait_until(lambda: is_merged(output), "merges", PATIENCE_S)
    assert_plain(output, RECORDS)


def is_merged(output: Path) -> bool:
    """Whether nothing waits any more, and what was merged is in place."""
    manifest = json.loads((output / "_meta" / "manifest.json").read_text())
    try:
        drafts = list((output / "_meta").glob("drafts/**/*.parquet"))
    except FileNotFoundError:  # one of the folders has just gone
        return False
    return not manifest["deltas"] and not drafts


@pytest.mark.long
def test_workers_without_packages_are_one_line(standalone, cluster, tmp_path):
    topic = filled_topic(cluster)
    bare = tmp_path / "bare"
    venv.create(bare)
    python = bare / "bin" / "python"
    job = submission(
        *(standalone, cluster, "--topic", topic, "--output", tmp_path / "windows"),
        PYSPARK_PYTHON=str(python),
        PYSPARK_DRIVER_PYTHON=sys.executable,
    )
    out, err = job.communicate(timeout=PATIENCE_S)
    assert job.returncode == 1, err[-3000:]
    (line,) = [line for line in f"{out}\n{err}".splitlines() if line.startswith("error: ")]
    assert f"{python} of Spark's worker on " in line
    assert "lacks pyarrow and confluent-kafka" in line
    assert "Traceback" not in f"{out}{err}"


def test_brokers_of_this_machine_alone_are_refused_before_spark_starts(cluster, tmp_path):
    topic = filled_topic(cluster)
    ran = cluster.command(
        *("rollup", "--topic", topic, "--output", str(tmp_path / "windows")),
        *("--master", "spark://203.0.113.7:7077"),
        check=False,
    )
    assert ran.returncode == 1
    assert "Starting Spark" not in ran.stderr
    assert ran.stderr.splitlines()[-1].startswith(
        "error: workers of spark://203.0.113.7:7077 cannot reach 127.0.0.1:"
    )


@pytest.mark.beyond_pypi
@pytest.mark.skipif(
    not may_install(), reason="the connector comes from Maven: MILENA_TEST_INSTALL=1"
)
def test_both_sources_give_the_same_windows(cluster, tmp_path):
    """The Python source is here without Spark, with which it gives the same: `test_rollup.py`."""
    topic = filled_topic(cluster)
    for source, words in (
        ("python", ("--engine", "local")),
        ("kafka", ("--engine", "spark", "--source", "kafka", "--packages", CONNECTOR)),
    ):
        output = str(tmp_path / source)
        cluster.command("rollup", "--topic", topic, "--output", output, *words)
        assert_read(tmp_path / source, RECORDS)
    for kind in WINDOW_KINDS:
        for width in WIDTHS_S:
            ours, theirs = (
                read_windows(tmp_path / source, kind, width) for source in ("python", "kafka")
            )
            assert ours.equals(theirs), (kind.name, width)
