"""Records are the JSON that docs/metrics.md describes."""

import json

import pytest

pytest.importorskip("pyarrow", reason="needs the extra `windows`")

from cluster.analytics.windows.record_schema import Values, checked
from cluster.brokers.metrics.records import (
    GroupFigures,
    LatencyFigures,
    MetricRecord,
    PartitionLag,
    TopicFigures,
    broker_record,
    event_record,
    group_record,
    lag_records,
    latency_record,
    quota_record,
    topic_record,
)
from cluster.metrics.broker_metrics import BROKER_METRICS
from cluster.metrics.events import Event, EventKind
from cluster.model.clocks import WallMs
from cluster.model.quota_usage import QuotaUsage
from cluster.model.quotas import QuotaKind


def read(record):
    fields = json.loads(record.value)
    assert record.timestamp_ms == fields["ts"]
    return fields


def test_a_quota_record_has_every_field_and_its_type():
    interval = QuotaUsage(
        quota=QuotaKind.PRODUCE,
        user="ANONYMOUS",
        client_id="l-1",
        rule="client",
        limit=5,
        usage=7,
        rate=8,
        requests=2,
        throttled=1,
        throttle_ms=30,
        throttle_ms_max=30,
        muted_ms=12,
    )
    assert read(quota_record(3, WallMs(1_700_000_000_000), 1001, interval)) == {
        "v": 1,
        "kind": "quota",
        "ts": 1_700_000_000_000,
        "interval_ms": 1001,
        "broker": 3,
        "quota": "produce",
        "user": "ANONYMOUS",
        "client_id": "l-1",
        "rule": "client",
        "limit": 5.0,
        "usage": 7.0,
        "rate": 8.0,
        "requests": 2,
        "throttled": 1,
        "throttle_ms": 30,
        "throttle_ms_max": 30,
        "muted_ms": 12,
    }
    text = quota_record(3, WallMs(0), 1000, interval).value.decode()
    assert '"limit":5.0' in text
    assert '"usage":7.0' in text


def test_without_a_rule_rule_and_limit_are_null():
    a_usage = QuotaUsage(quota=QuotaKind.FETCH, user="ü", client_id="ключ")
    record = read(quota_record(0, WallMs(0), 1000, a_usage))
    assert (record["rule"], record["limit"]) == (None, None)
    assert (record["user"], record["client_id"]) == ("ü", "ключ")


def test_broker_record_has_rates_and_gauges():
    record = read(broker_record(1, WallMs(5), 1000, {"BytesInPerSec": 1.5, "LeaderCount": 3}))
    assert record == {
        "v": 1,
        "kind": "broker",
        "ts": 5,
        "interval_ms": 1000,
        "broker": 1,
        "values": {"BytesInPerSec": 1.5, "LeaderCount": 3},
    }


def test_topic_record_has_every_field():
    figures = TopicFigures("orders", 100, 70, 2, 3, 1, 5, 0, 4_096, 2, 1)
    assert read(topic_record(1, WallMs(5), 1000, figures)) == {
        "v": 1,
        "kind": "topic",
        "ts": 5,
        "interval_ms": 1000,
        "broker": 1,
        "topic": "orders",
        "bytes_in": 100,
        "bytes_out": 70,
        "messages_in": 2,
        "produces": 3,
        "failed_produces": 1,
        "fetches": 5,
        "failed_fetches": 0,
        "size": 4_096,
        "partitions": 2,
        "leaders": 1,
    }


def test_latency_record_has_every_field():
    figures = LatencyFigures("Produce", 2, 5, [1, 0, 0, 1])
    assert read(latency_record(1, WallMs(5), 1000, figures)) == {
        "v": 1,
        "kind": "latency",
        "ts": 5,
        "interval_ms": 1000,
        "broker": 1,
        "api": "Produce",
        "requests": 2,
        "total_us": 5,
        "buckets": [1, 0, 0, 1],
    }


def test_event_record_has_every_field():
    event = Event(EventKind.BROKER_DOWN, "2", "live brokers: 0, 1", 1)
    assert read(event_record(1, WallMs(5), 1000, event)) == {
        "v": 1,
        "kind": "event",
        "ts": 5,
        "interval_ms": 1000,
        "broker": 1,
        "event": "broker-down",
        "subject": "2",
        "detail": "live brokers: 0, 1",
        "count": 1,
    }


def test_the_rollup_takes_every_kind():
    head = (3, WallMs(1_700_000_000_000), 1_000)
    usage = QuotaUsage(quota=QuotaKind.MUTATION, user="u", client_id="c")
    group = GroupFigures("g", "classic", "consumer", "Stable", 4, 2, 1, 0, 6, 6, {"Stable": 1_000})
    records: list[MetricRecord] = [
        quota_record(*head, usage),
        broker_record(*head, {metric.key: 1 for metric in BROKER_METRICS}),
        group_record(*head, group),
        *lag_records(*head, "g", "orders", [PartitionLag(0, 10, 4)]),
        topic_record(*head, TopicFigures("orders", *range(10))),
        latency_record(*head, LatencyFigures("Produce", 1, 5, [0, 0, 0, 1])),
        *(event_record(*head, Event(kind, "s", "d", 1)) for kind in EventKind),
    ]
    found = checked(
        Values(
            [record.value for record in records],
            [b"3"] * len(records),
            [record.timestamp_ms for record in records],
        ),
        now_ms=head[1],
    )
    assert (found.rejected, found.others) == ([], 0)
    kinds = {"quota", "broker", "group", "lag", "topic", "latency", "event"}
    assert found.tables.keys() == kinds
    assert sum(table.num_rows for table in found.tables.values()) == len(records)
