"""Asks a cluster for the settings of topics and brokers through confluent-kafka. Prints nothing."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from cluster.tools.configs.listing import ConfigEntry, ListedSynonym, completed_synonyms
from cluster.tools.kafka_connection import REQUEST_TIMEOUT_S

if TYPE_CHECKING:
    from confluent_kafka import admin


def topic_configs(
    client: "admin.AdminClient", names: Iterable[str]
) -> dict[str, list[ConfigEntry]]:
    """The settings of each topic that exists. Raises KafkaException."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import ConfigResource, ResourceType

    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    if not resources:
        return {}
    found = {}
    futures = client.describe_configs(resources, request_timeout=REQUEST_TIMEOUT_S)
    for resource, future in futures.items():
        try:
            found[resource.name] = _entries(future.result())
        except KafkaException as refusal:
            if refusal.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
    return found


def broker_configs(client: "admin.AdminClient", broker_id: str) -> list[ConfigEntry]:
    """The settings of one broker, requested from that broker. Raises KafkaException."""
    from confluent_kafka.admin import ConfigResource, ResourceType

    resource = ConfigResource(ResourceType.BROKER, broker_id)
    (future,) = client.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_S).values()
    return _entries(future.result())


def _entries(told: "dict[str, admin.ConfigEntry]") -> list[ConfigEntry]:
    return [
        ConfigEntry(
            name=entry.name,
            value=entry.value,
            source=_source(entry),
            is_sensitive=entry.is_sensitive,
            is_read_only=entry.is_read_only,
            synonyms=completed_synonyms(
                _source(entry),
                entry.name,
                entry.value,
                [
                    ListedSynonym(_source(each), each.name, each.value)
                    for each in entry.synonyms.values()
                ],
            ),
        )
        for entry in told.values()
    ]


def _source(entry: "admin.ConfigEntry") -> str:
    from confluent_kafka.admin import ConfigSource

    return ConfigSource(entry.source).name
