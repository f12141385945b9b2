"""The rollup of a live cluster's topic: against plain Python, again, interrupted, without data."""

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.support.metric_records import (
    START_MS,
    generated_group_records,
    generated_records,
    lag_windows_of,
    produce,
    quota_record,
    windows_of,
)
from tests.support.running_cluster import Cluster
from tests.support.spark import need_spark
from tests.support.topics import create_topic, unique_name
from tests.support.waiting import wait_until

need_spark()

import pyarrow as pa  # noqa: E402

from cluster.analytics.rollup_job import RollupOptions, compute, filled_ranges  # noqa: E402
from cluster.analytics.spark_session import spark_session  # noqa: E402
from cluster.analytics.window_files import (  # noqa: E402
    GROUP_WINDOWS,
    LAG_WINDOWS,
    WINDOW_SCHEMA,
    read_windows,
    replace_windows,
    sole_writer,
)
from cluster.model.errors import UserError  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# One JVM for all of them: it costs seconds and a gigabyte.
pytestmark = [pytest.mark.slow, pytest.mark.spark]

ROOT = Path(__file__).parents[2]
WIDTHS_S = {"10s": 10, "1m": 60}
PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def spark(tmp_path_factory) -> Iterator["SparkSession"]:
    with spark_session("local[2]", tmp_path_factory.mktemp("spark") / "spark.log") as session:
        yield session


def options(cluster: Cluster, topic: str, output: Path) -> RollupOptions:
    return RollupOptions(
        connection={"bootstrap.servers": cluster.bootstrap},
        topic=topic,
        output=output,
        log=output / "rollup.log",
        master="unused",
    )


def roll_up(spark: "SparkSession", cluster: Cluster, topic: str, output: Path) -> dict[str, int]:
    """What the command does between starting Spark and stopping it; the records by kind."""
    chosen = options(cluster, topic, output)
    computed = compute(spark, chosen, filled_ranges(chosen), lambda _: nullcontext())
    for kind, tables in computed.windows.items():
        replace_windows(output, tables, kind)
    return computed.counts


def expected(records, width: str) -> pa.Table:
    rows = windows_of(records, WIDTHS_S[width])
    return pa.Table.from_pylist(rows, schema=WINDOW_SCHEMA)


def contents(output: Path) -> dict[str, bytes]:
    return {str(path.relative_to(output)): path.read_bytes() for path in output.rglob("*.parquet")}


def test_it_equals_plain_python_and_a_second_run_changes_nothing(spark, cluster, tmp_path):
    topic = create_topic(cluster, unique_name("metrics"), partitions=3)
    groups = list(generated_group_records(7, seconds=200))
    records = [*generated_records(7, seconds=200), *groups]
    bad = [b"not json", b"{}", b'{"v":1,"kind":"quota"}', b"\xff\xfe", b"[" * 1000]
    produce(cluster.bootstrap, topic, [*records[:500], *bad, *records[500:]])
    counts = roll_up(spark, cluster, topic, tmp_path)
    kinds = Counter(record["kind"] for record in records)
    kinds["other"] = kinds.pop("broker")
    assert counts == {**kinds, "rejected": len(bad)}
    for width, width_s in WIDTHS_S.items():
        assert read_windows(tmp_path, width) == expected(records, width)
        for kind in (LAG_WINDOWS, GROUP_WINDOWS):
            rows = lag_windows_of(groups, width_s, kind.name)
            found = read_windows(tmp_path, width, kind=kind)
            assert found == pa.Table.from_pylist(rows, schema=kind.schema)
    before = contents(tmp_path)
    assert roll_up(spark, cluster, topic, tmp_path) == counts
    assert contents(tmp_path) == before


def test_later_records_complete_windows_and_earlier_ones_stay(spark, cluster, tmp_path):
    """A topic that lost its beginning, as retention makes it: here another topic with the rest."""
    records = list(generated_records(8, seconds=120))
    first, second = (create_topic(cluster, unique_name("metrics")) for _ in range(2))
    produce(cluster.bootstrap, first, records[: len(records) // 2])
    produce(cluster.bootstrap, second, [r for r in records if r["ts"] > START_MS + 20_500])
    roll_up(spark, cluster, first, tmp_path)
    roll_up(spark, cluster, second, tmp_path)
    for width in WIDTHS_S:
        assert read_windows(tmp_path, width) == expected(records, width)


def test_a_topic_without_quota_records_leaves_no_files(spark, cluster, tmp_path):
    topic = create_topic(cluster, unique_name("metrics"))
    produce(cluster.bootstrap, topic, [b"hello", b"world"])
    assert roll_up(spark, cluster, topic, tmp_path) == {"rejected": 2}
    assert contents(tmp_path) == {}


def test_a_broken_earlier_file_is_one_line(spark, cluster, tmp_path):
    topic = create_topic(cluster, unique_name("metrics"))
    produce(cluster.bootstrap, topic, [quota_record()])
    roll_up(spark, cluster, topic, tmp_path)
    (path,) = (tmp_path / "width=10s").iterdir()
    path.write_bytes(b"half")
    with pytest.raises(UserError, match=r"cannot read the earlier windows.*[^\n]*$"):
        roll_up(spark, cluster, topic, tmp_path)


def start(cluster: Cluster, topic: str, output: Path, *more: str) -> subprocess.Popen[str]:
    """The command, in a process group of its own as a terminal gives it."""
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "cluster", "rollup", "--data-dir", str(cluster.data_dir)),
            *("--topic", topic, "--output", str(output), *more),
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_the_command_and_the_report_on_what_it_wrote(cluster, tmp_path):
    topic = create_topic(cluster, unique_name("metrics"))
    records = list(generated_records(9, seconds=30))
    produce(cluster.bootstrap, topic, [*records, b"bad"])
    ran = start(cluster, topic, tmp_path, "--json")
    out, err = ran.communicate(timeout=PATIENCE_S)
    assert ran.returncode == 0, err
    summary = json.loads(out)
    assert summary["records"] == len(records) + 1
    assert summary["rejected_records"] == 1
    assert summary["windows"] == {
        width: read_windows(tmp_path, width).num_rows for width in WIDTHS_S
    }
    assert read_windows(tmp_path, "10s") == expected(records, "10s")
    assert re.fullmatch(r"(  [A-Z][^\n]* \.\.\. \d+\.\d s\n)+", err), "progress and nothing else"
    page = tmp_path / "page.html"
    shown = cluster.command("quotas", "report", "--output", str(tmp_path), "--html", str(page))
    assert "client-0" in shown.stdout
    assert "<svg" in page.read_text()


def begun_jobs(process: psutil.Process) -> list[psutil.Process]:
    """Everything below the command, once Spark's Python workers are among it."""
    found = process.children(recursive=True)
    return found if any("pyspark.daemon" in word for one in found for word in words(one)) else []


def words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill"])
def test_an_end_in_the_middle_leaves_no_process_and_the_old_output(cluster, tmp_path, number):
    topic = create_topic(cluster, unique_name("metrics"))
    records = list(generated_records(10, seconds=60))
    replace_windows(tmp_path, {width: expected(records, width) for width in WIDTHS_S})
    before = contents(tmp_path)
    produce(cluster.bootstrap, topic, generated_records(11, seconds=60))
    command = start(cluster, topic, tmp_path)
    process = psutil.Process(command.pid)
    below = wait_until(lambda: begun_jobs(process), "Spark at work", PATIENCE_S)
    if number == signal.SIGINT:
        os.killpg(command.pid, number)  # a terminal sends it to everything in front
    else:
        command.kill()
    out, err = command.communicate(timeout=PATIENCE_S)
    assert out == ""
    if number == signal.SIGINT:
        assert command.returncode == 130
        assert "Traceback" not in err
    wait_until(lambda: not any(map(psutil.Process.is_running, below)), "every process to be gone")
    assert contents(tmp_path) == before


def test_without_data_or_topic_or_broker_it_is_one_line_at_once(cluster, tmp_path):
    empty = create_topic(cluster, unique_name("metrics"))
    for words_given, reason in (
        (("--topic", empty), f"topic {empty} holds no records yet"),
        (("--topic", "no-such-topic"), "there is no topic no-such-topic"),
        (("--bootstrap-server", "127.0.0.1:1"), "cannot connect to 127.0.0.1:1"),
    ):
        ran = cluster.command("rollup", *words_given, "--output", str(tmp_path), check=False)
        assert ran.returncode == 1
        assert ran.stdout == ""
        assert f"error: {reason}" in ran.stderr.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


def test_a_second_run_into_one_directory_is_one_line_before_spark_starts(cluster, tmp_path):
    topic = create_topic(cluster, unique_name("metrics"))
    produce(cluster.bootstrap, topic, generated_records(12, seconds=5))
    with sole_writer(tmp_path):
        words_given = ("rollup", "--topic", topic, "--output", str(tmp_path))
        ran = cluster.command(*words_given, check=False)
    assert ran.returncode == 1
    assert "Starting Spark" not in ran.stderr
    assert ran.stderr.splitlines()[-1].startswith("error: another rollup is at work in ")
    assert contents(tmp_path) == {}
