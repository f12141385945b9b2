"""Asks brokers for what their stats files lack: topics, replicas, configs, disk."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from cluster.client.log_dir_requests import describe_log_dirs
from cluster.client.topic_requests import TopicFacts, cluster_facts, own_configs
from cluster.dashboard.broker_connection import addresses_of, connect
from cluster.dashboard.cluster_view import DiskUse, cluster_view, shown_topics, topic_view
from cluster.dashboard.sources import Json
from cluster.datadir.paths import DataDir
from cluster.model.clocks import MonotonicMs
from cluster.model.errors import Refused, UserError
from cluster.model.printable import one_line
from cluster.views.client_states import ALIVE, BrokerStats

log = logging.getLogger(__name__)

_SLOW_PERIOD_MS: Final = 10_000
"""How often disks and configs are read: they change slowly, and cost more."""


class ClusterReader:
    """Caches what changes slowly. Not thread-safe: one call at a time."""

    def __init__(self, files: DataDir) -> None:
        self._files = files
        self._disk = DiskUse()
        self._configs: Mapping[str, Mapping[str, str]] = {}
        self._asked_ms: MonotonicMs | None = None
        self._topics: Mapping[str, TopicFacts] = {}

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
            self._topics = {topic.name: topic for topic in facts.topics}
            if self._asked_ms is None or now_ms - self._asked_ms >= _SLOW_PERIOD_MS:
                self._configs = own_configs(client, [topic.name for topic in shown_topics(facts)])
                self._disk = self._disk_use([(each, addresses[each]) for each in alive])
                self._asked_ms = now_ms
        return cluster_view(facts, brokers, self._disk, self._configs)

    def topic(self, name: str) -> Json:
        """A topic of the last reading, see `topic_view`; callable from any thread. Raises
        UserError.
        """
        found = self._topics.get(name)
        if found is None:
            raise UserError(f"there is no topic {one_line(name)}")
        return topic_view(found)

    def _disk_use(self, brokers: Sequence[tuple[int, tuple[str, int]]]) -> DiskUse:
        by_broker: Counter[int] = Counter()
        by_topic: Counter[str] = Counter()
        for broker, address in brokers:
            try:
                with connect(self._files, [address]) as client:
                    directories = describe_log_dirs(client)
            except (UserError, Refused) as problem:
                log.info("broker %d does not say what its disks hold: %s", broker, problem)
                continue
            for replica in (each for directory in directories for each in directory.replicas):
                by_broker[broker] += replica.size_bytes
                by_topic[replica.topic] += replica.size_bytes
        return DiskUse(by_broker, by_topic)
