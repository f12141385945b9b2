"""A rollup that follows: killed in every phase it equals plain Python; ends and refusals."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.metric_records import (
    START_MS,
    as_written,
    generated_records,
    produce,
)
from tests.support.running_cluster import Cluster
from tests.support.spark import need_spark
from tests.support.topics import metrics_topic, unique_name
from tests.support.waiting import wait_until

need_spark()

from cluster.analytics.rollup.follow_checkpoint import FollowCheckpoint, Subject  # noqa: E402
from cluster.analytics.windows.directory import WindowDirectory  # noqa: E402
from cluster.analytics.windows.store import LocalStore  # noqa: E402
from tests.support.follow_process import JAVA_KILLED, PLACES  # noqa: E402
from tests.support.reference_windows import every_kind  # noqa: E402
from tests.support.window_directories import assert_plain, assert_read  # noqa: E402

# Each start of Spark takes ten seconds and a gigabyte, and a kill needs a start of its own.
pytestmark = [pytest.mark.slow, pytest.mark.spark]

ROOT = Path(__file__).parents[2]
PATIENCE_S = 180.0
DAY_MS = 86_400_000
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def follow_to_end(
    cluster: Cluster, topic: str, output: Path, kill_at: str | None = None
) -> subprocess.CompletedProcess[str]:
    """A process that follows to the end of the topic, or is killed before; nothing is left of it.

    By its environment, which Spark's processes inherit, all of them are known.
    """
    given = {
        "servers": cluster.bootstrap,
        "topic": topic,
        "output": str(output),
        "log": str(output.parent / "follow.log"),
        "most": 700,
        "kill_at": kill_at,
    }
    mark = unique_name("follow")
    ran = subprocess.run(
        [sys.executable, "-P", "-m", "tests.support.follow_process", json.dumps(given)],
        cwd=ROOT,
        env={**ENVIRONMENT, "FOLLOWS_AS": mark},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    wait_until(lambda: not processes_of(mark), "every process to be gone")
    return ran


def processes_of(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("FOLLOWS_AS") == mark:
                found.append(process)
    return found


@pytest.mark.long
def test_following_rollup_killed_in_each_phase_equals_plain_python(cluster, tmp_path):
    topic = metrics_topic(cluster, partitions=3)
    before = every_kind(20, seconds=40, start_ms=START_MS - DAY_MS)
    assert len(before) > 700, "more than a batch, so that there are hours to merge from the first"
    records = [*before, *every_kind(21, seconds=120)]
    late = [each for each in records[len(before) :] if each["kind"] == "quota"][:40]
    bad = [b"not json", b"{}", b"\xff\xfe"]
    produce(cluster.bootstrap, topic, [*records[:1700], *bad, *records[1700:], *late])
    output = tmp_path / "windows"
    for place in PLACES:
        ran = follow_to_end(cluster, topic, output, place)
        assert ran.returncode == -signal.SIGKILL, f"{place}: {ran.stderr}"
    produce(cluster.bootstrap, topic, late)
    ran = follow_to_end(cluster, topic, output, JAVA_KILLED)
    assert ran.returncode == 1, ran.stderr
    assert re.fullmatch(r"the rollup failed: Spark's Java process has ended: [^\n]+\n", ran.stderr)
    ran = follow_to_end(cluster, topic, output)
    assert ran.returncode == 0, ran.stderr
    assert_read(output, [*records, *late, *late])
    assert_plain(output, [*records, *late, *late])
    quarantined = [
        json.loads(line)
        for file in (output / "_meta" / "aside").iterdir()
        for line in file.read_text().splitlines()
    ]
    late_lines = [line for line in quarantined if line["reason"].startswith("late: ")]
    assert len(quarantined) - len(late_lines) == len(bad)
    places = {(line["partition"], line["offset"]) for line in late_lines}
    assert len(places) == len(late_lines), "a record that comes late comes once"
    wanted = Counter(as_written(each).decode() for each in [*late, *late])
    assert wanted <= Counter(line["value"] for line in late_lines)


def start(cluster: Cluster, topic: str, output: Path) -> subprocess.Popen[str]:
    """The command, in a process group of its own as a terminal gives it."""
    return subprocess.Popen(
        [
            *(sys.executable, "-P", "-m", "cluster", "rollup", "--follow", "--json"),
            *("--data-dir", str(cluster.data_dir), "--trigger-interval", "1s"),
            *("--topic", topic, "--output", str(output)),
        ],
        cwd=ROOT,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def next_batch(command: subprocess.Popen[str]) -> dict[str, Any]:
    """The next line that the command prints, within pytest's time limit."""
    assert command.stdout is not None
    line = command.stdout.readline()
    assert line, command.communicate()[1]
    found: dict[str, Any] = json.loads(line)
    return found


def test_following_rollup_counts_lost_records_and_adds_new_ones_until_ctrl_c(cluster, tmp_path):
    """After 200 records in the windows, retention has removed 50 that it did not read."""
    topic = metrics_topic(cluster)
    records = every_kind(22, seconds=30)
    place = ("--topic", topic, "--output", str(tmp_path))
    produce(cluster.bootstrap, topic, records[:200])
    cluster.command("rollup", "--engine", "local", *place)
    produce(cluster.bootstrap, topic, records[200:300])
    where = ("--topic", topic, "--partition", "0", "--before-offset", "250")
    cluster.command("delete-records", *where)
    command = start(cluster, topic, tmp_path)
    try:
        found = next_batch(command)
        assert (found["lost"], found["records"]) == (50, 50)
        produce(cluster.bootstrap, topic, records[300:])
        found = next_batch(command)
        while found["behind"]:
            found = next_batch(command)
        below = psutil.Process(command.pid).children(recursive=True)
        second = cluster.command("rollup", *place, check=False)
        assert "another rollup is at work in " in second.stderr
        os.killpg(command.pid, signal.SIGINT)  # a terminal sends it to everything in front
        _, err = command.communicate(timeout=PATIENCE_S)
    finally:
        command.kill()
    assert command.returncode == 0, err
    assert "Traceback" not in err
    wait_until(lambda: not any(map(psutil.Process.is_running, below)), "every process to be gone")
    kept = [*records[:200], *records[250:]]
    assert_read(tmp_path, kept)
    assert_plain(tmp_path, kept)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("of another topic", "it belongs to topic another"),
        ("of another version", "it is of version 7, not 1"),
        ("of another query", "it holds metadata, which is not ours"),
        ("damaged", "follow.json is damaged"),
        ("a file", "Not a directory"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_one_line_before_spark_starts(
    cluster, tmp_path, kind, why
):
    place = tmp_path / "checkpoint"
    FollowCheckpoint(place).begin(Subject("another", None, "schema"), {})
    if kind == "of another version":
        (place / "follow.json").write_text('{"version": 7}')
    elif kind == "damaged":
        (place / "follow.json").write_text("half")
    elif kind == "a file":
        shutil.rmtree(place)
        place.write_text("")
    elif kind == "of another query":
        (place / "follow.json").rename(place / "metadata")
    ran = cluster.command(
        *("rollup", "--follow", "--topic", follow_topic(cluster)),
        *("--output", str(tmp_path / "windows"), "--checkpoint", str(place)),
        check=False,
    )
    assert ran.returncode == 1
    assert "Starting Spark" not in ran.stderr
    assert why in ran.stderr.splitlines()[-1]
    assert ran.stderr.splitlines()[-1].startswith(f"error: cannot use the checkpoint {place}: ")


def follow_topic(cluster: Cluster) -> str:
    """A topic with a record."""
    topic = metrics_topic(cluster)
    produce(cluster.bootstrap, topic, generated_records(24, seconds=1))
    return topic


def test_following_rollup_is_refused_beside_another_one(cluster, tmp_path):
    with WindowDirectory.open(LocalStore(tmp_path)):
        ran = cluster.command(
            *("rollup", "--follow", "--topic", follow_topic(cluster)),
            *("--output", str(tmp_path)),
            check=False,
        )
    assert ran.returncode == 1
    assert "Starting Spark" not in ran.stderr
    assert ran.stderr.splitlines()[-1].startswith("error: another rollup is at work in ")
