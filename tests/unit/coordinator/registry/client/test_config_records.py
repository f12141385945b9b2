"""Configs of brokers in a real registry: written, watched, and what other tools leave there."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from cluster.coordinator.cluster_store import NO_VERSION, StoredConfig
from cluster.coordinator.registry.client.broker_records import prepare_paths
from cluster.coordinator.registry.client.config_records import (
    announce,
    changed_topics,
    load_broker_config,
    write_broker_config,
)
from cluster.coordinator.registry.documents import paths
from cluster.model.clocks import WallMs
from cluster.model.ids import BrokerId
from tests.integration.registry_process import RegistryProcess
from tests.support.waiting import wait_until

SEVEN = BrokerId(7)
OWN, DEFAULT = "/config/brokers/7", "/config/brokers/<default>"
TEXTS = {"log.segment.bytes": "5000000"}


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    with RegistryProcess(tmp_path_factory.mktemp("registry") / "data") as process:
        yield process


@pytest.fixture
def client(registry: RegistryProcess) -> Iterator[Any]:
    client = registry.client()
    client.delete("/config", recursive=True)
    prepare_paths(client)
    yield client
    registry.close_clients()


def now_ms(client: Any) -> WallMs:
    return WallMs(client.exists(paths.CONFIG_CHANGES).ctime)


@pytest.mark.parametrize(("broker", "path"), [(SEVEN, OWN), (None, DEFAULT)])
def test_what_is_written_is_read_as_kafka_writes_it(client, broker, path):
    assert load_broker_config(client, broker) == StoredConfig({}, NO_VERSION)
    assert write_broker_config(client, broker, TEXTS, NO_VERSION, now_ms(client))

    stored = load_broker_config(client, broker)
    assert (stored.texts, stored.problem) == (TEXTS, None)
    assert client.get(path)[0] == b'{"version":1,"config":{"log.segment.bytes":"5000000"}}'
    (change,) = client.get_children(paths.CONFIG_CHANGES)
    assert json.loads(client.get(f"{paths.CONFIG_CHANGES}/{change}")[0]) == {
        "version": 2,
        "entity_path": path.removeprefix("/config/"),
    }
    assert write_broker_config(client, broker, {}, stored.version, now_ms(client))
    assert client.get(path)[0] == b'{"version":1,"config":{}}'


def test_nothing_is_written_over_what_somebody_else_has_written(client):
    assert write_broker_config(client, None, TEXTS, NO_VERSION, now_ms(client))
    stored = load_broker_config(client, None)
    client.set(DEFAULT, b'{"version":1,"config":{"max.connections":"5"}}')

    assert not write_broker_config(client, None, {}, stored.version, now_ms(client))
    assert not write_broker_config(client, None, {}, NO_VERSION, now_ms(client))
    assert load_broker_config(client, None).texts == {"max.connections": "5"}
    client.delete(DEFAULT)
    assert not write_broker_config(client, None, {}, stored.version, now_ms(client))


@pytest.mark.parametrize("document", [b"{", b"[]", b'{"version":1}', b'{"config":7}', b"\xff"])
def test_a_document_that_is_none_is_empty_and_told_of(client, document):
    client.create(OWN, document)
    stored = load_broker_config(client, SEVEN)
    assert stored.texts == {}
    assert OWN in str(stored.problem)
    assert write_broker_config(client, SEVEN, TEXTS, stored.version, now_ms(client))
    assert load_broker_config(client, SEVEN).texts == TEXTS


def test_a_change_is_noticed_without_being_announced(client):
    events: list[Any] = []
    for step in (
        lambda: client.create(OWN, b""),
        lambda: client.set(OWN, b"{}"),
        lambda: client.delete(OWN),
    ):
        load_broker_config(client, SEVEN, events.append)
        count = len(events)
        step()
        wait_until(lambda count=count: len(events) > count, "the watch")


def test_changed_topics_are_told_once(client):
    told: list[Any] = []
    announce(client, "topics/old", now_ms(client))
    before = changed_topics(client, None)
    assert before.names == frozenset()
    assert changed_topics(client, before.last, told.append) == before

    for entity in ("topics/orders", "topics/a.b_c-d", "users/alice", "brokers/7"):
        announce(client, entity, now_ms(client))
    wait_until(lambda: told, "the watch")
    found = changed_topics(client, before.last)
    assert found.names == {"orders", "a.b_c-d"}
    assert changed_topics(client, found.last).names == frozenset()


def test_changes_that_are_none_are_left_out(client):
    before = changed_topics(client, None)
    for document in (b"", b"{", b'{"version":1,"entity_type":"topics","entity_name":"t"}'):
        client.create(paths.CONFIG_CHANGE_PREFIX, document, sequence=True)
    for name in ("note", "config_change_", "config_change_x", "config_change_\u0663"):
        client.create(f"{paths.CONFIG_CHANGES}/{name}", b"")
    announce(client, "topics/t", now_ms(client))
    assert changed_topics(client, before.last).names == {"t"}
