"""The list of topics as the page shows it. Pure."""

from collections.abc import Iterable, Mapping

from cluster.client.topic_requests import TopicFacts
from cluster.dashboard.sources import Json
from cluster.dashboard.topics.broker_figures import BrokerFigures
from cluster.model.topics import METRICS_TOPIC


def topic_list(
    topics: Iterable[TopicFacts],
    figures: BrokerFigures,
    policies: Mapping[str, str],
) -> Json:
    """A row for each topic; `policies` are the values of cleanup.policy as far as they are known.

    `without_rates` counts topics that some broker has no row for, so that rates are not known.
    """
    rows = [_row(topic, figures, policies.get(topic.name)) for topic in topics]
    return {
        "topics": rows,
        "without_rates": sum(each["in"] is None for each in rows) if figures.lack_rows else 0,
    }


def is_internal(topic: TopicFacts) -> bool:
    """Whether lists hide a topic until it is asked for: it is Kafka's own, or Milena's."""
    return topic.is_internal or topic.name == METRICS_TOPIC


def replication(topic: TopicFacts) -> Json:
    """How far the replicas of a topic are in sync."""
    partitions = topic.partitions
    return {
        "partitions": len(partitions),
        "replication_factor": max((len(each.replicas) for each in partitions), default=0),
        "replicas": sum(len(each.replicas) for each in partitions),
        "in_sync": sum(len(each.isr) for each in partitions),
        "under_replicated": sum(each.is_under_replicated for each in partitions),
        "offline": sum(each.leader is None for each in partitions),
    }


def _row(topic: TopicFacts, figures: BrokerFigures, policy: str | None) -> Json:
    found = figures.of(topic)
    return {
        "name": topic.name,
        "internal": is_internal(topic),
        **replication(topic),
        "bytes": found.bytes,
        **found.rates,
        "policy": policy,
    }
