"""What quota bookkeeping costs per request: `python -m bench.quotas`. The aim is below 10 us."""

import time
from collections.abc import Callable

from cluster.brokers.quota_throttle import QuotaThrottle
from cluster.brokers.quotas.client_quotas import ClientQuotas
from cluster.model.quotas import DEFAULT, QuotaEntity, QuotaKind

REQUESTS = 200_000
CLIENTS = 1_000


class Clock:
    """Time as the loop gives it: one millisecond per 20 requests."""

    def __init__(self) -> None:
        self.now_ms = 0

    def call_at(self, _deadline_ms: int, _callback: Callable[[], None]) -> None:
        raise AssertionError("nobody is throttled here")


def main() -> None:
    """Print one line per case."""
    for title, limits, client_count in (
        ("no quota is set, one client", {}, 1),
        ("no quota is set, 1000 clients", {}, CLIENTS),
        ("produce and request quota, one client", _limits(1e12), 1),
        ("produce and request quota, 1000 clients", _limits(1e12), CLIENTS),
        ("over the quota, one client", _limits(1.0), 1),
    ):
        best_us = min(_run(limits, client_count) for _ in range(5))
        print(f"{title:<42} {best_us:5.2f} us per produce request")


def _limits(limit: float) -> dict[QuotaEntity, dict[QuotaKind, float]]:
    return {QuotaEntity(None, DEFAULT): {QuotaKind.PRODUCE: limit, QuotaKind.REQUEST: limit}}


def _run(limits: dict[QuotaEntity, dict[QuotaKind, float]], client_count: int) -> float:
    quotas, clock = ClientQuotas(), Clock()
    quotas.replace_quotas(limits, 0)
    throttle = QuotaThrottle(quotas, clock)  # type: ignore[arg-type]  # timers are never asked for
    names = [f"client-{number}" for number in range(client_count)]
    on_produced = throttle.on_produced
    began = time.perf_counter()
    for number in range(REQUESTS):
        clock.now_ms = number // 20
        on_produced("ANONYMOUS", names[number % client_count], 16_384, 50)
    return (time.perf_counter() - began) / REQUESTS * 1e6


if __name__ == "__main__":
    main()
