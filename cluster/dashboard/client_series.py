"""The Prometheus series of clients and their quotas, for a bounded number of clients."""

from collections.abc import Iterable, Sequence
from typing import Final

from cluster.dashboard.exposition_text import label_text
from cluster.dashboard.families import (
    USAGE_FAMILIES,
    Families,
    rate_family,
    throttle_time_family,
)
from cluster.dashboard.recent_throttles import RecentThrottles
from cluster.metrics.stats_layout import QuotaRow
from cluster.model.quota_usage import KAFKA_SENSORS, USAGE_FIELDS
from cluster.model.units import Unit
from cluster.views.client_states import BrokerStats, ClientState, client_states

CLIENTS_MAX: Final = 1_000
"""Clients with series of their own: those with limits first, and of these the most throttled."""
OTHER: Final = "_other"
"""The user and client id of the sum of all others."""

_FAMILIES: Final = {
    str(kind): (rate_family(kind), throttle_time_family(kind)) for kind in KAFKA_SENSORS
}
"""The families of a client's rate and of its throttle time, by kind of quota."""

_Client = tuple[str, str]


def add_clients(
    families: Families, brokers: Sequence[BrokerStats], throttles: RecentThrottles
) -> None:
    """Add the usage and throttle times of the clients of these brokers.

    The other clients have no counters: their sum would fall whenever a client leaves them.
    """
    states = [state for state in client_states(brokers) if state.row.quota in _FAMILIES]
    own = _with_own_series(states)
    clients: dict[int, set[_Client]] = {broker.broker: set() for broker in brokers}
    means = {each.broker: throttles.means(each.broker, each.stats) for each in brokers}
    delays: dict[tuple[str, str], float] = {}
    seen: set[str] = set()
    for state in states:
        row = state.row
        client = (row.user, row.client_id)
        number = state.source.broker
        clients[number].add(client)
        broker = ("broker", str(number))
        rate, delay = _FAMILIES[row.quota]
        if client in own:
            labels = label_text([broker, ("user", row.user), ("client_id", row.client_id)])
            _add_counters(families, labels, row)
            quota = f'{labels},quota="{row.quota}"'
            if quota not in seen:  # names are cut, so two clients may have the same
                seen.add(quota)
                _add_limit(families, quota, state)
            if row.connections and labels not in seen:
                seen.add(labels)
                software = label_text([("software", row.software)])
                families.add("milena_client_connections", f"{labels},{software}", row.connections)
        else:
            labels = label_text([broker, ("user", OTHER), ("client_id", OTHER)])
        families.add(rate, labels, row.rate)
        mean_ms = means[number].get((row.quota, *client), 0.0)
        delays[delay, labels] = max(delays.get((delay, labels), 0.0), mean_ms)
    for (delay, labels), delay_ms in delays.items():
        families.add(delay, labels, delay_ms)
    for number, found in clients.items():
        labels = label_text([("broker", str(number))])
        families.add("milena_clients", labels, len(found))
        families.add("milena_clients_other", labels, len(found - own))


def _add_counters(families: Families, labels: str, row: QuotaRow) -> None:
    labels = f'{labels},quota="{row.quota}"'
    for name, family in USAGE_FAMILIES.items():
        value = getattr(row, name)
        is_ms = USAGE_FIELDS[name].unit is Unit.MILLISECONDS
        families.add(family, labels, value / 1_000 if is_ms else value)


def _add_limit(families: Families, labels: str, state: ClientState) -> None:
    row = state.row
    families.add("milena_quota_muted", labels, int(state.muted_left_ms > 0))
    if row.limit is not None and row.utilization is not None:
        rule = label_text([("rule", row.rule or "")])
        families.add("milena_quota_limit", f"{labels},{rule}", row.limit)
        families.add("milena_quota_utilisation_ratio", labels, row.utilization)


def _with_own_series(states: Iterable[ClientState]) -> set[_Client]:
    """Choose at most `CLIENTS_MAX` by their totals, whose order seldom changes: a series should not
    come and go.
    """
    weights: dict[_Client, tuple[bool, int, int]] = {}
    for state in states:
        row = state.row
        client = (row.user, row.client_id)
        is_limited, throttled, requests = weights.get(client, (False, 0, 0))
        weights[client] = (
            is_limited or row.limit is not None,
            throttled + row.throttled,
            requests + row.requests,
        )
    weights.pop((OTHER, OTHER), None)
    if len(weights) <= CLIENTS_MAX:
        return set(weights)
    return set(sorted(weights, key=weights.__getitem__, reverse=True)[:CLIENTS_MAX])
