"""Records are the JSON that docs/metrics.md describes."""

import json

from cluster.brokers.metrics.records import broker_record, quota_record
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


def test_a_broker_record():
    record = read(broker_record(1, WallMs(5), 1000, {"BytesInPerSec": 1.5, "LeaderCount": 3}))
    assert record == {
        "v": 1,
        "kind": "broker",
        "ts": 5,
        "interval_ms": 1000,
        "broker": 1,
        "values": {"BytesInPerSec": 1.5, "LeaderCount": 3},
    }
