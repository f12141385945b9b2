"""Topics and settings, asked of an admin client that answers what a test says."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ConfigEntry, ConfigResource, ConfigSource

from cluster.tools.configs.listing import ListedSynonym
from cluster.tools.configs.requests import broker_configs, topic_configs
from cluster.tools.topics.description import PartitionDescription
from cluster.tools.topics.requests import (
    add_partitions,
    create_topic,
    delete_topic,
    describe_topics,
    partition_counts,
)

GONE = KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))


def future(outcome: object) -> Future:
    done: Future = Future()
    if isinstance(outcome, Exception):
        done.set_exception(outcome)
    else:
        done.set_result(outcome)
    return done


def node(broker: int) -> SimpleNamespace:
    return SimpleNamespace(id=broker)


def partition(number: int, leader: int | None, *replicas: int) -> SimpleNamespace:
    nodes = [node(broker) for broker in replicas]
    chosen = None if leader is None else node(leader)
    return SimpleNamespace(id=number, leader=chosen, replicas=nodes, isr=nodes[:1])


def topic(name: str, *partitions: SimpleNamespace, is_internal: bool = False) -> SimpleNamespace:
    return SimpleNamespace(
        name=name, topic_id="Kc0bczL4QceaSHaG+A17ZA", is_internal=is_internal, partitions=partitions
    )


def config(
    name: str, value: str, source: ConfigSource, synonyms: dict[str, ConfigEntry] | None = None
) -> ConfigEntry:
    """As the client makes it: with the number of its source."""
    number: Any = source.value
    return ConfigEntry(name, value, source=number, synonyms=synonyms or {})


class FakeAdmin:
    """Knows topics, of which some may be gone when they are described."""

    def __init__(self, *topics: SimpleNamespace, gone: tuple[str, ...] = ()) -> None:
        self.topics = {one.name: one for one in topics}
        self.gone = gone
        self.asked: list[tuple[str, list]] = []

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> SimpleNamespace:
        return SimpleNamespace(topics=self.topics)

    def describe_topics(self, collection, request_timeout: float) -> dict[str, Future]:
        return {
            name: future(GONE if name in self.gone else self.topics[name])
            for name in collection.topic_names
        }

    def describe_configs(self, resources, request_timeout: float) -> dict[ConfigResource, Future]:
        entries = {
            "retention.ms": config("retention.ms", "60000", ConfigSource.DYNAMIC_TOPIC_CONFIG),
            "broker.id": config(
                "broker.id",
                "1",
                ConfigSource.STATIC_BROKER_CONFIG,
                {"broker.id": config("broker.id", "0", ConfigSource.DEFAULT_CONFIG)},
            ),
            "cleanup.policy": config("cleanup.policy", "delete", ConfigSource.DEFAULT_CONFIG),
        }
        return {
            resource: future(GONE if resource.name in self.gone else entries)
            for resource in resources
        }

    def create_topics(self, topics, **patience: float) -> dict[str, Future]:
        return self._ask("create", topics)

    def create_partitions(self, topics, **patience: float) -> dict[str, Future]:
        return self._ask("grow", topics)

    def delete_topics(self, topics, **patience: float) -> dict[str, Future]:
        return self._ask("delete", topics)

    def _ask(self, what: str, topics: list) -> dict[str, Future]:
        self.asked.append((what, topics))
        return {"one": future(None)}


def an_admin(*topics: SimpleNamespace, gone: tuple[str, ...] = ()) -> Any:
    return FakeAdmin(*topics, gone=gone)


ORDERS = topic("orders", partition(1, None, 2, 0), partition(0, 1, 1, 2))
OFFSETS = topic("__offsets", partition(0, 0, 0), is_internal=True)


def test_topics_are_counted_with_and_without_internal_ones():
    admin = an_admin(ORDERS, OFFSETS)
    assert partition_counts(admin) == {"orders": 2, "__offsets": 1}
    assert partition_counts(admin, exclude_internal=True) == {"orders": 2}
    assert partition_counts(an_admin(), exclude_internal=True) == {}


def test_a_topic_is_described_with_what_was_set():
    (described,) = describe_topics(an_admin(ORDERS), ["orders"])
    assert described.id == "Kc0bczL4QceaSHaG-A17ZA"
    assert described.configs == {"retention.ms": "60000", "broker.id": "1"}
    assert described.partitions == (
        PartitionDescription(0, 1, (1, 2), (1,)),
        PartitionDescription(1, None, (2, 0), (2,)),
    )


def test_a_topic_that_is_deleted_meanwhile_is_left_out():
    assert describe_topics(an_admin(ORDERS, gone=("orders",)), ["orders"]) == []
    assert topic_configs(an_admin(ORDERS, gone=("orders",)), ["orders"]) == {}


def test_settings_come_with_their_sources():
    entry = next(e for e in broker_configs(an_admin(), "1") if e.name == "broker.id")
    assert entry.source == "STATIC_BROKER_CONFIG"
    assert entry.synonyms == (
        ListedSynonym("STATIC_BROKER_CONFIG", "broker.id", "1"),
        ListedSynonym("DEFAULT_CONFIG", "broker.id", "0"),
    )


def test_what_is_not_said_is_left_to_the_brokers():
    admin = an_admin()
    create_topic(
        admin, "t", partitions=None, replication_factor=None, replicas=None, configs={"a": "b"}
    )
    ((_, [new]),) = admin.asked
    assert (new.topic, new.num_partitions, new.replication_factor) == ("t", -1, -1)
    assert new.config == {"a": "b"}


def test_replicas_may_be_chosen():
    admin = an_admin()
    create_topic(
        admin, "t", partitions=None, replication_factor=None, replicas=[[0, 1], [1, 2]], configs={}
    )
    add_partitions(admin, "t", 3, [[2, 0]])
    add_partitions(admin, "t", 3, None)
    (_, [created]), (_, [placed]), (_, [free]) = admin.asked
    assert (created.num_partitions, created.replica_assignment) == (2, [[0, 1], [1, 2]])
    assert (placed.new_total_count, placed.replica_assignment) == (3, [[2, 0]])
    assert not free.replica_assignment


def test_deletion_names_the_topic():
    admin = an_admin()
    delete_topic(admin, "t")
    assert admin.asked == [("delete", ["t"])]


def test_a_refusal_comes_through():
    admin = an_admin()
    admin.delete_topics = lambda topics, **patience: {"t": future(GONE)}
    with pytest.raises(KafkaException):
        delete_topic(admin, "t")
