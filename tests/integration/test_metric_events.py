"""What brokers tell of a working cluster in the metrics topic, where nobody else writes."""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from cluster.analytics.windows.record_schema import Values, checked
from cluster.metrics.stats_reader import read_stats
from tests.support.metric_topic import METRICS, MetricRecords
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic, describe, leader
from tests.support.waiting import DEADLINE_S, wait_until

Record = dict[str, Any]


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers of this module's own: one of them is killed."""
    settings = {
        "milena.metrics.group.interval.ms": "1000",
        "group.initial.rebalance.delay.ms": "0",
        "zookeeper.session.timeout.ms": "3000",
    }
    with Cluster(tmp_path_factory.mktemp("observed"), overrides=settings) as running:
        wait_until(lambda: METRICS in running.command("topics", "--list").stdout, "the topic")
        wait_until(lambda: all(leader(running, METRICS, p) >= 0 for p in range(3)), "its leaders")
        yield running


@pytest.fixture
def metric_records(observed: Cluster) -> Iterator[MetricRecords]:
    reader = MetricRecords(observed)
    yield reader
    reader.close()


def events_since(reader: MetricRecords, began_ms: int) -> Callable[[str, str], list[Record]]:
    """The events of a kind and subject since then."""

    def found(event: str, subject: str) -> list[Record]:
        return [
            record
            for record in reader.of_kind("event")
            if (record["event"], record["subject"]) == (event, subject) and record["ts"] > began_ms
        ]

    return found


def produce(cluster: Cluster, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for number in range(count):
        producer.produce(topic, b"x" * 100, str(number))
    assert producer.flush(DEADLINE_S) == 0


def consume(consumer: Consumer, count: int) -> None:
    read = 0
    deadline = time.monotonic() + DEADLINE_S
    while read < count and time.monotonic() < deadline:
        read += len(consumer.consume(count, timeout=1))
    assert read >= count


def test_topic_and_latency_records_count_what_clients_do(
    observed: Cluster, metric_records: MetricRecords
) -> None:
    create_topic(observed, name="told", assignments=[[1, 2]])
    produce(observed, "told", 300)
    settings = {"bootstrap.servers": observed.bootstrap, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "group.id": "told", "enable.auto.commit": False})
    consumer.subscribe(["told"])
    consume(consumer, 300)
    consumer.close()

    def of_topic(broker: int) -> list[Record]:
        found = metric_records.of_kind("topic")
        return [each for each in found if (each["topic"], each["broker"]) == ("told", broker)]

    wait_until(lambda: sum(each["messages_in"] for each in of_topic(1)) == 300, "its records")
    wait_until(lambda: sum(each["bytes_out"] for each in of_topic(1)) > 0, "what was fetched")
    leads = of_topic(1)
    size = sum(each["bytes_in"] for each in leads)
    wait_until(lambda: of_topic(1)[-1]["size"] == size, "its size at the leader")
    wait_until(lambda: of_topic(2) and of_topic(2)[-1]["size"] == size, "and at the follower")
    leads, follows = of_topic(1), of_topic(2)
    assert size > 300 * 100
    assert sum(each["produces"] for each in leads) >= 1
    assert sum(each["fetches"] for each in leads) >= 1
    assert sum(each["failed_produces"] + each["failed_fetches"] for each in leads) == 0
    assert (leads[-1]["partitions"], leads[-1]["leaders"]) == (1, 1)
    assert (follows[-1]["partitions"], follows[-1]["leaders"]) == (1, 0)
    assert sum(each["messages_in"] for each in follows) == 0

    def api(name: str) -> list[Record]:
        return [each for each in metric_records.of_kind("latency") if each["api"] == name]

    for name in ("Produce", "FetchConsumer", "Metadata", "JoinGroup"):
        wait_until(lambda name=name: api(name), f"latencies of {name}")  # type: ignore[misc]
        for each in api(name):
            assert each["requests"] == sum(each["buckets"]) > 0
            assert len(each["buckets"]) <= 26
            assert each["buckets"][-1] > 0
    assert sum(each["total_us"] for each in api("Produce")) > 0

    own = {each["topic"] for each in metric_records.of_kind("topic")}
    assert {METRICS, "__consumer_offsets"} <= own
    disk = shutil.disk_usage(observed.data_dir)
    values = metric_records.of_kind("broker")[-1]["values"]
    assert values["LogDirectoryTotalBytes"] == disk.total
    assert 0 < values["LogDirectoryUsableBytes"] <= disk.total

    shown = json.loads(observed.command("metrics", "--json").stdout)
    assert "LogDirectoryUsableBytes" in json.dumps(shown)


def test_quota_changes_and_rebalances_are_recorded_as_events(
    observed: Cluster, metric_records: MetricRecords
) -> None:
    events = events_since(metric_records, time.time_ns() // 1_000_000)
    entity = ("--user", "alice", "--client-default")
    observed.command("quotas", "set", *entity, "--producer-byte-rate=10000")
    observed.command("quotas", "unset", *entity, "--producer-byte-rate")
    subject = "user alice, client-id <default>"
    wait_until(lambda: len(events("quota", subject)) == 2, "both changes")
    details = [(each["detail"], each["count"]) for each in events("quota", subject)]
    assert details == [("producer_byte_rate=10000", 1), ("producer_byte_rate removed", 1)]

    create_topic(observed, name="shared", partitions=2)
    members = [
        Consumer({"bootstrap.servers": observed.bootstrap, "group.id": "sharing"}) for _ in range(2)
    ]
    for member in members:
        member.subscribe(["shared"])

    def are_assigned() -> bool:
        for member in members:
            member.poll(0.1)
        return all(len(member.assignment()) == 1 for member in members)

    wait_until(are_assigned, "both members to have a partition")
    wait_until(
        lambda: any("2 members" in each["detail"] for each in events("rebalance", "sharing")),
        "the rebalance",
    )
    found = events("rebalance", "sharing")

    def brokers_of_the_group() -> set[Any]:
        groups = metric_records.of_kind("group")
        return {each["broker"] for each in groups if each["group"] == "sharing"}

    wait_until(
        lambda: {each["broker"] for each in found} <= brokers_of_the_group(),
        "records of the group by the broker that told of the rebalance",
    )
    for member in members:
        member.close()
    numbers = [int(each["detail"].removeprefix("generation ").split(",")[0]) for each in found]
    assert numbers == sorted(set(numbers))


def test_death_and_return_of_a_broker_are_recorded_as_events(
    observed: Cluster, metric_records: MetricRecords
) -> None:
    create_topic(observed, name="moved", assignments=[[2, 0, 1], [2, 1, 0], [0, 1, 2]])
    events = events_since(metric_records, time.time_ns() // 1_000_000)
    observed.kill(2, stay_down=True)
    wait_until(lambda: events("broker-down", "2"), "the broker to be told as gone")
    wait_until(lambda: events("election", "moved"), "the elections")
    (election,) = events("election", "moved")
    assert (election["detail"], election["count"]) == ("0: 2->0, 1: 2->1", 2)
    shrunk = wait_until(lambda: events("isr-shrink", "moved"), "in-sync replicas that lost one")
    assert "0: 2/0/1->0/1" in shrunk[0]["detail"]

    observed.restart(2)
    wait_until(lambda: events("broker-up", "2"), "the broker to be told as back")
    wait_until(
        lambda: sum(each["count"] for each in events("isr-expand", "moved")) >= 3,
        "in-sync replicas that have it again",
    )
    assert len(events("broker-down", "2")) == 1
    assert "2" in events("broker-up", "2")[0]["detail"].partition("live brokers: ")[2]
    (controller,) = {each["broker"] for each in events("broker-up", "2")}
    became = [each for each in metric_records.of_kind("event") if each["event"] == "controller"]
    assert str(controller) in {each["subject"] for each in became}
    assert all(each["subject"] == str(each["broker"]) for each in became)


def test_rollup_accepts_every_record(metric_records: MetricRecords) -> None:
    wait_until(lambda: len(metric_records.of_kind("broker")) >= 6, "records")
    records = metric_records.poll()
    found = checked(
        Values(
            [json.dumps(each, separators=(",", ":")).encode() for each in records],
            [str(each["broker"]).encode() for each in records],
            [each["ts"] for each in records],
        ),
        now_ms=time.time_ns() // 1_000_000,
    )
    assert (found.rejected, found.others) == ([], 0)


def test_clients_may_not_produce_to_the_metrics_topic_unless_a_setting_allows_it(
    observed: Cluster,
) -> None:
    def outcome(timestamp_ms: int = 0) -> KafkaError | None:
        errors: list[KafkaError | None] = []
        producer = Producer({"bootstrap.servers": observed.bootstrap})
        producer.produce(
            METRICS,
            b"no metric record",
            timestamp=timestamp_ms,
            on_delivery=lambda error, _: errors.append(error),
        )
        assert producer.flush(DEADLINE_S) == 0
        return errors[0]

    def is_of_time(error: KafkaError | None) -> bool:
        return error is not None and error.code() == KafkaError.INVALID_TIMESTAMP

    refused = outcome()
    assert refused is not None
    assert refused.code() == KafkaError.TOPIC_EXCEPTION
    setting = "milena.metrics.topic.client.produce"
    whom = ("--entity-type", "brokers", "--entity-default")
    observed.command("configs", "--alter", *whom, "--add-config", f"{setting}=true")
    wait_until(lambda: outcome() is None, "every leader to know the setting")
    wait_until(
        lambda: is_of_time(outcome(1_600_000_000_000)),
        "every leader to refuse a record of 2020",
    )
    observed.command("configs", "--alter", *whom, "--delete-config", setting)
    wait_until(lambda: outcome() is not None, "every leader to know that it is gone")
    view = describe(observed.addresses[0])
    assert view is not None


def test_brokers_write_no_metric_records_when_they_are_switched_off(tmp_path: Path) -> None:
    settings = {"milena.metrics.topic.enable": "false"}
    with Cluster(tmp_path / "silent", brokers=1, overrides=settings) as running:
        running.command("quotas", "set", "--user", "alice", "--producer-byte-rate=10000")
        stats = running.data_dir / "run" / "broker-0.stats"
        until_ms = read_stats(stats).written_wall_ms + 5_000
        wait_until(lambda: read_stats(stats).written_wall_ms > until_ms, "some intervals")
        assert METRICS not in running.command("topics", "--list").stdout
