"""What 100,000 clients take of a broker's memory: `python -m bench.quota_memory`. Aim: 100 MB.

    PYTHONPATH=. .venv/bin/python -m bench.quota_memory [--pairs 100000]

Each pair of a user and a client id of its own produces over a connection of its own, which is
closed then, once, twice and a third time within the eleven seconds for which that counts. Measured
is by how much the process has grown: accounts, budgets, what is known of closed connections, and
what waits to be written to the stats file, as the broker keeps them. The stats file is not counted:
it has a fixed number of rows.
"""

import argparse
import gc
import multiprocessing
import re
from pathlib import Path
from typing import Any, Final

from cluster.brokers.metrics.client_rows import ClientRows
from cluster.brokers.metrics.publisher import DRAINED_PER_TICK, TICK_MS
from cluster.brokers.throttling.connected_clients import ConnectedClients
from cluster.metrics.mmap_stats import MmapStats
from cluster.model.clocks import MonotonicMs, WallMs
from cluster.model.quotas import DEFAULT, QuotaEntity, QuotaKind
from cluster.quotas.client_accounts import ClientAccounts
from cluster.quotas.client_quotas import ClientQuotas

ROUNDS: Final = 3
WITHIN_MS: Final = 10_500
_USERS: Final = 1_000


class _Connection:
    software = ("bench", "1")


def main() -> None:
    """Print one line per case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=100_000)
    pairs: int = parser.parse_args().pairs
    limit = {QuotaKind.PRODUCE: 1e6, QuotaKind.REQUEST: 10.0}
    print(f"{pairs} pairs; MB after one, two and three produce requests of each")
    for title, limits in (
        ("no quota is set", {}),
        ("a quota for each pair", {QuotaEntity(DEFAULT, DEFAULT): limit}),
        ("a quota for each user", {QuotaEntity(DEFAULT, None): limit}),
    ):
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            grown = pool.apply(_run, (limits, pairs))
        print(f"{title:<24}" + "".join(f"{number:8.1f}" for number in grown), flush=True)


def _run(limits: dict[QuotaEntity, dict[QuotaKind, float]], pairs: int) -> list[float]:
    quotas, connected = ClientQuotas(), ConnectedClients()
    quotas.replace_quotas(limits)
    rows = ClientRows(MmapStats.in_memory(slots=1), connected)
    rows.take_quotas(limits)
    before = _resident_mb()
    grown = []
    each_ms = max(1, pairs * ROUNDS // WITHIN_MS)
    count, now_ms = 0, MonotonicMs(0)
    for _ in range(ROUNDS):
        for number in range(pairs):
            if count % each_ms == 0:
                now_ms = MonotonicMs(now_ms + 1)
                if now_ms % TICK_MS == 0:
                    _tick(quotas, rows, now_ms)
            count += 1
            _request(quotas, connected, f"user-{number % _USERS}", f"client-{number}", now_ms)
        gc.collect()
        grown.append(_resident_mb() - before)
    return grown


def _request(
    quotas: ClientQuotas,
    connected: ConnectedClients,
    user: str,
    client_id: str,
    now_ms: MonotonicMs,
) -> None:
    channel: Any = _Connection()
    connected.on_request_kind(channel, user, client_id)
    accounts = ClientAccounts(quotas, user, client_id)
    accounts.on_produced(50, 1_000, now_ms)
    accounts.on_left(50_000, now_ms)
    connected.on_closed(channel)


def _tick(quotas: ClientQuotas, rows: ClientRows, now_ms: MonotonicMs) -> None:
    """As the publisher does."""
    rows.note_connections()
    for usage, state in quotas.drain_interval(now_ms, DRAINED_PER_TICK):
        rows.on_usage(usage, state, now_ms, WallMs(now_ms))
    if now_ms % 10_000 == 0:
        rows.take_intervals()
    quotas.expire(now_ms)


def _resident_mb() -> float:
    found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1_000


if __name__ == "__main__":
    main()
