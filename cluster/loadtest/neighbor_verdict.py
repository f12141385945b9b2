"""Compares the results of the noisy-neighbor scenario with the expectations. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cluster.runtime.text_table import table_text

MIB: Final = 1024 * 1024
QUOTA_TOLERANCE: Final = 0.05
ROUGH_TOLERANCE: Final = 0.15
"""For measurements of a few seconds, which may cover only a part of a wave (`WAVE_S`)."""
POLITE_SHARE: Final = 0.95
"""The polite client must reach at least this share of its scheduled rate."""
ROUGH_POLITE_SHARE: Final = 0.75
"""For measurements of a few seconds, in which a stall of the machine of a second or two weighs
heavily. A client that is wrongly limited by the other's quota gets far less than this."""
LATENCY_FACTOR: Final = 5.0
LATENCY_FLOOR_MS: Final = 250.0
"""A p99 below this is always accepted: on a small busy machine the scheduler causes such delays,
whereas a client that is wrongly limited by the other's quota is delayed by seconds."""
ROUGH_LATENCY_FLOOR_MS: Final = 2_000.0
"""For measurements of a few seconds, perhaps beside other tests."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The measurements while the quota was set. Rates are in bytes per second."""

    quota: float
    is_rough: bool
    """Whether the time was so short that only exceeding a limit can be judged."""
    broker_rates: Mapping[int, float]
    """The noisy client's bytes/s by leader; the quota applies to each leader separately."""
    noisy_throttle_ms: int
    polite_rate_scheduled: float
    polite_rate: float
    polite_failed: int
    polite_throttle_ms: int
    p99_alone_ms: float
    p99_limited_ms: float


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the verdict."""

    what: str
    expected: str
    observed: str
    holds: bool


def verdict(judged: Judged) -> list[Check]:
    """Every expectation, and whether it is met."""
    tolerance = ROUGH_TOLERANCE if judged.is_rough else QUOTA_TOLERANCE
    low = 0.0 if judged.is_rough else judged.quota * (1 - tolerance)
    high = judged.quota * (1 + tolerance)
    sign = "at most +" if judged.is_rough else "±"
    wanted = f"{judged.quota / MIB:.2f} MiB/s {sign}{tolerance * 100:.0f} %"
    checks = [
        Check(f"noisy at broker {broker}", wanted, f"{rate / MIB:.3f} MiB/s", low <= rate <= high)
        for broker, rate in sorted(judged.broker_rates.items())
    ]
    total = sum(judged.broker_rates.values())
    count = len(judged.broker_rates)
    checks.append(
        Check(
            "noisy in all",
            f"{judged.quota * count / MIB:.2f} MiB/s ({count} brokers lead)",
            f"{total / MIB:.3f} MiB/s",
            low * count <= total <= high * count and count > 0,
        )
    )
    checks.append(
        Check(
            "noisy is throttled",
            "more than 0 ms",
            f"{judged.noisy_throttle_ms} ms in all",
            judged.noisy_throttle_ms > 0,
        )
    )
    share = ROUGH_POLITE_SHARE if judged.is_rough else POLITE_SHARE
    needed = judged.polite_rate_scheduled * share
    checks.append(
        Check(
            "polite gets its rate",
            f"at least {needed:.0f} records/s",
            f"{judged.polite_rate:.0f} records/s",
            judged.polite_rate >= needed and judged.polite_failed == 0,
        )
    )
    checks.append(
        Check(
            "polite is not throttled",
            "0 ms",
            f"{judged.polite_throttle_ms} ms",
            judged.polite_throttle_ms == 0,
        )
    )
    floor_ms = ROUGH_LATENCY_FLOOR_MS if judged.is_rough else LATENCY_FLOOR_MS
    bound_ms = max(judged.p99_alone_ms * LATENCY_FACTOR, floor_ms)
    checks.append(
        Check(
            "polite p99 latency",
            f"at most {bound_ms:.0f} ms (alone: {judged.p99_alone_ms:.1f} ms)",
            f"{judged.p99_limited_ms:.1f} ms",
            judged.p99_limited_ms <= bound_ms,
        )
    )
    return checks


def verdict_text(checks: list[Check]) -> str:
    """The aligned lines of the checks."""
    rows = [
        (f"{'✓' if check.holds else '✗'} {check.what}", check.expected, check.observed)
        for check in checks
    ]
    return table_text(("", "EXPECTED", "OBSERVED"), rows)
