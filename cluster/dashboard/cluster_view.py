"""The page's view of the cluster, from the brokers' answers and counters. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from cluster.client.topic_requests import ClusterFacts
from cluster.dashboard.sources import Json
from cluster.metrics.broker_metrics import BY_KEY
from cluster.metrics.stats_reader import Stats
from cluster.views.broker_rates import api_rates
from cluster.views.client_states import ALIVE, BrokerStats


def cluster_view(
    facts: ClusterFacts,
    brokers: Sequence[BrokerStats],
    disk_bytes: Mapping[int, int],
) -> Json:
    """`brokers` are all brokers, alive or not; `disk_bytes` are those in the log directories of the
    brokers that responded.
    """
    partitions = [each for topic in facts.topics for each in topic.partitions]
    leaders = Counter(each.leader for each in partitions)
    replicas = Counter(broker for each in partitions for broker in each.replicas)
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
                "disk_bytes": disk_bytes.get(broker.broker),
            }
            for broker in brokers
        ],
    }


def api_view(readings: Iterable[tuple[BrokerStats, Stats | None]]) -> list[Json]:
    """Requests by broker and API, from the last two readings of each broker that writes."""
    return [
        {"broker": broker.broker, **each._asdict()}
        for broker, former in readings
        if former is not None and broker.state == ALIVE
        for each in api_rates(broker.stats, former)
    ]


def _sum(brokers: Iterable[BrokerStats], key: str) -> int:
    return sum(_values(brokers, key))


def _most(brokers: Iterable[BrokerStats], key: str) -> int:
    return max(_values(brokers, key), default=0)


def _values(brokers: Iterable[BrokerStats], key: str) -> list[int]:
    name = BY_KEY[key].name
    return [int(broker.stats.values.get(name, 0)) for broker in brokers if not broker.is_dead]
