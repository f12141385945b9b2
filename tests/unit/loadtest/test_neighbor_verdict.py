from dataclasses import replace
from typing import Any

import pytest

from cluster.loadtest.neighbor_verdict import Judged, verdict, verdict_text

QUOTA = 1_048_576.0
AS_EXPECTED = Judged(
    quota=QUOTA,
    is_rough=False,
    broker_rates={0: QUOTA, 1: QUOTA * 1.04, 2: QUOTA * 0.96},
    noisy_throttle_ms=9_000,
    polite_rate_scheduled=300,
    polite_rate=299,
    polite_failed=0,
    polite_throttle_ms=0,
    p99_alone_ms=100.0,
    p99_limited_ms=400.0,
)


def broken(**changes: Any) -> list[str]:
    return [check.what for check in verdict(replace(AS_EXPECTED, **changes)) if not check.holds]


def test_verdict_passes_when_all_is_as_expected():
    assert broken() == []
    text = verdict_text(verdict(AS_EXPECTED))
    assert "✗" not in text
    assert text.count("✓") == len(verdict(AS_EXPECTED))


@pytest.mark.parametrize("factor", [0.94, 1.06])
def test_each_broker_is_judged_by_itself(factor):
    rates = {**AS_EXPECTED.broker_rates, 1: QUOTA * factor}
    assert broken(broker_rates=rates) == ["noisy at broker 1"]


def test_the_expected_total_grows_with_the_brokers_that_lead():
    assert broken(broker_rates={0: QUOTA}) == []
    assert "noisy in all" in broken(broker_rates={})
    rates = dict.fromkeys(range(3), QUOTA * 2)
    assert broken(broker_rates=rates) == [
        "noisy at broker 0",
        "noisy at broker 1",
        "noisy at broker 2",
        "noisy in all",
    ]


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"noisy_throttle_ms": 0}, "noisy is throttled"),
        ({"polite_rate": 284.9}, "polite gets its rate"),
        ({"polite_failed": 1}, "polite gets its rate"),
        ({"polite_throttle_ms": 1}, "polite is not throttled"),
        ({"p99_limited_ms": 500.1}, "polite p99 latency"),
    ],
)
def test_verdict_names_failed_expectations(changes, what):
    assert broken(**changes) == [what]
    assert "✗" in verdict_text(verdict(replace(AS_EXPECTED, **changes)))


def test_a_small_latency_is_good_however_small_it_was_before():
    assert broken(p99_alone_ms=1.0, p99_limited_ms=249.0) == []
    assert broken(p99_alone_ms=1.0, p99_limited_ms=251.0) == ["polite p99 latency"]


def test_rough_measurement_is_judged_for_exceeded_limits_only():
    assert broken(is_rough=True, broker_rates={0: QUOTA / 3}, p99_limited_ms=1_900.0) == []
    assert broken(is_rough=True, broker_rates={0: QUOTA * 1.16}) == [
        "noisy at broker 0",
        "noisy in all",
    ]
    assert broken(is_rough=True, p99_limited_ms=2_001.0) == ["polite p99 latency"]
    assert broken(is_rough=True, polite_rate=225.0) == []
    assert broken(is_rough=True, polite_rate=224.9) == ["polite gets its rate"]
