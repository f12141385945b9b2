"""Asks brokers for topics: their partitions, offsets, sizes and configs."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from cluster.client.config_requests import described, topic_configs
from cluster.client.log_dir_requests import describe_log_dirs
from cluster.client.record_requests import EARLIEST, LATEST, leader_offsets
from cluster.client.socket_client import SocketClient
from cluster.client.topic_requests import Place, TopicFacts, by_leader, cluster_facts, topic_facts
from cluster.dashboard.broker_connection import addresses_of
from cluster.dashboard.sources import Json
from cluster.dashboard.topics.asked_brokers import AskedBrokers
from cluster.dashboard.topics.broker_figures import (
    BrokerFigures,
    Readings,
    brokers_without_rows,
    consumers_of,
)
from cluster.dashboard.topics.topic_list import topic_list
from cluster.dashboard.topics.topic_page import TopicAnswers, missing_topic, topic_page
from cluster.datadir.paths import DataDir
from cluster.model.clocks import MonotonicMs
from cluster.model.errors import ErrorCode, Refused, UserError
from cluster.model.printable import one_line
from cluster.runtime.installation import launcher
from cluster.views.client_states import ALIVE
from cluster.views.group_lags import GroupLags

_SIZES_PERIOD_MS: Final = 30_000
"""How often log directories are read where a stats file has no room for all topics."""
_POLICIES_PERIOD_MS: Final = 10_000
"""How often known cleanup policies are read again, some each time."""
POLICIES_AT_ONCE: Final = 50
"""A broker needs milliseconds for the configs of each topic."""
_POLICY: Final = "cleanup.policy"


class TopicReader:
    """Caches what changes slowly. Not thread-safe: one call at a time."""

    def __init__(self, files: DataDir) -> None:
        self._files = files
        self._policies: dict[str, str] = {}
        """Those read longest ago first."""
        self._policies_read_ms: MonotonicMs | None = None
        self._sizes: Mapping[int, Mapping[str, int]] = {}
        self._sizes_read_ms: MonotonicMs | None = None

    def all(self, state: Mapping[str, Any], readings: Readings, now_ms: MonotonicMs) -> Json:
        """Every topic, see `topic_list`. `state` is the supervisor's answer. Raises UserError."""
        with self._brokers(state, readings) as brokers:
            topics = brokers.any(cluster_facts).topics
            self._read_policies(brokers, [each.name for each in topics], now_ms)
            if _is_due(self._sizes_read_ms, _SIZES_PERIOD_MS, now_ms):
                lacking = brokers_without_rows(broker for broker, _ in readings)
                self._sizes = {each: _sizes_by_topic(brokers, each) for each in lacking}
                self._sizes_read_ms = now_ms
        return topic_list(topics, BrokerFigures(readings, self._sizes), self._policies)

    def _read_policies(
        self, brokers: AskedBrokers, names: Sequence[str], now_ms: MonotonicMs
    ) -> None:
        """Read the policies of some topics; a broker that does not tell them changes nothing."""
        present = frozenset(names)
        self._policies = {
            name: policy for name, policy in self._policies.items() if name in present
        }
        asked = [name for name in names if name not in self._policies]
        if _is_due(self._policies_read_ms, _POLICIES_PERIOD_MS, now_ms):
            asked += self._policies
            self._policies_read_ms = now_ms
        asked = asked[:POLICIES_AT_ONCE]
        if not asked:
            return
        found = _refusable(brokers, lambda client: topic_configs(client, asked, [_POLICY]))
        for name in () if found is None else asked:
            self._policies.pop(name, None)
            self._policies[name] = next((each.value or "" for each in found.get(name, ())), "")

    def one(
        self,
        name: str,
        state: Mapping[str, Any],
        readings: Readings,
        groups: Iterable[GroupLags],
    ) -> Json:
        """One topic, see `topic_page`. Raises UserError."""
        with self._brokers(state, readings) as brokers:
            try:
                topic = brokers.any(lambda client: topic_facts(client, name))
            except Refused as refused:
                raise UserError(f"topic {one_line(name)}: {refused.reason}") from None
            if topic is None:
                return missing_topic(name)
            answers = _answers(brokers, topic)
        sizes = _summed(answers.sizes)
        return topic_page(
            topic,
            answers,
            BrokerFigures(readings, {each: {name: size} for each, size in sizes.items()}).of(topic),
            consumers_of(name, groups),
            launcher(self._files.path),
        )

    def _brokers(self, state: Mapping[str, Any], readings: Readings) -> AskedBrokers:
        alive = frozenset(broker.broker for broker, _ in readings if broker.state == ALIVE)
        return AskedBrokers(self._files, addresses_of(state, alive), alive)


def _is_due(read_ms: MonotonicMs | None, period_ms: int, now_ms: MonotonicMs) -> bool:
    return read_ms is None or now_ms - read_ms >= period_ms


def _sizes_by_topic(brokers: AskedBrokers, broker: int) -> Mapping[str, int]:
    total: Counter[str] = Counter()
    for directory in brokers.one(broker, describe_log_dirs) or ():
        for replica in directory.replicas:
            total[replica.topic] += replica.size_bytes
    return total


def _answers(brokers: AskedBrokers, topic: TopicFacts) -> TopicAnswers:
    led = by_leader((Place(topic.name, each.number), each.leader) for each in topic.partitions)
    hosted: dict[int, list[Place]] = defaultdict(list)
    for each in topic.partitions:
        place = Place(topic.name, each.number)
        for broker in each.replicas:
            hosted[broker].append(place)
    sizes = {
        (broker, place.partition): size
        for broker, places in hosted.items()
        for place, size in _replica_sizes(brokers, broker, places).items()
    }
    return TopicAnswers(
        starts=_offsets(brokers, led, EARLIEST),
        ends=_offsets(brokers, led, LATEST),
        sizes=sizes,
        configs=_refusable(brokers, lambda client: described(client, "topics", topic.name)),
        silent=frozenset(brokers.silent),
    )


def _offsets(
    brokers: AskedBrokers, led: Mapping[int, list[Place]], timestamp_ms: int
) -> dict[int, int]:
    """The offsets of the partitions whose leaders tell them."""
    found = {}
    for leader, places in led.items():
        ask = partial(leader_offsets, places=places, timestamp_ms=timestamp_ms)
        for place, outcome in (brokers.one(leader, ask) or {}).items():
            if outcome.code is ErrorCode.none:
                found[place.partition] = outcome.value
    return found


def _replica_sizes(brokers: AskedBrokers, broker: int, places: list[Place]) -> dict[Place, int]:
    total: Counter[Place] = Counter()
    for directory in brokers.one(broker, partial(describe_log_dirs, places=places)) or ():
        for each in directory.replicas:
            total[Place(each.topic, each.partition)] += each.size_bytes
    return total


def _refusable(brokers: AskedBrokers, ask: Callable[[SocketClient], Any]) -> Any:
    """The answer of a broker; None if it refuses, or none responds."""
    try:
        return brokers.any(ask)
    except (Refused, UserError):
        return None


def _summed(sizes: Mapping[tuple[int, int], int]) -> dict[int, int]:
    total: Counter[int] = Counter()
    for (broker, _), size in sizes.items():
        total[broker] += size
    return total
