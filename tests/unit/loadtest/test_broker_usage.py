import json

import pytest

from cluster.loadtest.broker_usage import MeasuredUsage, parse_usage, usage_rates

SECOND_MS = 1_000


def per_second(broker: int, amounts: list[float], start_ms: int = 0) -> list[MeasuredUsage]:
    return [
        MeasuredUsage(broker, start_ms + (number + 1) * SECOND_MS, SECOND_MS, amount)
        for number, amount in enumerate(amounts)
    ]


def test_the_rate_is_over_the_intervals_that_end_in_the_stretch():
    usages = per_second(0, [999.0, 10.0, 20.0, 30.0, 999.0])
    assert usage_rates(usages, from_ms=1_000, until_ms=4_500) == {0: 20.0}


def test_usage_rates_count_a_missing_second_as_idle():
    usages = [one for one in per_second(0, [30.0, 0.0, 30.0]) if one.usage]
    assert usage_rates(usages, 0, 3_000) == {0: 20.0}


def test_usage_rates_separate_brokers_with_shifted_seconds():
    usages = per_second(0, [5.0] * 4) + per_second(1, [7.0] * 4, start_ms=300)
    assert usage_rates(usages, 0, 5_000) == {0: 5.0, 1: 7.0}


def test_usage_rates_are_empty_without_records():
    assert usage_rates([], 0, 1_000) == {}


def test_only_records_of_the_client_and_quota_count():
    record = {
        "v": 1,
        "kind": "quota",
        "ts": 5_000,
        "interval_ms": 1_000,
        "broker": 2,
        "quota": "produce",
        "client_id": "noisy",
        "usage": 12.5,
    }
    assert parse_usage(json.dumps(record).encode(), "produce", "noisy") == MeasuredUsage(
        2, 5_000, 1_000, 12.5
    )
    for other in ({"kind": "broker"}, {"quota": "fetch"}, {"client_id": "polite"}):
        assert parse_usage(json.dumps({**record, **other}).encode(), "produce", "noisy") is None


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\xff",
        b"[1]",
        b"[" * 100_000,
        b'{"kind": "quota", "quota": "produce", "client_id": "noisy"}',
        b'{"kind": "quota", "quota": "produce", "client_id": "noisy", "broker": 1, "ts": 1,'
        b' "interval_ms": 0, "usage": 1}',
    ],
)
def test_parse_usage_ignores_other_values(value):
    assert parse_usage(value, "produce", "noisy") is None
