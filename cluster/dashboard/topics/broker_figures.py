"""What the brokers' stats files tell of topics: rates, sizes, groups. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from cluster.client.topic_requests import TopicFacts
from cluster.dashboard.sources import Json
from cluster.metrics.broker_metrics import BY_KEY
from cluster.metrics.stats_reader import Stats
from cluster.views.broker_rates import topic_values
from cluster.views.client_states import ALIVE, BrokerStats
from cluster.views.group_lags import GroupLags

Readings = Sequence[tuple[BrokerStats, Stats | None]]
"""Each broker's figures with an earlier reading of the same process, if there is one."""

_RATES: Final = {"in": "BytesInPerSec", "out": "BytesOutPerSec", "records": "MessagesInPerSec"}
_SIZE: Final = "Size"


class TopicFigures(NamedTuple):
    """One topic; what is not known is None."""

    bytes: int | None
    """All replicas on live brokers count."""
    rates: Mapping[str, float | None]
    """Per second: `in` and `out` in bytes, `records` that clients produce."""


class BrokerFigures:
    """The figures of live brokers by topic."""

    def __init__(
        self, readings: Readings, sizes: Mapping[int, Mapping[str, int]] | None = None
    ) -> None:
        """`sizes` by broker and topic count where a stats file has no row for a topic."""
        alive = [each for each in readings if each[0].state == ALIVE]
        self._sizes = sizes or {}
        self._values = {broker.broker: topic_values(broker.stats, None) for broker, _ in alive}
        self._rates = {
            broker.broker: topic_values(broker.stats, former)
            for broker, former in alive
            if former is not None
        }
        self._partial = frozenset(brokers_without_rows(broker for broker, _ in alive))

    @property
    def lack_rows(self) -> bool:
        """Whether a broker has more topics than its stats file has rows."""
        return bool(self._partial)

    def of(self, topic: TopicFacts) -> TopicFigures:
        """The figures of a topic."""
        hosts = {broker for each in topic.partitions for broker in each.replicas}
        return TopicFigures(
            self._size(topic.name, hosts & self._values.keys()),
            {name: self._rate(topic.name, hosts, key) for name, key in _RATES.items()},
        )

    def _size(self, topic: str, hosts: Iterable[int]) -> int | None:
        total = None
        for broker in hosts:
            row = self._values[broker].get(topic)
            size = self._sizes.get(broker, {}).get(topic) if row is None else row[_SIZE]
            if size is None and broker in self._partial:
                return None
            total = (total or 0) + int(size or 0)
        return total

    def _rate(self, topic: str, hosts: Iterable[int], key: str) -> float | None:
        known = [broker for broker in hosts if broker in self._rates]
        rows = [self._rates[broker].get(topic) for broker in known]
        if not known or any(
            row is None and broker in self._partial for row, broker in zip(rows, known, strict=True)
        ):
            return None
        return round(sum(row[key] for row in rows if row is not None), 1)


def brokers_without_rows(brokers: Iterable[BrokerStats]) -> list[int]:
    """The live brokers that have more topics than their stats files have rows."""
    name = BY_KEY["TopicsWithoutRow"].name
    return [
        each.broker
        for each in brokers
        if each.state == ALIVE and each.stats.values.get(name, 0) > 0
    ]


def consumers_of(topic: str, groups: Iterable[GroupLags]) -> list[Json]:
    """The groups that have committed offsets in the topic, those with the largest lag first."""
    found = []
    for group in groups:
        own = [each for each in group.partitions if each["topic"] == topic]
        if own:
            known = [each["lag"] for each in own if each["lag"] is not None]
            found.append(
                {
                    "group": group.fields["group"],
                    "state": group.fields["state"],
                    "members": group.fields["members"],
                    "partitions": len(own),
                    "lag": sum(known) if known else None,
                    "unknown": len(own) - len(known),
                }
            )
    return sorted(found, key=lambda each: (-(each["lag"] or 0), each["group"]))
