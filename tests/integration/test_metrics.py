"""Metrics of a live cluster: records, stats files, and the two views that read them."""

import io
import itertools
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from cluster.metrics.broker_metrics import BY_KEY
from cluster.metrics.kafka_names import requests_of
from cluster.metrics.stats_reader import read_stats
from cluster.records.builder import NewRecord, build_batch
from tests.support.kafka_wire import WireClient, fetch_request, frame_of, produce_request
from tests.support.metric_topic import METRICS, MetricRecords
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic, describe, leader
from tests.support.waiting import DEADLINE_S, is_readable, wait_until

THROTTLE = "ThrottleTimeMs"
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """Three brokers of this module's own: tests stop one of them at the end."""
    settings = {
        "milena.metrics.group.interval.ms": "1000",
        "auto.leader.rebalance.enable": "false",  # a leader that has moved stays where it is
    }
    with Cluster(tmp_path_factory.mktemp("metrics"), overrides=settings) as running:
        yield running


@pytest.fixture(autouse=True)
def all_brokers_are_back(watched):
    """A test before may have killed or paused one, which the supervisor has started again."""

    def is_complete(address):
        view = describe(address)
        return view is not None and len(view.brokers) == watched.size

    wait_until(lambda: all(map(is_complete, watched.addresses)), "every broker to know all brokers")


def stats_of(cluster, broker):
    return read_stats(cluster.data_dir / "run" / f"broker-{broker}.stats")


def batch(size_bytes, count=1):
    record = NewRecord(b"x" * size_bytes, timestamp_ms=time.time_ns() // 1_000_000)
    return bytes(build_batch([record] * count))


@pytest.fixture
def metric_records(watched):
    wait_until(lambda: METRICS in watched.command("topics", "--list").stdout, "the metrics topic")
    # Whoever that is: a broker that was killed before leads no more.
    wait_until(lambda: all(leader(watched, METRICS, p) >= 0 for p in range(3)), "its leaders")
    reader = MetricRecords(watched)
    yield reader
    reader.close()


def test_every_broker_writes_a_record_each_second(watched, metric_records):
    began_ms = time.time_ns() // 1_000_000

    def written_by(broker):
        records = metric_records.of_kind("broker")
        # Another test may have stopped a broker before this one began.
        return [r for r in records if r["broker"] == broker and r["ts"] > began_ms]

    wait_until(lambda: all(len(written_by(b)) >= 4 for b in range(3)), "four records of each")
    for broker in range(3):
        records = written_by(broker)
        for before, after in itertools.pairwise(records):
            # Two clocks, looked at one after the other.
            assert abs(after["ts"] - before["ts"] - after["interval_ms"]) <= 500
            assert after["values"].keys() == BY_KEY.keys()
            assert after["values"]["BrokerState"] == 3
            assert after["values"]["ClientRowCapacity"] > after["values"]["ClientRowCount"]
        spans = [record["interval_ms"] for record in records[1:]]
        assert sum(spans) / len(spans) >= 900
    controllers = {r["broker"] for r in records if r["values"]["ActiveControllerCount"]}
    assert len(controllers) <= 1
    brokers = {r["values"]["ActiveBrokerCount"] for r in records if r["broker"] in controllers}
    assert brokers <= {1, 2, 3}


def test_sums_of_usage_are_what_the_client_sent(watched, metric_records):
    create_topic(watched, name="sums")
    broker = leader(watched, "sums")
    payloads = [batch(100 * n, count=n) for n in range(1, 21)]
    sent_bytes = 0
    with WireClient(watched.addresses[broker], client_id="sums") as client:
        before = stats_of(watched, broker).values
        for number, records in enumerate(payloads, start=1):
            message = produce_request("sums", records, acks=1)
            client.send_bytes(client.frame(message))
            sent_bytes += len(frame_of(message, number, "sums")) - 4
            client.receive()

    def mine():
        return [
            r
            for r in metric_records.of_kind("quota")
            if (r["client_id"], r["quota"], r["broker"]) == ("sums", "produce", broker)
        ]

    wait_until(lambda: sum(r["requests"] for r in mine()) >= 20, "records of all requests")
    assert sum(r["usage"] for r in mine()) == sent_bytes
    assert sum(r["requests"] for r in mine()) == 20
    assert {(r["user"], r["rule"], r["limit"]) for r in mine()} == {("ANONYMOUS", None, None)}

    after = stats_of(watched, broker)
    name = BY_KEY["BytesInPerSec"].name
    assert after.values[name] - before[name] == sum(map(len, payloads))
    name = BY_KEY["MessagesInPerSec"].name
    assert after.values[name] - before[name] == sum(range(1, 21))
    (row,) = [r for r in after.rows if (r.client_id, r.quota) == ("sums", "produce")]
    assert (row.usage, row.requests) == (sent_bytes, 20)


def test_topic_counters_and_request_times_match_what_a_client_did(watched):
    create_topic(watched, name="counted", configs={"min.insync.replicas": "2"})
    broker = leader(watched, "counted")
    producer = Producer({"bootstrap.servers": watched.bootstrap, "acks": "all"})
    for number in range(500):
        producer.produce("counted", b"x" * 1_000, str(number))
    assert producer.flush(DEADLINE_S) == 0
    consumer = Consumer(
        {"bootstrap.servers": watched.bootstrap, "group.id": "g", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition("counted", 0, 0)])
    read = 0
    while read < 500:
        read += len(consumer.consume(500, timeout=DEADLINE_S))
    consumer.close()

    def figures():
        stats = stats_of(watched, broker)
        topic = stats.topics.get("counted")
        is_done = topic and topic["BytesOutPerSec"] and topic["Size"] >= topic["BytesInPerSec"]
        return stats if is_done else None

    stats = wait_until(figures, "the topic's figures")
    topic = stats.topics["counted"]
    assert topic["MessagesInPerSec"] == 500
    assert topic["Size"] == topic["BytesInPerSec"] > 500_000
    assert topic["BytesOutPerSec"] >= topic["BytesInPerSec"]
    assert (topic["LeaderCount"], topic["NumLogSegments"], topic["UnderReplicated"]) == (1, 1, 0)
    times = stats.requests["Produce"]
    assert 0 < times["TotalTimeMs"].count <= stats.values[requests_of("PRODUCE")]
    parts = sum(part.sum_us for key, part in times.items() if key not in ("TotalTimeMs", THROTTLE))
    # Each part is rounded down to whole microseconds.
    assert 0 <= times["TotalTimeMs"].sum_us - parts <= 5 * times["TotalTimeMs"].count
    assert times["RemoteTimeMs"].sum_us > 0, "acks=all waits for the followers"
    idle = stats.values[BY_KEY["RequestHandlerAvgIdlePercent"].name]
    assert 0 <= idle <= 1
    for follower in {0, 1, 2} - {broker}:
        wait_until(
            lambda other=follower: stats_of(watched, other).topics.get("counted"),
            "the topic's figures of a follower",
        )
        found = stats_of(watched, follower).topics["counted"]
        assert (found["PartitionCount"], found["LeaderCount"]) == (1, 0)


def test_replicas_on_a_broker_are_counted(watched):
    """Followers learn of a topic, and publish their gauges, at their own pace."""
    create_topic(watched, partitions=2)
    gauge = BY_KEY["PartitionCount"].name
    admin = AdminClient({"bootstrap.servers": watched.bootstrap})

    def gauges_equal_metadata():
        topics = admin.list_topics(timeout=60).topics.values()
        replicas = Counter(b for t in topics for p in t.partitions.values() for b in p.replicas)
        return all(stats_of(watched, b).values[gauge] == replicas[b] >= 2 for b in range(3))

    wait_until(gauges_equal_metadata, "every broker counting its replicas")


def test_bytes_out_are_counted(watched):
    create_topic(watched, name="out")
    broker = leader(watched, "out")
    records = batch(1_000)
    with WireClient(watched.addresses[broker]) as client:
        client.call(produce_request("out", records))
        before = stats_of(watched, broker).values[BY_KEY["BytesOutPerSec"].name]
        client.call(fetch_request("out", 0))

    def read_bytes():
        return stats_of(watched, broker).values[BY_KEY["BytesOutPerSec"].name] - before

    wait_until(lambda: read_bytes() >= len(records), "the bytes of the fetch")


@pytest.fixture
def limit(watched):
    """Bytes per second for the client "slow"; every other client has 500 times as many."""
    limits = {"--client-id=slow": 10_000, "--client-default": 5_000_000}
    for entity, rate in limits.items():
        watched.command("quotas", "set", entity, f"--producer-byte-rate={rate}")
    yield limits["--client-id=slow"]
    for entity in limits:
        watched.command("quotas", "unset", entity, "--producer-byte-rate")


def test_explain_names_the_matched_rule_and_shows_the_arithmetic(watched, metric_records, limit):
    create_topic(watched, name="slow")
    broker = leader(watched, "slow")

    def explained():
        done = watched.command("quotas", "explain", "--client-id", "slow", "--json", check=False)
        if done.returncode:
            return None
        quotas = {q["quota"]: q for q in json.loads(done.stdout)["quotas"]}
        return quotas.get("produce")

    with WireClient(watched.addresses[broker], client_id="slow") as client:
        client.call(produce_request("slow", batch(400_000), acks=1))
        found = wait_until(
            lambda: (q := explained()) and q["sum"]["muted_left_ms"] > 0 and q, "the client muted"
        )
        watch = json.loads(watched.command("quotas", "watch", "--once", "--json").stdout)
        plain = watched.command("quotas", "watch", "--once").stdout
        brief, text = (
            watched.command("quotas", "explain", "--client-id", "slow", *options).stdout
            for options in ([], ["--verbose"])
        )
    assert (found["rule"], found["limit"]) == ("client", limit)
    matched = [rule for rule in found["rules"] if rule["matched"]]
    assert matched == [{"rule": "client", "limit": limit, "matched": True}]
    assert {rule["rule"]: rule["limit"] for rule in found["rules"]}["default-client"] == 5_000_000
    assert len(found["rules"]) == 8
    (there,) = [b for b in found["brokers"] if b["broker"] == broker]
    assert there["rate"] > limit
    assert there["utilisation"] == pytest.approx(there["rate"] / limit)
    window_s = float(re.search(r"x ([0-9.]+) s =", there["arithmetic"])[1])
    delay_ms = (there["rate"] - limit) / limit * window_s * 1000
    assert there["delay_ms"] == pytest.approx(delay_ms, rel=0.001)
    assert 0 < there["muted_left_ms"] <= there["throttle_ms"]
    assert there["throttled"] >= 1

    (row,) = [c for c in watch["clients"] if (c["client_id"], c["quota"]) == ("slow", "produce")]
    assert watch["clients"][0] == row
    assert (row["rule"], row["limit"], row["broker"]) == ("client", limit, broker)
    assert row["muted_left_ms"] > 0
    assert re.search(r"^slow +produce +client ", plain, re.MULTILINE)
    assert brief.startswith(f"Client 'slow' is throttled on broker {broker} only: ")
    assert re.search(r"^  > client ", text, re.MULTILINE)
    # The formula, or after eleven seconds what is left to pay.
    assert f"{limit} B/s" in text
    assert f"{limit / 1024:.2f} KiB/s" in brief

    def throttled():
        return [
            r
            for r in metric_records.of_kind("quota")
            if (r["client_id"], r["quota"], r["rule"]) == ("slow", "produce", "client")
        ]

    records = wait_until(
        lambda: [r for r in throttled() if r["muted_ms"] > 0 and r["requests"] == 0],
        "a record of a client that is only muted",
    )
    assert all(r["muted_ms"] <= r["interval_ms"] + 500 for r in records)
    assert sum(r["throttled"] for r in throttled()) >= 1


def test_explain_reports_an_unknown_client_in_one_line(watched):
    done = watched.command("quotas", "explain", "--client-id", "nobody", check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: no broker has heard of client nobody within the last hour\n"


@pytest.mark.parametrize(
    ("words", "hint", "heading"),
    [(("quotas", "watch"), b"q: quit", b"RULE"), (("top",), b"q quit", b"WRITES")],
)
def test_a_live_table_on_a_terminal_ends_with_q(watched, words, hint, heading):
    topic = create_topic(watched)
    with WireClient(watched.addresses[leader(watched, topic)], client_id="live") as client:
        client.call(produce_request(topic, batch(100)))
    parent, child = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "cluster", *words, "--data-dir", watched.data_dir],
        cwd=ROOT,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "160", "LINES": "40"},
        stdin=child,
        stdout=child,
        stderr=child,
        start_new_session=True,
    ) as process:
        os.close(child)
        seen = io.BytesIO()
        try:
            while hint not in seen.getvalue():
                assert is_readable(parent, DEADLINE_S), seen.getvalue()
                seen.write(os.read(parent, 65_536))
            os.write(parent, b"q")
            wait_until(lambda: drain(parent) or process.poll() is not None, "its end")
            assert process.wait() == 0
        finally:
            process.kill()
            os.close(parent)
    assert b"live" in seen.getvalue()
    assert heading in seen.getvalue()


def drain(terminal):
    """Let the process write its last words."""
    try:
        if is_readable(terminal, 0):
            os.read(terminal, 65_536)
    except OSError:
        return True
    return False


def test_watch_prints_a_line_per_interval_until_interrupted(watched):
    with subprocess.Popen(
        [
            *(sys.executable, "-m", "cluster", "quotas", "watch", "--json", "--interval", "0.2"),
            *("--data-dir", str(watched.data_dir)),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        looks = [json.loads(process.stdout.readline()) for _ in range(3)]
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, b"")
    assert looks[0]["ts"] < looks[1]["ts"] < looks[2]["ts"]


def test_lag_is_reported_by_the_coordinator_of_the_group(watched, metric_records):
    """Logs that end on three brokers, a group whose coordinator dies."""
    create_topic(watched, name="lagging", assignments=[[0, 1, 2], [1, 2, 0], [2, 0, 1]])
    for number in range(3):
        address = watched.addresses[leader(watched, "lagging", number)]
        with WireClient(address) as client:
            records = batch(10, count=10 * (number + 1))
            client.call(produce_request("lagging", records, partition=number))
    consumer = Consumer({"bootstrap.servers": watched.bootstrap, "group.id": "laggard"})
    committed = [TopicPartition("lagging", number, 4) for number in range(3)]
    consumer.commit(offsets=committed, asynchronous=False)
    consumer.close()

    def told(after_ms=0):
        rows = [r for r in metric_records.of_kind("lag") if r["group"] == "laggard"]
        rows = [r for r in rows if r["ts"] > after_ms]
        return rows if {r["partition"] for r in rows} == {0, 1, 2} else []

    rows = wait_until(told, "lag of every partition")
    assert {(r["partition"], r["log_end"], r["committed"], r["lag"]) for r in rows} == {
        (0, 10, 4, 6),
        (1, 20, 4, 16),
        (2, 30, 4, 26),
    }
    (coordinator,) = {r["broker"] for r in rows}
    groups = [r for r in metric_records.of_kind("group") if r["group"] == "laggard"]
    assert groups[-1]["lag"] == 48
    assert groups[-1]["state_ms"].keys() == {"Empty"}

    def seen():
        shown = watched.command("metrics", "--group", "laggard", "--json", check=False)
        return json.loads(shown.stdout)["groups"][0] if shown.returncode == 0 else None

    assert wait_until(seen, "the stats file")["lag"] == 48
    assert re.search(r"^laggard +classic +Empty +0 +3 +48$", status_of(watched), re.MULTILINE)

    watched.kill(coordinator)
    killed_ms = time.time_ns() // 1_000_000
    rows = wait_until(lambda: told(killed_ms), "lag told by another")
    assert coordinator not in {r["broker"] for r in rows}


def status_of(cluster):
    return cluster.command("status").stdout


def test_a_paused_broker_is_silent_and_a_dead_one_can_still_be_read(watched):
    def states():
        look = json.loads(watched.command("quotas", "watch", "--once", "--json").stdout)
        return {broker["broker"]: broker["state"] for broker in look["brokers"]}

    wait_until(lambda: states() == dict.fromkeys(range(3), "alive"), "three live brokers")
    create_topic(watched, name="on-0", assignments=[[0]])
    with WireClient(watched.addresses[0], client_id="of-0") as client:
        client.call(produce_request("on-0", batch(100)))
    wait_until(lambda: any(r.client_id == "of-0" for r in stats_of(watched, 0).rows), "its row")
    watched.pause(1)
    wait_until(lambda: states() == {0: "alive", 1: "silent", 2: "alive"}, "a silent broker")
    watched.resume(1)
    before = stats_of(watched, 0)
    watched.kill(0, stay_down=True)
    wait_until(lambda: states()[0] == "dead", "a dead broker")
    after = stats_of(watched, 0)
    assert after.pid == before.pid
    assert (
        after.values[BY_KEY["RequestsPerSec"].name] >= before.values[BY_KEY["RequestsPerSec"].name]
    )
    assert {r.client_id for r in before.rows} <= {r.client_id for r in after.rows}
    assert "0(dead)" in watched.command("quotas", "watch", "--once", "--all").stdout
    watched.restart(0)


def test_records_of_a_broker_whose_partition_moved_still_arrive(watched, metric_records):
    """Partition 0 is led by another broker now; broker 0, back again, hands its records over."""
    watched.kill(0, stay_down=True)
    wait_until(lambda: leader(watched, METRICS, 0, asked=1) in (1, 2), "another leader")
    watched.restart(0)
    began_ms = time.time_ns() // 1_000_000
    wait_until(
        lambda: [
            r for r in metric_records.of_kind("broker") if r["broker"] == 0 and r["ts"] > began_ms
        ],
        "records of broker 0",
    )
    assert leader(watched, METRICS, 0, asked=1) != 0
