"""A rollup that follows: killed in every phase it equals plain Python; ends and refusals."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.follow_process import PLACES
from tests.support.metric_records import (
    as_written,
    generated_group_records,
    generated_records,
    lag_windows_of,
    produce,
    windows_of,
)
from tests.support.running_cluster import Cluster
from tests.support.spark import need_spark
from tests.support.topics import create_topic, unique_name
from tests.support.waiting import wait_until

need_spark()

import pyarrow as pa  # noqa: E402

from cluster.analytics.follow_checkpoint import FollowCheckpoint, Subject  # noqa: E402
from cluster.analytics.window_files import (  # noqa: E402
    GROUP_WINDOWS,
    LAG_WINDOWS,
    WIDTHS_S,
    WINDOW_SCHEMA,
    read_windows,
    sole_writer,
)

# Each start of Spark takes ten seconds and a gigabyte, and a kill needs a start of its own.
pytestmark = [pytest.mark.slow, pytest.mark.spark]

ROOT = Path(__file__).parents[2]
PATIENCE_S = 180.0
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def follow_to_end(cluster: Cluster, topic: str, output: Path, kill_at: str | None = None) -> int:
    """The exit status of a process that follows to the end of the topic, or is killed before."""
    given = {
        "servers": cluster.bootstrap,
        "topic": topic,
        "output": str(output),
        "log": str(output.parent / "follow.log"),
        "most": 700,
        "kill_at": kill_at,
        "batch": 1 if kill_at == "planned" else 2,  # others see the first of these once more
    }
    ran = subprocess.run(
        [sys.executable, "-P", "-m", "tests.support.follow_process", json.dumps(given)],
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ran.returncode in (0, -signal.SIGKILL), ran.stderr
    return ran.returncode


def test_killed_in_every_phase_it_equals_plain_python(cluster, tmp_path):
    topic = create_topic(cluster, unique_name("metrics"), partitions=3)
    groups = list(generated_group_records(21, seconds=60))
    records = [*generated_records(21, seconds=150), *groups]
    late = records[:40]
    bad = [b"not json", b"{}", b"\xff\xfe"]
    produce(cluster.bootstrap, topic, [*records[:900], *bad, *records[900:], *late])
    output = tmp_path / "windows"
    for place in PLACES:
        assert follow_to_end(cluster, topic, output, place) == -signal.SIGKILL
    assert follow_to_end(cluster, topic, output) == 0
    for width, width_s in WIDTHS_S.items():
        found = windows_of([*records, *late], width_s)
        assert read_windows(output, width) == pa.Table.from_pylist(found, schema=WINDOW_SCHEMA)
        for kind in (LAG_WINDOWS, GROUP_WINDOWS):
            rows = lag_windows_of(groups, width_s, kind.name)
            expected = pa.Table.from_pylist(rows, schema=kind.schema)
            assert read_windows(output, width, kind=kind) == expected
    aside = [
        json.loads(line)
        for file in (output / "aside").iterdir()
        for line in file.read_text().splitlines()
    ]
    put_aside = [line for line in aside if line["reason"].startswith("late: ")]
    assert len(aside) - len(put_aside) == len(bad)
    places = {(line["partition"], line["offset"]) for line in put_aside}
    assert len(places) == len(put_aside), "a record that comes late comes once"
    wanted = Counter(as_written(each).decode() for each in late if each["kind"] == "quota")
    assert wanted <= Counter(line["value"] for line in put_aside)


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


def test_it_adds_what_comes_until_ctrl_c(cluster, tmp_path):
    topic = create_topic(cluster, unique_name("metrics"))
    records = list(generated_records(22, seconds=30))
    produce(cluster.bootstrap, topic, records[:200])
    command = start(cluster, topic, tmp_path)
    try:
        assert next_batch(command)["records"] == 200
        produce(cluster.bootstrap, topic, records[200:])
        found = next_batch(command)
        while found["behind"]:
            found = next_batch(command)
        below = psutil.Process(command.pid).children(recursive=True)
        second = cluster.command("rollup", "--topic", topic, "--output", str(tmp_path), check=False)
        assert "another rollup is at work in " in second.stderr
        os.killpg(command.pid, signal.SIGINT)  # a terminal sends it to everything in front
        _, err = command.communicate(timeout=PATIENCE_S)
    finally:
        command.kill()
    assert command.returncode == 0, err
    assert "Traceback" not in err
    wait_until(lambda: not any(map(psutil.Process.is_running, below)), "every process to be gone")
    expected = pa.Table.from_pylist(windows_of(records, 10), schema=WINDOW_SCHEMA)
    assert read_windows(tmp_path, "10s") == expected


def test_a_topic_that_is_deleted_meanwhile_ends_it_with_one_line(cluster, tmp_path):
    topic = create_topic(cluster, unique_name("metrics"))
    produce(cluster.bootstrap, topic, generated_records(23, seconds=10))
    command = start(cluster, topic, tmp_path)
    try:
        next_batch(command)
        cluster.command("topics", "--delete", "--topic", topic)
        _, err = command.communicate(timeout=PATIENCE_S)
    finally:
        command.kill()
    assert command.returncode == 1
    assert f"error: the rollup ended: topic {topic} was deleted" in err.splitlines()[-1]


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("of another topic", "it is about topic another"),
        ("of another version", "it is of version 7, not 1"),
        ("of another query", "it holds metadata, which is not ours"),
        ("damaged", "follow.json is damaged"),
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
    assert "give another --checkpoint, or remove it" in ran.stderr.splitlines()[-1]


def follow_topic(cluster: Cluster) -> str:
    """A topic with a record."""
    topic = create_topic(cluster, unique_name("metrics"))
    produce(cluster.bootstrap, topic, generated_records(24, seconds=1))
    return topic


def test_beside_another_rollup_it_is_one_line_before_spark_starts(cluster, tmp_path):
    with sole_writer(tmp_path):
        ran = cluster.command(
            *("rollup", "--follow", "--topic", follow_topic(cluster)),
            *("--output", str(tmp_path)),
            check=False,
        )
    assert ran.returncode == 1
    assert "Starting Spark" not in ran.stderr
    assert ran.stderr.splitlines()[-1].startswith("error: another rollup is at work in ")
