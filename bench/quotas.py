"""What quota bookkeeping costs per request: `python -m bench.quotas`. The aim is below 10 us."""

import time

from cluster.model.quotas import DEFAULT, QuotaEntity, QuotaKind
from cluster.quotas.client_accounts import ClientAccounts
from cluster.quotas.client_quotas import ClientQuotas

REQUESTS = 200_000
CLIENTS = 1_000


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
    quotas = ClientQuotas()
    quotas.replace_quotas(limits)
    charges = [
        ClientAccounts(quotas, "ANONYMOUS", f"client-{number}").on_produced
        for number in range(client_count)
    ]
    began = time.perf_counter()
    for number in range(REQUESTS):
        # Time as the loop gives it: one millisecond per 20 requests.
        charges[number % client_count](50, 16_384, number // 20)
    return (time.perf_counter() - began) / REQUESTS * 1e6


if __name__ == "__main__":
    main()
