"""Asks brokers what keeps records from read_committed consumers, if their stats say that something
does.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from cluster.client.admin import Admin
from cluster.client.explanation_requests import ExplainedPartitions, explain_all_partitions
from cluster.client.security import Servers
from cluster.dashboard.broker_connection import CLIENT_ID, TIMEOUT_S, addresses_of, security_of
from cluster.dashboard.held_view import SHOWN_MAX, LastingHolds, held_view
from cluster.dashboard.sources import Json
from cluster.datadir.paths import DataDir
from cluster.metrics.broker_metrics import BY_KEY
from cluster.runtime.clock import SystemClock
from cluster.runtime.installation import launcher
from cluster.views.client_states import ALIVE, BrokerStats
from cluster.views.find_holders import ProducerNames, find_holders


class HeldReader:
    """Knows which partitions earlier readings have found. Not thread-safe: one call at a time."""

    def __init__(self, files: DataDir) -> None:
        self._files = files
        self._lasting = LastingHolds()
        self._clock = SystemClock()
        self._names = ProducerNames(self._clock)

    def read(self, state: Mapping[str, Any], brokers: Sequence[BrokerStats]) -> Json:
        """Read it, see `held_view`. `state` is the supervisor's answer. Raises UserError.

        Only leaders are asked whose stats name held-back partitions, and only coordinators of the
        transactions that are shown.
        """
        alive = [each.broker for each in brokers if each.state == ALIVE]
        asked = [each.broker for each in brokers if each.state == ALIVE and _holds_back(each)]
        if not asked:
            self._lasting.add({}, self._clock.monotonic_ms())
            return held_view([], 0, "", 0)
        addresses = list(addresses_of(state, alive).values())
        left_out = 0

        def ask() -> ExplainedPartitions:
            nonlocal left_out
            told = explain_all_partitions(admin, asked)
            lasting = list(self._lasting.add(told.held, self._clock.monotonic_ms()).items())
            told.held = dict(lasting[:SHOWN_MAX])
            left_out = len(lasting) - len(told.held)
            return told

        with Admin(Servers(addresses, security_of(self._files)), CLIENT_ID, TIMEOUT_S) as admin:
            _, holders = find_holders(admin, ask, self._names)
        self._names.keep({each.first.producer.producer_id for each in holders if each.first})
        program = launcher(self._files.path)
        return held_view(holders, left_out, program, self._clock.wall_ms())


def _holds_back(broker: BrokerStats) -> bool:
    return broker.stats.values.get(BY_KEY["HeldBackPartitions"].name, 0) > 0
