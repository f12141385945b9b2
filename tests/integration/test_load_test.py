"""`load-test` on whole clusters: what it measures, verifies and leaves behind."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from cluster.tools.main import main
from tests.support.running_cluster import Cluster
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
WORKER = "cluster.loadtest.worker_process"


def run_json(cluster: Cluster, options: str, status: int = 0) -> dict:
    done = cluster.command("load-test", "--json", *options.split(), check=False)
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout)


def topics(cluster: Cluster) -> list[str]:
    return cluster.command("topics", "--list").stdout.split()


@contextmanager
def started(cluster: Cluster, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A load test that runs while the block does."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "cluster", "load-test", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT), "MILENA_DATA_DIR": str(cluster.data_dir)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def workers_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    children = psutil.Process(process.pid).children(recursive=True)
    return [child for child in children if WORKER in child.cmdline()]


def is_gone(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_transactions_are_committed_and_every_record_of_them_arrives(cluster):
    options = "--transactional --transaction-duration-ms 200 --producers 2 --num-records 3000"
    result = run_json(cluster, f"{options} --throughput 1500 --transactional-id loaded")
    assert result["verified"]["lost"] == 0
    assert result["verified"]["sent"] == result["verified"]["received"] == 3_000
    for producer in result["producers"]:
        assert producer["transactions"]["committed"] >= 2
        assert producer["transactions"]["aborted"] == 0
        latency = producer["transactions"]["commit_latency_ms"]
        assert 0 < latency["p50"] <= latency["p99"] <= latency["max"]
    listed = cluster.command("transactions", "list", "--transactional-id-pattern", "loaded-.")
    assert listed.stdout.count("CompleteCommit") == 2


def test_every_record_is_sent_on_time_and_verified(cluster):
    options = "--producers 2 --consumers 2 --num-records 8000 --throughput 4000"
    result = run_json(cluster, f"{options} --partitions 4 --record-size 200")

    assert result["verified"]["sent"] == result["verified"]["received"] == 8_000
    assert all(result["verified"][fault] == 0 for fault in ("lost", "duplicates", "out_of_order"))
    assert set(result["verified"]["partitions"]) == {"0", "1", "2", "3"}
    assert [one["client_id"] for one in result["producers"]] == [
        "load-producer-1",
        "load-producer-2",
    ]
    assert [one["records"] for one in result["producers"]] == [4_000, 4_000]
    assert sum(one["bytes"] for one in result["consumers"]) == 8_000 * 200
    for one in result["producers"]:
        assert one["records_per_s"] == pytest.approx(2_000, rel=0.2)
        latency = one["latency_ms"]
        assert 0 < latency["p50"] <= latency["p99"] <= latency["p99.9"] <= latency["max"]
    assert result["exit_status"] == 0
    assert result["topic"] not in topics(cluster)


def test_a_topic_that_was_there_stays_and_its_records_do_not_count(cluster):
    cluster.command("topics", "--create", "--topic", "loaded", "--partitions", "3")
    options = "--topic loaded --num-records 500 --throughput -1 --key-distribution zipf"
    for codec in ("none", "zstd"):
        result = run_json(cluster, f"{options} --compression-codec {codec}")
        assert result["verified"]["received"] == 500
        assert result["verified"]["lost"] == result["verified"]["duplicates"] == 0
    assert "loaded" in topics(cluster)


def test_load_test_prints_lines_and_a_table(cluster):
    options = ["--duration=2.5", "--throughput=1000", "--reporting-interval=1000"]
    done = cluster.command("load-test", *options)
    assert "records/s (" in done.stderr.splitlines()[0]
    assert "ms avg latency" in done.stderr.splitlines()[0]
    heading, *rows = done.stdout.splitlines()
    assert heading.split()[:4] == ["CLIENT", "RECORDS", "RECORDS/s", "MiB/s"]
    assert [row.split()[0] for row in rows[:2]] == ["load-producer-1", "load-consumer-1"]
    assert "Sent 2,500 records: 2,500 acknowledged, 0 failed, 0 unacknowledged." in done.stdout
    assert "2500 records sent, " in done.stdout
    assert "✓ 2500 of 2500 records arrived" in done.stdout
    assert done.stderr.splitlines()[-1] == (
        "Deleted topic load-test, made for this test; --keep keeps it."
    )


def test_keep_keeps_the_topic_and_the_offsets_of_the_group(cluster):
    words = "--keep --topic kept --group keepers --num-records 100 --throughput -1"
    done = cluster.command("load-test", *words.split())
    assert "Kept topic kept and the offsets of group keepers." in done.stderr
    assert "kept" in topics(cluster)
    described = cluster.command("groups", "describe", "keepers").stdout
    assert "kept" in described
    cluster.command("topics", "delete", "kept")


def test_records_that_cannot_be_delivered_are_exit_status_1(cluster):
    result = run_json(cluster, "--num-records 3 --record-size 2000000 --consumers 0", status=1)
    (producer,) = result["producers"]
    assert (producer["records"], producer["failed"]) == (0, 3)
    assert len(producer["errors"]) == 1


def test_a_wait_for_answers_that_do_not_come_is_explained_and_is_no_success(cluster):
    configs = ("--config", f"min.insync.replicas={cluster.size + 1}")
    cluster.command("topics", "--create", "--topic", "unwritable", *configs)
    options = "--topic unwritable --num-records 20 --producer-props message.timeout.ms=8000"
    done = cluster.command("load-test", *options.split(), check=False)
    assert done.returncode == 1
    assert "load-producer-1 has sent its last record and waits for the answers to 20" in done.stderr
    assert "for answers (at most message.timeout.ms=8000 for each)" in done.stdout
    counts = "✗ 0 of 20 records arrived, 20 could not be delivered, 0 others lost"
    assert counts in done.stdout.splitlines()[-1]


def test_a_group_loses_nothing_when_a_member_is_killed_and_repeats_are_counted(cluster):
    options = "--group survivors --consumers 3 --partitions 6 --duration 3 --throughput 1000"
    limits = "--consumer-props session.timeout.ms=6000 heartbeat.interval.ms=500"
    result = run_json(cluster, f"{options} {limits} --kill-consumer 1.5 --record-size 100")
    verified, group = result["verified"], result["group"]
    assert (verified["received"], verified["lost"], verified["out_of_order"]) == (3_000, 0, 0)
    # It had committed a second before at most.
    assert verified["duplicates"] <= 1_000
    assert group["killed"] == ["load-consumer-1"]
    assert (group["group"], group["protocol"], group["members"]) == ("survivors", "classic", 3)
    assert group["rebalances"] >= 1
    assert group["lag"] == 0
    assert group["commits"] >= 4
    # What the dead one had read and told is not in its table, what others read again is in theirs.
    by_members = sum(one["records"] for one in result["consumers"])
    assert by_members <= 3_000 + verified["duplicates"]


@pytest.mark.parametrize(
    ("words", "status", "reason"),
    [
        (["--group", "", "--consumers", "1"], 2, "--group needs a name"),
        (["--kill-consumer", "1"], 2, "--kill-consumer goes with --group"),
        (["--group-protocol", "classic"], 2, "--group-protocol goes with --group"),
        (["--group", "g", "--consumers", "0"], 2, "--group needs --consumers"),
        (["--group", "g", "--kill-consumer", "1"], 2, "--consumers of 2 or more"),
        (["--group", "g", "--scenario", "noisy-neighbour"], 2, "does not go with --scenario"),
        (["--producer-props", "no.such.setting=1"], 1, "no.such.setting"),
        (["--consumers", "50"], 1, "--partitions 50"),
        (["--record-size", "10"], 2, "24 or more"),
        (["--throughput", "0"], 2, "above 0"),
        (["--duration", "nan"], 2, "above 0"),
        (["--producers", "3", "--client-id", "a", "--client-id", "b"], 2, "2 times for 3"),
        (["--quota", "-1"], 2, "not a size: -1"),
    ],
)
def test_load_test_reports_each_mistake_in_one_line(cluster, words, status, reason):
    done = cluster.command("load-test", *words, check=False)
    assert done.returncode == status
    assert done.stdout == ""
    last = done.stderr.splitlines()[-1]
    assert "error: " in last
    assert reason in last
    assert "Traceback" not in done.stderr
    assert [name for name in topics(cluster) if name.startswith("load-test")] == []


@pytest.mark.parametrize("words", [[], ["--scenario", "noisy-neighbour"]])
def test_load_test_reports_a_missing_cluster_in_one_line(tmp_path, capsys, words):
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        assert main(["--data-dir", str(tmp_path), "load-test", *words]) == 1
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: no cluster is running")
    assert err.count("\n") == 1


def test_ctrl_c_prints_the_figures_so_far_and_leaves_no_process(cluster):
    with started(cluster, "--duration", "60", "--reporting-interval", "500") as process:
        assert process.stderr is not None
        assert "records sent" in process.stderr.readline()
        workers = workers_of(process)
        assert len(workers) == 2
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 130
        assert out.startswith("Interrupted: these are partial results.")
        assert "load-producer-1" in out
        assert all(map(is_gone, workers))
    assert [name for name in topics(cluster) if name.startswith("load-test")] == []


def test_workers_do_not_outlive_a_load_test_that_is_killed(cluster):
    words = ("--duration", "60", "--topic", "orphaned", "--reporting-interval", "500")
    with started(cluster, *words) as process:
        assert process.stderr is not None
        process.stderr.readline()
        workers = workers_of(process)
        assert len(workers) == 2
        process.kill()
        wait_until(lambda: all(map(is_gone, workers)), "the workers to end")
    cluster.command("topics", "--delete", "--topic", "orphaned")


def test_load_test_reports_a_dead_worker_in_one_line(cluster):
    words = ("--duration", "60", "--reporting-interval", "500")
    with started(cluster, *words) as process:
        assert process.stderr is not None
        process.stderr.readline()
        workers = workers_of(process)
        workers[0].kill()
        out, err = process.communicate(timeout=60)
        assert process.returncode == 1
        assert out == ""
        assert err.splitlines()[-1].startswith("error: ")
        assert "ended with status -9" in err.splitlines()[-1]
        assert all(map(is_gone, workers))


@pytest.mark.long
@pytest.mark.slow
def test_the_noisy_neighbor_is_held_back_and_the_polite_one_is_not(cluster):
    done = cluster.command(
        "load-test", "--scenario", "noisy-neighbour", "--short", "--json", check=False
    )
    result = json.loads(done.stdout)
    assert [check for check in result["checks"] if not check["holds"]] == []
    assert done.returncode == 0
    assert result["rate_source"] == "brokers"
    noisy = result["phases"]["limited"]["noisy"]
    assert noisy["throttle_ms"]["count"] > 0
    assert "noisy" not in cluster.command("quotas", "list").stdout


def test_ctrl_c_in_the_scenario_removes_the_quota(cluster):
    with started(cluster, "--scenario", "noisy-neighbour", "--short") as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "noisy wants" in line:
                break
        wait_until(
            lambda: "noisy" in cluster.command("quotas", "list").stdout, "the quota to be set"
        )
        workers = workers_of(process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 130
        assert out == ""
        assert err.splitlines()[-1].startswith("Interrupted: ")
        assert all(map(is_gone, workers))
    assert "noisy" not in cluster.command("quotas", "list").stdout
