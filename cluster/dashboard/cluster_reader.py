"""Asks brokers for what their stats files lack: topics, replicas, disk."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from cluster.client.log_dir_requests import describe_log_dirs
from cluster.client.topic_requests import cluster_facts
from cluster.dashboard.broker_connection import addresses_of, connect
from cluster.dashboard.cluster_view import cluster_view
from cluster.dashboard.sources import Json
from cluster.datadir.paths import DataDir
from cluster.model.clocks import MonotonicMs
from cluster.model.errors import Refused, UserError
from cluster.views.client_states import ALIVE, BrokerStats

log = logging.getLogger(__name__)

_SLOW_PERIOD_MS: Final = 10_000
"""How often disks are read: that costs more."""


class ClusterReader:
    """Caches what changes slowly. Not thread-safe: one call at a time."""

    def __init__(self, files: DataDir) -> None:
        self._files = files
        self._disk: Mapping[int, int] = {}
        self._asked_ms: MonotonicMs | None = None

    def read(
        self, state: Mapping[str, Any], brokers: Sequence[BrokerStats], now_ms: MonotonicMs
    ) -> Json:
        """Read the cluster, see `cluster_view`. `state` is the supervisor's answer. Raises
        UserError.
        """
        alive = [broker.broker for broker in brokers if broker.state == ALIVE]
        addresses = addresses_of(state, alive)
        with connect(self._files, addresses.values()) as client:
            facts = cluster_facts(client)
            if self._asked_ms is None or now_ms - self._asked_ms >= _SLOW_PERIOD_MS:
                self._disk = self._disk_use([(each, addresses[each]) for each in alive])
                self._asked_ms = now_ms
        return cluster_view(facts, brokers, self._disk)

    def _disk_use(self, brokers: Sequence[tuple[int, tuple[str, int]]]) -> Mapping[int, int]:
        found: Counter[int] = Counter()
        for broker, address in brokers:
            try:
                with connect(self._files, [address]) as client:
                    directories = describe_log_dirs(client)
            except (UserError, Refused) as problem:
                log.info("broker %d does not say what its disks hold: %s", broker, problem)
                continue
            for replica in (each for directory in directories for each in directory.replicas):
                found[broker] += replica.size_bytes
        return found
