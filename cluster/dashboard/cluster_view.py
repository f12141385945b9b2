"""The page's view of the cluster, from the brokers' answers and counters. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from cluster.client.topic_requests import ClusterFacts, PartitionFacts, TopicFacts
from cluster.dashboard.sources import Json
from cluster.metrics.broker_metrics import BY_KEY
from cluster.metrics.stats_reader import Stats
from cluster.views.broker_rates import api_rates
from cluster.views.client_states import ALIVE, BrokerStats

TOPICS_MAX: Final = 200
"""Topics in one response: first those with problems, then by name."""

PARTITIONS_MAX: Final = 500
"""Partitions of one topic in one response."""


@dataclass(frozen=True, slots=True)
class DiskUse:
    """Bytes in the log directories of the brokers that responded."""

    by_broker: Mapping[int, int] = field(default_factory=dict)
    by_topic: Mapping[str, int] = field(default_factory=dict)
    """The sum of all replicas."""


def shown_topics(facts: ClusterFacts) -> list[TopicFacts]:

    def order(topic: TopicFacts) -> tuple[int, int, bool, str]:
        return (-_offline(topic), -_under_replicated(topic), topic.is_internal, topic.name)

    return sorted(facts.topics, key=order)[:TOPICS_MAX]


def cluster_view(
    facts: ClusterFacts,
    brokers: Sequence[BrokerStats],
    disk: DiskUse,
    configs: Mapping[str, Mapping[str, str]],
) -> Json:
    """`brokers` are all brokers, alive or not; `configs` are those of the shown topics."""
    partitions = [each for topic in facts.topics for each in topic.partitions]
    leaders = Counter(each.leader for each in partitions)
    replicas = Counter(broker for each in partitions for broker in each.replicas)
    shown = shown_topics(facts)
    return {
        "controller": facts.controller,
        "health": {
            "brokers": len(brokers),
            "brokers_up": sum(broker.state == ALIVE for broker in brokers),
            "under_replicated": sum(each.is_under_replicated for each in partitions),
            "under_min_isr": _sum(brokers, "UnderMinIsrPartitionCount"),
            "offline": sum(each.leader is None for each in partitions),
            "topics": len(facts.topics),
            "partitions": len(partitions),
            "open_transactions": _sum(brokers, "OpenTransactions"),
            "oldest_transaction_ms": _most(brokers, "OldestOpenTransactionMs"),
            "held_back": _sum(brokers, "HeldBackPartitions"),
            "held_back_records": _most(brokers, "LastStableOffsetLag"),
        },
        "brokers": [
            {
                "id": broker.broker,
                "leaders": leaders[broker.broker],
                "replicas": replicas[broker.broker],
                "disk_bytes": disk.by_broker.get(broker.broker),
            }
            for broker in brokers
        ],
        "topics": [
            {
                "name": topic.name,
                "internal": topic.is_internal,
                "partitions": len(topic.partitions),
                "replication_factor": max(
                    (len(each.replicas) for each in topic.partitions), default=0
                ),
                "replicas": sum(len(each.replicas) for each in topic.partitions),
                "in_sync": sum(len(each.isr) for each in topic.partitions),
                "under_replicated": _under_replicated(topic),
                "offline": _offline(topic),
                "bytes": disk.by_topic.get(topic.name),
                "configs": configs.get(topic.name, {}),
            }
            for topic in shown
        ],
    }


def topic_view(topic: TopicFacts) -> Json:
    """The partitions of a topic; if there are many, those with problems first."""
    partitions: Sequence[PartitionFacts] = topic.partitions
    if len(partitions) > PARTITIONS_MAX:
        partitions = sorted(
            partitions,
            key=lambda each: (each.leader is not None, not each.is_under_replicated, each.number),
        )
    return {
        "name": topic.name,
        "partitions": [
            {
                "partition": each.number,
                "leader": each.leader,
                "replicas": each.replicas,
                "in_sync": each.isr,
            }
            for each in partitions[:PARTITIONS_MAX]
        ],
        "left_out": max(0, len(partitions) - PARTITIONS_MAX),
    }


def api_view(readings: Iterable[tuple[BrokerStats, Stats | None]]) -> list[Json]:
    """Requests by broker and API, from the last two readings of each broker that writes."""
    return [
        {"broker": broker.broker, **each._asdict()}
        for broker, former in readings
        if former is not None and broker.state == ALIVE
        for each in api_rates(broker.stats, former)
    ]


def _offline(topic: TopicFacts) -> int:
    return sum(each.leader is None for each in topic.partitions)


def _under_replicated(topic: TopicFacts) -> int:
    return sum(each.is_under_replicated for each in topic.partitions)


def _sum(brokers: Iterable[BrokerStats], key: str) -> int:
    return sum(_values(brokers, key))


def _most(brokers: Iterable[BrokerStats], key: str) -> int:
    return max(_values(brokers, key), default=0)


def _values(brokers: Iterable[BrokerStats], key: str) -> list[int]:
    name = BY_KEY[key].name
    return [int(broker.stats.values.get(name, 0)) for broker in brokers if not broker.is_dead]
