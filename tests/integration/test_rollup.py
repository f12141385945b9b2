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
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from confluent_kafka.admin import AdminClient

from tests.support.metric_records import (
    START_MS,
    Record,
    as_written,
    generated_group_records,
    generated_records,
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
import pyarrow.parquet as pq  # noqa: E402

from cluster.analytics.rollup import job  # noqa: E402
from cluster.analytics.rollup.follow_job import FollowOptions, Step, follow  # noqa: E402
from cluster.analytics.rollup.job import RollupOptions, RollupSummary  # noqa: E402
from cluster.analytics.rollup.spark_session import spark_session  # noqa: E402
from cluster.analytics.window_files import (  # noqa: E402
    WIDTHS_S,
    WINDOW_SCHEMA,
    read_windows,
    replace_windows,
    sole_writer,
)
from cluster.model.errors import UserError  # noqa: E402
from tests.support.plain_windows import assert_windows_of  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# One JVM for all of them: it costs seconds and a gigabyte.
pytestmark = [pytest.mark.slow, pytest.mark.spark]

ROOT = Path(__file__).parents[2]
PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def spark(tmp_path_factory) -> Iterator["SparkSession"]:
    with spark_session("local[2]", tmp_path_factory.mktemp("spark") / "spark.log") as session:
        yield session


def roll_up(
    spark: "SparkSession", cluster: Cluster, topic: str, output: Path, **how: Any
) -> RollupSummary:
    """What the command does, in a Spark that is there already."""
    options = options_of(cluster, topic, output, **how)
    return job.roll_up(options, lambda _: nullcontext(), lambda *_: nullcontext(spark))


def options_of(cluster: Cluster, topic: str, output: Path, **how: Any) -> RollupOptions:
    return RollupOptions(
        connection={"bootstrap.servers": cluster.bootstrap},
        topic=topic,
        output=output,
        log=output / "rollup.log",
        master="unused",
        **how,
    )


def follow_here(
    spark: "SparkSession",
    cluster: Cluster,
    topic: str,
    output: Path,
    tell: Callable[[Step], None] = lambda _: None,
) -> None:
    """`rollup --follow` in a Spark that is there already."""
    options = FollowOptions(
        rollup=options_of(cluster, topic, output),
        checkpoint=output / ".follow",
        interval_s=0.2,
        most=10_000,
        watermark=timedelta(minutes=1),
    )
    follow(options, lambda _: nullcontext(), tell, lambda: False, lambda *_: nullcontext(spark))


def expected(records, width: str) -> pa.Table:
    rows = windows_of(records, WIDTHS_S[width])
    return pa.Table.from_pylist(rows, schema=WINDOW_SCHEMA)


def contents(output: Path) -> dict[str, bytes]:
    return {str(path.relative_to(output)): path.read_bytes() for path in output.rglob("*.parquet")}


def aside(output: Path) -> list[dict[str, Any]]:
    """What was put aside, in the order of runs."""
    files = sorted((output / "aside").glob("*.jsonl"))
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


def test_runs_that_each_read_what_is_new_equal_plain_python(spark, cluster, tmp_path):
    """Late, doubled and malformed records among them."""
    topic = create_topic(cluster, unique_name("metrics"), partitions=3)
    records = [*generated_records(7, seconds=200), *generated_group_records(7, seconds=200)]
    records.sort(key=lambda record: record["ts"])
    parts = [records[:900], records[900:3500], records[3500:]]
    late = [record for record in parts[0] if record["kind"] == "quota"][:40]
    parts[2] += [*late, *late[:5]]
    bad = [b"not json", b"{}", b'{"v":1,"kind":"quota"}', b"\xff\xfe", b"[" * 1000]
    seen: list[Record] = []
    for number, part in enumerate(parts):
        produce(cluster.bootstrap, topic, [*part, *bad])
        summary = roll_up(spark, cluster, topic, tmp_path)
        kinds = Counter(record["kind"] for record in part)
        kinds["other"] = kinds.pop("broker")
        assert summary.counts == {**kinds, "rejected": len(bad)}
        assert summary.late_records == (0 if number < 2 else 45)
        seen += part
        assert_windows_of(tmp_path, seen)
    assert Counter(line["reason"].partition(" windows")[0] for line in aside(tmp_path)) == {
        "not JSON": 9,
        "v: not version 1": 3,
        "broker: missing": 3,
        "late:": 45,
    }
    put_aside = [line["value"] for line in aside(tmp_path) if line["reason"].startswith("late")]
    assert Counter(put_aside) == Counter(as_written(each).decode() for each in [*late, *late[:5]])

    before = contents(tmp_path)
    assert roll_up(spark, cluster, topic, tmp_path).records == 0
    assert contents(tmp_path) == before
    assert roll_up(spark, cluster, topic, tmp_path, full=True).records == len(seen) + 3 * len(bad)
    assert contents(tmp_path) == before


def test_a_topic_that_was_made_again_is_added(spark, cluster, tmp_path):
    topic = create_topic(cluster, unique_name("metrics"))
    records = list(generated_records(8, seconds=120))
    half = len(records) // 2
    produce(cluster.bootstrap, topic, records[:half])
    roll_up(spark, cluster, topic, tmp_path)
    cluster.command("topics", "--delete", "--topic", topic)
    wait_until(lambda: topic not in topics(cluster), "the topic to be gone")
    create_topic(cluster, topic)
    produce(cluster.bootstrap, topic, records[half:])
    summary = roll_up(spark, cluster, topic, tmp_path)
    assert summary.is_other_topic
    assert_windows_of(tmp_path, records)


def test_a_topic_that_is_deleted_meanwhile_ends_a_rollup_that_follows(spark, cluster, tmp_path):
    topic = create_topic(cluster, unique_name("metrics"))
    produce(cluster.bootstrap, topic, generated_records(23, seconds=10))
    steps: list[Step] = []

    def tell(step: Step) -> None:
        steps.append(step)
        cluster.command("topics", "--delete", "--topic", topic)

    with pytest.raises(UserError, match=rf"^the rollup ended: topic {topic} was deleted[^\n]*$"):
        follow_here(spark, cluster, topic, tmp_path, tell)
    assert len(steps) == 1


def test_without_sparks_own_connector_asking_for_it_is_one_line(spark, cluster, tmp_path):
    topic = create_topic(cluster, unique_name("metrics"))
    produce(cluster.bootstrap, topic, [quota_record()])
    with pytest.raises(UserError, match=r"^this Spark has no connector for Kafka: [^\n]*$"):
        roll_up(spark, cluster, topic, tmp_path, source="kafka")
    assert contents(tmp_path) == {}


def test_windows_of_an_early_version_are_completed(spark, cluster, tmp_path):
    """They lie in files by day; of a window the one with more records is kept."""
    topic = create_topic(cluster, unique_name("metrics"))
    records = list(generated_records(8, seconds=120))
    early = expected(records[: len(records) // 2], "10s").drop_columns(
        ["rate_p95", "utilization", "seconds_throttled"]
    )
    (tmp_path / "width=10s").mkdir()
    pq.write_table(early, tmp_path / "width=10s" / "2026-09-21.parquet")
    with pytest.raises(UserError, match=r"holds windows of an earlier version: run `rollup` "):
        follow_here(spark, cluster, topic, tmp_path)
    produce(cluster.bootstrap, topic, [r for r in records if r["ts"] > START_MS + 20_500])
    roll_up(spark, cluster, topic, tmp_path)
    newer = ["rate_p95", "seconds_throttled", "utilization"]
    found, wanted = (
        each.drop_columns(newer)
        for each in (read_windows(tmp_path, "10s"), expected(records, "10s"))
    )
    assert found == wanted
    assert not (tmp_path / "width=10s" / "2026-09-21.parquet").exists()


def test_windows_of_another_topic_are_one_line(spark, cluster, tmp_path):
    topics_made = [create_topic(cluster, unique_name("metrics")) for _ in range(2)]
    for topic in topics_made:
        produce(cluster.bootstrap, topic, [quota_record()])
    roll_up(spark, cluster, topics_made[0], tmp_path)
    with pytest.raises(UserError, match=r"holds windows of topic [^\n]*$"):
        roll_up(spark, cluster, topics_made[1], tmp_path)


def test_a_topic_without_quota_records_leaves_no_windows(spark, cluster, tmp_path):
    topic = create_topic(cluster, unique_name("metrics"))
    produce(cluster.bootstrap, topic, [b"hello", b"world"])
    assert roll_up(spark, cluster, topic, tmp_path).counts == {"rejected": 2}
    assert contents(tmp_path) == {}
    assert [line["offset"] for line in aside(tmp_path)] == [0, 1]


def test_a_broken_earlier_file_is_one_line(spark, cluster, tmp_path):
    topic = create_topic(cluster, unique_name("metrics"))
    produce(cluster.bootstrap, topic, [quota_record()])
    roll_up(spark, cluster, topic, tmp_path)
    (path,) = (tmp_path / "width=10s").glob("*/*.parquet")
    path.write_bytes(b"half")
    produce(cluster.bootstrap, topic, [quota_record()])
    with pytest.raises(UserError, match=r"cannot read the earlier windows.*[^\n]*$"):
        roll_up(spark, cluster, topic, tmp_path)


def topics(cluster: Cluster) -> list[str]:
    return list(
        AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=10).topics
    )


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


def test_ctrl_c_in_the_middle_leaves_no_process_and_the_old_output(cluster, tmp_path):
    topic = create_topic(cluster, unique_name("metrics"))
    records = list(generated_records(10, seconds=60))
    replace_windows(tmp_path, {width: expected(records, width) for width in WIDTHS_S})
    before = contents(tmp_path)
    produce(cluster.bootstrap, topic, generated_records(11, seconds=60))
    command = start(cluster, topic, tmp_path)
    process = psutil.Process(command.pid)
    below = wait_until(lambda: begun_jobs(process), "Spark at work", PATIENCE_S)
    os.killpg(command.pid, signal.SIGINT)  # a terminal sends it to everything in front
    out, err = command.communicate(timeout=PATIENCE_S)
    assert out == ""
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
