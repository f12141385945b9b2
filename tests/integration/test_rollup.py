"""The rollup of a live cluster's topic: against plain Python, again, interrupted, without data."""

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from confluent_kafka.admin import AdminClient

from tests.support.metric_records import (
    Record,
    as_written,
    generated_records,
    produce,
    quota_record,
)
from tests.support.running_cluster import Cluster
from tests.support.spark import java_log, need_spark
from tests.support.topics import create_topic, metrics_topic, unique_name
from tests.support.waiting import wait_until

need_spark()

from cluster.analytics.rollup import job, spark_tasks  # noqa: E402
from cluster.analytics.rollup.engines import LOCAL, SPARK  # noqa: E402
from cluster.analytics.rollup.follow_job import BatchReport, FollowOptions, follow  # noqa: E402
from cluster.analytics.rollup.job import RollupOptions, RollupSummary  # noqa: E402
from cluster.analytics.rollup.kafka_records import topic_state  # noqa: E402
from cluster.analytics.rollup.spark_session import spark_session  # noqa: E402
from cluster.analytics.windows.directory import WindowDirectory  # noqa: E402
from cluster.analytics.windows.kinds import KIND_OF, WINDOW_KINDS  # noqa: E402
from cluster.analytics.windows.reading import read_windows  # noqa: E402
from cluster.analytics.windows.store import LocalStore  # noqa: E402
from cluster.analytics.windows.widths import WIDTHS_S  # noqa: E402
from cluster.model.errors import UserError  # noqa: E402
from tests.support.reference_windows import every_kind  # noqa: E402
from tests.support.window_directories import assert_plain, assert_read  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# One JVM for all of them: it costs seconds and a gigabyte.
pytestmark = [pytest.mark.slow, pytest.mark.spark]

ROOT = Path(__file__).parents[2]
PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def spark_log(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("spark") / "spark.log"


@pytest.fixture(scope="module")
def spark(spark_log) -> Iterator["SparkSession"]:
    with spark_session("local[2]", spark_log) as session:
        yield session


def roll_up(
    spark: "SparkSession | None", cluster: Cluster, topic: str, output: Path, **how: Any
) -> RollupSummary:
    """What the command does: in a Spark that is there already, or without one."""
    options = options_of(
        cluster, topic, output, **{"engine": LOCAL if spark is None else SPARK, **how}
    )
    return job.roll_up(options, lambda _: nullcontext(), lambda: nullcontext(spark))


def options_of(cluster: Cluster, topic: str, output: Path, **how: Any) -> RollupOptions:
    return RollupOptions(
        connection={"bootstrap.servers": cluster.bootstrap},
        topic=topic,
        output=str(output),
        log=output / "rollup.log",
        master="local[2]",
        **how,
    )


def follow_here(
    spark: "SparkSession",
    cluster: Cluster,
    topic: str,
    output: Path,
    tell: Callable[[BatchReport], None] = lambda _: None,
) -> None:
    """`rollup --follow` in a Spark that is there already."""
    options = FollowOptions(
        rollup=options_of(cluster, topic, output),
        checkpoint=output / "_follow",
        interval_s=0.2,
        most=10_000,
        watermark=timedelta(minutes=1),
    )
    follow(options, lambda _: nullcontext(), tell, lambda: False, lambda: nullcontext(spark))


@pytest.fixture(params=[LOCAL, SPARK])
def engine(request) -> "SparkSession | None":
    """Each of the ways in which the work is done, as `roll_up` takes it."""
    return request.getfixturevalue("spark") if request.param == SPARK else None


def contents(output: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(output)): path.read_bytes()
        for path in output.glob("kind=*/**/*.parquet")
    }


def quarantined(output: Path) -> list[dict[str, Any]]:
    """The quarantined records in the order of runs."""
    files = sorted((output / "_meta" / "aside").glob("*.jsonl"))
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


def test_runs_that_each_read_what_is_new_equal_plain_python(engine, cluster, tmp_path):
    """Late, doubled and malformed records among them."""
    topic = metrics_topic(cluster, partitions=3)
    records = sorted(every_kind(7, seconds=150), key=lambda record: record["ts"])
    parts = [records[:900], records[900:3500], records[3500:]]
    late = [record for record in parts[0] if record["kind"] == "quota"][:40]
    parts[2] += [*late, *late[:5]]
    bad = [b"not json", b"{}", b'{"v":1,"kind":"quota"}', b"\xff\xfe", b"[" * 1000]
    seen: list[Record] = []
    for number, part in enumerate(parts):
        produce(cluster.bootstrap, topic, [*part, *bad])
        summary = roll_up(engine, cluster, topic, tmp_path)
        assert summary.counts == Counter(record["kind"] for record in part)
        assert sum(summary.rejected.values()) == len(bad)
        assert summary.late == (0 if number < 2 else 45)
        seen += part
        assert_read(tmp_path, seen)
        assert_plain(tmp_path, seen)
    assert Counter(line["reason"].partition(" windows")[0] for line in quarantined(tmp_path)) == {
        "not JSON": 9,
        "v: not version 1": 3,
        "ts: missing": 3,
        "late:": 45,
    }
    late_lines = [
        line["value"] for line in quarantined(tmp_path) if line["reason"].startswith("late")
    ]
    assert Counter(late_lines) == Counter(as_written(each).decode() for each in [*late, *late[:5]])

    before = contents(tmp_path)
    assert roll_up(engine, cluster, topic, tmp_path).records == 0
    assert contents(tmp_path) == before
    again = roll_up(engine, cluster, topic, tmp_path, full=True)
    assert again.records == len(seen) + 3 * len(bad)
    assert again.late == 0
    assert_read(tmp_path, seen)
    assert_plain(tmp_path, seen)


def test_both_engines_make_the_same_windows_in_any_number_of_runs(spark, cluster, tmp_path):
    topic = metrics_topic(cluster, partitions=3)
    records = every_kind(17, seconds=100)
    half = len(records) // 2
    produce(cluster.bootstrap, topic, records[:half])
    for name, engine in (("here", None), ("spark", spark)):
        roll_up(engine, cluster, topic, tmp_path / f"{name} twice")
    produce(cluster.bootstrap, topic, records[half:])
    for name, engine in (("here", None), ("spark", spark)):
        roll_up(engine, cluster, topic, tmp_path / f"{name} twice")
        roll_up(engine, cluster, topic, tmp_path / f"{name} once")
    for kind in WINDOW_KINDS:
        for width in WIDTHS_S:
            first, *others = (
                read_windows(tmp_path / place, kind, width)
                for place in ("here twice", "here once", "spark twice", "spark once")
            )
            assert first.num_rows, kind.name
            assert all(each.equals(first) for each in others), (kind.name, width)


def test_auto_engine_leaves_many_records_to_spark(spark, cluster, tmp_path, monkeypatch):
    monkeypatch.setattr("cluster.analytics.rollup.engines.LOCAL_RECORDS_MAX", 5)
    topic = metrics_topic(cluster)
    produce(cluster.bootstrap, topic, [quota_record()] * 5)
    assert roll_up(spark, cluster, topic, tmp_path, engine="auto").engine == LOCAL
    produce(cluster.bootstrap, topic, [quota_record()] * 6)
    assert roll_up(spark, cluster, topic, tmp_path, engine="auto").engine == SPARK
    produce(cluster.bootstrap, topic, [quota_record()] * 6)
    assert roll_up(None, cluster, topic, tmp_path).engine == LOCAL
    assert_read(tmp_path, [quota_record()] * 17)


def test_records_of_a_recreated_topic_are_added(cluster, tmp_path):
    topic = metrics_topic(cluster)
    records = every_kind(8, seconds=60)
    half = len(records) // 2
    produce(cluster.bootstrap, topic, records[:half])
    roll_up(None, cluster, topic, tmp_path)
    former = manifest(tmp_path)["topic_id"]
    cluster.command("topics", "--delete", "--topic", topic)
    wait_until(lambda: topic not in topics(cluster), "the topic to be gone")
    create_topic(cluster, topic, configs={"retention.ms": "-1"})
    produce(cluster.bootstrap, topic, records[half:])
    summary = roll_up(None, cluster, topic, tmp_path)
    assert summary.is_other_topic
    assert_read(tmp_path, records)
    assert [each["topic_id"] for each in manifest(tmp_path)["former_topics"]] == [former]


def manifest(output: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((output / "_meta" / "manifest.json").read_text())
    return found


def test_windows_of_another_cluster_are_refused_by_every_way_in(
    spark, cluster, tmp_path, monkeypatch
):
    topic = metrics_topic(cluster)
    produce(cluster.bootstrap, topic, [quota_record()])
    roll_up(None, cluster, topic, tmp_path)
    here = manifest(tmp_path)["cluster_id"]
    monkeypatch.setattr(
        job, "topic_state", lambda *given: topic_state(*given)._replace(cluster_id="elsewhere")
    )
    words = (
        rf"^{tmp_path} holds windows of cluster {here}, and {cluster.bootstrap} is cluster"
        r" elsewhere: give another --output for it$"
    )
    for full in (False, True):
        with pytest.raises(UserError, match=words):
            roll_up(None, cluster, topic, tmp_path, full=full)
    with pytest.raises(UserError, match=words):
        follow_here(spark, cluster, topic, tmp_path)
    assert_read(tmp_path, [quota_record()])


def test_a_topic_that_is_deleted_meanwhile_ends_a_rollup_that_follows(spark, cluster, tmp_path):
    topic = metrics_topic(cluster)
    produce(cluster.bootstrap, topic, generated_records(23, seconds=10))
    steps: list[BatchReport] = []

    def tell(step: BatchReport) -> None:
        steps.append(step)
        cluster.command("topics", "--delete", "--topic", topic)

    with pytest.raises(UserError, match=rf"^the rollup failed: topic {topic} was deleted[^\n]*$"):
        follow_here(spark, cluster, topic, tmp_path, tell)
    assert len(steps) == 1


def test_without_sparks_own_connector_asking_for_it_is_one_line(spark, cluster, tmp_path):
    topic = metrics_topic(cluster)
    produce(cluster.bootstrap, topic, [quota_record()])
    with pytest.raises(UserError, match=r"^this Spark has no connector for Kafka: [^\n]*$"):
        roll_up(spark, cluster, topic, tmp_path, source="kafka")
    assert contents(tmp_path) == {}


def test_a_worker_that_fails_says_why_in_its_own_words(spark, cluster, tmp_path):
    topic = metrics_topic(cluster)
    produce(cluster.bootstrap, topic, [quota_record()])
    roll_up(spark, cluster, topic, tmp_path)
    (path,) = (tmp_path / "kind=quota" / "width=10s").glob("*/*.parquet")
    path.write_bytes(b"half")
    produce(cluster.bootstrap, topic, [quota_record()])
    with pytest.raises(UserError, match=rf"^the rollup failed: {path} is damaged: [^\n]*$"):
        roll_up(spark, cluster, topic, tmp_path)
    with pytest.raises(UserError, match=rf"^{path} is damaged: [^\n]*$"):
        roll_up(None, cluster, topic, tmp_path)


READING = """
import re, sys
from pathlib import Path
from cluster.analytics.rollup.kafka_records import read_range
from cluster.analytics.rollup.offset_ranges import OffsetRange
connection = {"bootstrap.servers": sys.argv[1]}
def highest():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
before = highest()
wanted = OffsetRange(0, 0, int(sys.argv[3]))
count = sum(
    len(block.values)
    for block in read_range(connection, sys.argv[2], wanted, fail_on_data_loss=True)
)
print(count, highest() - before)
"""
"""Reads a topic's partition, and prints how many records it has and what memory (KiB) it took."""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux tells the memory")
def test_large_records_are_not_in_memory_together(cluster):
    topic = create_topic(cluster, unique_name("metrics"), replication_factor=1)
    count, size = 300, 900_000
    produce(cluster.bootstrap, topic, (os.urandom(size) for _ in range(count)))
    ran = subprocess.run(
        [sys.executable, "-c", READING, cluster.bootstrap, topic, str(count)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    found, memory_kib = map(int, ran.stdout.split())
    assert found == count
    assert memory_kib < 160 << 10, "a block, the client's queue and what is on its way"


def test_a_password_is_in_no_log_and_no_plan_of_spark(spark, cluster, tmp_path, capfd):
    topic = metrics_topic(cluster)
    produce(cluster.bootstrap, topic, [quota_record()])
    options = options_of(cluster, topic, tmp_path, engine=SPARK)
    options = replace(options, connection={**options.connection, "sasl.password": "hunter2"})
    following = FollowOptions(options, tmp_path / "_follow", 0.1, 10, timedelta(minutes=1), True)
    before = java_log().stat().st_size
    spark.sparkContext.setLogLevel("INFO")
    try:
        job.roll_up(options, lambda _: nullcontext(), lambda: nullcontext(spark))
        spark.read.format(spark_tasks.SHORT_NAME).load().explain(extended=True)
        produce(cluster.bootstrap, topic, [quota_record()])
        follow(
            following,
            lambda _: nullcontext(),
            lambda _: None,
            lambda: False,
            lambda: nullcontext(spark),
        )
    finally:
        spark.sparkContext.setLogLevel("ERROR")
    logged = java_log().read_bytes()[before:]
    assert b"Starting task" in logged
    assert b"hunter2" not in logged
    assert "hunter2" not in "".join(capfd.readouterr())
    assert_read(tmp_path, [quota_record()] * 2)


def test_windows_of_another_topic_are_one_line(cluster, tmp_path):
    topics_made = [metrics_topic(cluster) for _ in range(2)]
    for topic in topics_made:
        produce(cluster.bootstrap, topic, [quota_record()])
    roll_up(None, cluster, topics_made[0], tmp_path)
    with pytest.raises(UserError, match=r"holds windows of topic [^\n]*$"):
        roll_up(None, cluster, topics_made[1], tmp_path)


def test_a_topic_without_metric_records_leaves_no_windows(cluster, tmp_path):
    topic = metrics_topic(cluster)
    produce(cluster.bootstrap, topic, [b"hello", b"world"])
    assert roll_up(None, cluster, topic, tmp_path).rejected == {"not JSON": 2}
    assert contents(tmp_path) == {}
    assert [line["offset"] for line in quarantined(tmp_path)] == [0, 1]


def test_an_output_that_cannot_be_used_is_one_line(cluster, tmp_path):
    topic = metrics_topic(cluster)
    produce(cluster.bootstrap, topic, [quota_record()])
    file = tmp_path / "file"
    file.write_text("")
    for place, reason in (
        (str(file / "windows"), "cannot write to .*/file/windows: [A-Z][a-z ]+"),
        ("s4://bucket/windows", "cannot keep windows at s4://bucket/windows: .*"),
        ("hdfs://nowhere/windows", ".*hdfs.*"),
    ):
        options = replace(options_of(cluster, topic, tmp_path), output=place)
        with pytest.raises(UserError, match=rf"^{reason}$"):
            job.roll_up(options, lambda _: nullcontext(), lambda: nullcontext(None))
    assert list(Path.cwd().glob("s4:*")) == []


def test_windows_are_removed_as_their_widths_say(cluster, tmp_path):
    topic = metrics_topic(cluster)
    produce(cluster.bootstrap, topic, [quota_record()])
    old = timedelta(days=2)
    summary = roll_up(None, cluster, topic, tmp_path, retain={"10s": old, "1m": old})
    assert summary.removed_files == 2
    held = {width: read_windows(tmp_path, KIND_OF["quota"], width).num_rows for width in WIDTHS_S}
    assert held == {"10s": 0, "1m": 0, "1h": 1, "1d": 1}


def topics(cluster: Cluster) -> list[str]:
    return list(
        AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=10).topics
    )


def start(
    cluster: Cluster, topic: str, output: Path, *more: str, **environment: str
) -> subprocess.Popen[str]:
    """The command, in a process group of its own as a terminal gives it."""
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "cluster", "rollup", "--data-dir", str(cluster.data_dir)),
            *("--topic", topic, "--output", str(output), *more),
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_rollup_command_prints_what_it_did(cluster, tmp_path):
    topic = metrics_topic(cluster)
    records = every_kind(9, seconds=30)
    produce(cluster.bootstrap, topic, [*records, b"bad"])
    ran = start(cluster, topic, tmp_path, "--json", "--engine", "spark")
    out, err = ran.communicate(timeout=PATIENCE_S)
    assert ran.returncode == 0, err
    summary = json.loads(out)
    assert summary["records"] == len(records) + 1
    assert summary["rejected_records"] == 1
    assert summary["rejected"] == {"not JSON": 1}
    assert summary["engine"] == "spark"
    kinds = Counter(record["kind"] for record in records)
    for kind in WINDOW_KINDS:
        assert summary[f"{kind.name}_records"] == kinds[kind.name]
        name = "windows" if kind.name == "quota" else f"{kind.name}_windows"
        assert summary[name] == {
            width: read_windows(tmp_path, kind, width).num_rows for width in WIDTHS_S
        }
    assert_read(tmp_path, records)
    assert re.fullmatch(r"(  [A-Z][^\n]* \.\.\. \d+\.\d s\n)+", err), "progress and nothing else"
    assert cluster.data_dir.joinpath("logs", "rollup.log").exists()


def test_few_records_need_neither_spark_nor_java(cluster, tmp_path):
    topic = metrics_topic(cluster)
    records = every_kind(9, seconds=10)
    produce(cluster.bootstrap, topic, records)
    asked = tmp_path / "java was asked"
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\n: > '{asked}'\nexit 1\n")
    java.chmod(0o755)
    path = f"{java.parent}{os.pathsep}{os.environ['PATH']}"
    ran = start(cluster, topic, tmp_path / "windows", PATH=path, JAVA_HOME=str(tmp_path))
    out, err = ran.communicate(timeout=PATIENCE_S)
    assert ran.returncode == 0, err
    assert "by this process" in out
    assert not asked.exists()
    assert_read(tmp_path / "windows", records)


def begun_jobs(process: psutil.Process) -> list[psutil.Process]:
    """Everything below the command, once Spark's Python workers are among it."""
    found = process.children(recursive=True)
    return found if any("pyspark.daemon" in word for one in found for word in words(one)) else []


def words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def test_ctrl_c_in_the_middle_leaves_no_process_and_the_old_output(cluster, tmp_path):
    topic = metrics_topic(cluster)
    produce(cluster.bootstrap, topic, generated_records(10, seconds=60))
    roll_up(None, cluster, topic, tmp_path)
    before = contents(tmp_path)
    produce(cluster.bootstrap, topic, generated_records(11, seconds=60))
    command = start(cluster, topic, tmp_path, "--engine", "spark")
    process = psutil.Process(command.pid)
    below = wait_until(lambda: begun_jobs(process), "Spark at work", PATIENCE_S)
    os.killpg(command.pid, signal.SIGINT)  # a terminal sends it to everything in front
    out, err = command.communicate(timeout=PATIENCE_S)
    assert out == ""
    assert command.returncode == 130, err
    assert "Traceback" not in err
    wait_until(lambda: not any(map(psutil.Process.is_running, below)), "every process to be gone")
    assert contents(tmp_path) == before


def test_rollup_reports_missing_data_topic_or_broker_in_one_line(cluster, tmp_path):
    empty = metrics_topic(cluster)
    for words_given, reason in (
        (("--topic", empty), f"topic {empty} holds no records yet"),
        (("--topic", "no-such-topic"), "there is no topic no-such-topic"),
        (("--bootstrap-server", "127.0.0.1:1"), "cannot connect to 127.0.0.1:1"),
    ):
        ran = cluster.command("rollup", *words_given, "--output", str(tmp_path), check=False)
        assert ran.returncode == 1
        assert ran.stdout == ""
        assert f"error: {reason}" in ran.stderr.splitlines()[-1]
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_second_run_into_one_directory_is_one_line_before_spark_starts(cluster, tmp_path):
    topic = metrics_topic(cluster)
    produce(cluster.bootstrap, topic, generated_records(12, seconds=5))
    with WindowDirectory.open(LocalStore(tmp_path)):
        words_given = ("rollup", "--topic", topic, "--output", str(tmp_path), "--engine", "spark")
        ran = cluster.command(*words_given, check=False)
    assert ran.returncode == 1
    assert "Starting Spark" not in ran.stderr
    assert ran.stderr.splitlines()[-1].startswith("error: another rollup is at work in ")
    assert contents(tmp_path) == {}
