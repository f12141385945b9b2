"""Configs of brokers in a real registry: written, watched, and what other tools leave there."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from cluster.coordinator.cluster_store import NO_VERSION, ClusterStore, StoredConfig, broker_config
from cluster.coordinator.registry.client.change_nodes import commit_config
from cluster.coordinator.registry.documents import paths
from cluster.model.clocks import WallMs
from cluster.model.ids import BrokerId
from tests.integration.registry_process import RegistryProcess
from tests.support.fake_registry import store_of
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
    store_of(client).brokers.prepare()
    yield client
    registry.close_clients()


@pytest.fixture
def store(client: Any) -> ClusterStore:
    return store_of(client)


def now_ms(client: Any) -> WallMs:
    return WallMs(client.exists(paths.CONFIG_CHANGES).ctime)


def announce(client: Any, entity_path: str) -> None:
    commit_config(client, client.transaction(), entity_path, now_ms(client))


@pytest.mark.parametrize(("broker", "path"), [(SEVEN, OWN), (None, DEFAULT)])
def test_configs_are_written_as_kafka_does_and_loaded(client, broker, path, store):
    assert store.configs.load(broker_config(broker)) == StoredConfig({}, NO_VERSION)
    assert store.configs.write(broker_config(broker), TEXTS, NO_VERSION, now_ms(client))

    stored = store.configs.load(broker_config(broker))
    assert (stored.texts, stored.problem) == (TEXTS, None)
    assert client.get(path)[0] == b'{"version":1,"config":{"log.segment.bytes":"5000000"}}'
    (change,) = client.get_children(paths.CONFIG_CHANGES)
    assert json.loads(client.get(f"{paths.CONFIG_CHANGES}/{change}")[0]) == {
        "version": 2,
        "entity_path": path.removeprefix("/config/"),
    }
    assert store.configs.write(broker_config(broker), {}, stored.version, now_ms(client))
    assert client.get(path)[0] == b'{"version":1,"config":{}}'


def test_write_with_an_old_version_changes_nothing(client, store):
    assert store.configs.write(broker_config(None), TEXTS, NO_VERSION, now_ms(client))
    stored = store.configs.load(broker_config(None))
    client.set(DEFAULT, b'{"version":1,"config":{"max.connections":"5"}}')

    assert not store.configs.write(broker_config(None), {}, stored.version, now_ms(client))
    assert not store.configs.write(broker_config(None), {}, NO_VERSION, now_ms(client))
    assert store.configs.load(broker_config(None)).texts == {"max.connections": "5"}
    client.delete(DEFAULT)
    assert not store.configs.write(broker_config(None), {}, stored.version, now_ms(client))


@pytest.mark.parametrize("document", [b"{", b"[]", b'{"version":1}', b'{"config":7}', b"\xff"])
def test_malformed_config_is_empty_and_reported(client, document, store):
    client.create(OWN, document)
    stored = store.configs.load(broker_config(SEVEN))
    assert stored.texts == {}
    assert OWN in str(stored.problem)
    assert store.configs.write(broker_config(SEVEN), TEXTS, stored.version, now_ms(client))
    assert store.configs.load(broker_config(SEVEN)).texts == TEXTS


def test_a_change_is_noticed_without_being_announced(client, store):
    events: list[Any] = []
    for step in (
        lambda: client.create(OWN, b""),
        lambda: client.set(OWN, b"{}"),
        lambda: client.delete(OWN),
    ):
        store.configs.load(broker_config(SEVEN), lambda: events.append(None))
        count = len(events)
        step()
        wait_until(lambda count=count: len(events) > count, "the watch")


def test_changed_topics_are_reported_once(client, store):
    told: list[Any] = []
    announce(client, "topics/old")
    before = store.topics.changed_configs(None)
    assert before.names == frozenset()
    assert store.topics.changed_configs(before.last, lambda: told.append(None)) == before

    for entity in ("topics/orders", "topics/a.b_c-d", "users/alice", "brokers/7"):
        announce(client, entity)
    wait_until(lambda: told, "the watch")
    found = store.topics.changed_configs(before.last)
    assert found.names == {"orders", "a.b_c-d"}
    assert store.topics.changed_configs(found.last).names == frozenset()


def test_malformed_change_nodes_are_ignored(client, store):
    before = store.topics.changed_configs(None)
    for document in (b"", b"{", b'{"version":1,"entity_type":"topics","entity_name":"t"}'):
        client.create(paths.CONFIG_CHANGE_PREFIX, document, sequence=True)
    for name in ("note", "config_change_", "config_change_x", "config_change_\u0663"):
        client.create(f"{paths.CONFIG_CHANGES}/{name}", b"")
    announce(client, "topics/t")
    assert store.topics.changed_configs(before.last).names == {"t"}
