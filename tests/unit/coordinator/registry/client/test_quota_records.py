"""Quotas in a real registry: what is read, what is changed, and what other tools leave there."""

from collections.abc import Iterator
from typing import Any

import pytest
from kazoo.security import make_digest_acl

from cluster.coordinator.cluster_store import ClusterStore
from cluster.coordinator.registry.client.change_nodes import CHANGE_EXPIRY_MS
from cluster.coordinator.registry.documents import paths
from cluster.model.clocks import WallMs
from cluster.model.quotas import DEFAULT, QuotaEntity, QuotaKind
from cluster.model.scram import credential_of
from cluster.model.security import SaslMechanism
from tests.integration.registry_process import RegistryProcess
from tests.support.fake_registry import store_of
from tests.support.waiting import wait_until

ALICE = QuotaEntity("alice", None)
RATE = {"producer_byte_rate": "1024"}
LIMIT = {QuotaKind.PRODUCE: 1024.0}


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    with RegistryProcess(tmp_path_factory.mktemp("registry") / "data") as process:
        yield process


@pytest.fixture
def client(registry: RegistryProcess) -> Iterator[Any]:
    client = registry.client_of_empty_tree()
    store_of(client).brokers.prepare()
    yield client
    registry.close_clients()


@pytest.fixture
def store(client: Any) -> ClusterStore:
    return store_of(client)


def now_ms(client: Any) -> int:
    ctime: int = client.exists(paths.CONFIG_CHANGES).ctime
    return ctime


def test_written_quotas_are_loaded(client, store):
    entities = [
        ALICE,
        QuotaEntity(DEFAULT, None),
        QuotaEntity(None, "<default>"),
        QuotaEntity("CN=a b/*~é", "client 1"),
        QuotaEntity(DEFAULT, DEFAULT),
    ]
    for entity in entities:
        store.quotas.alter(entity, RATE, WallMs(now_ms(client)))
    assert store.quotas.load() == dict.fromkeys(entities, LIMIT)
    store.quotas.alter(ALICE, {"producer_byte_rate": None}, WallMs(now_ms(client)))
    assert ALICE not in store.quotas.load()


@pytest.mark.parametrize(
    "name", [".", "..", "/", "a/../b", "%", "%2E", "%2F", "\x01", "<default>", "~"]
)
def test_names_with_a_meaning_in_paths_are_escaped(client, name, store):
    entities = [QuotaEntity(name, None), QuotaEntity(None, name), QuotaEntity(name, name)]
    for entity in entities:
        store.quotas.alter(entity, RATE, WallMs(now_ms(client)))
    assert store.quotas.load() == dict.fromkeys(entities, LIMIT)
    mechanism = SaslMechanism.SCRAM_SHA_256
    credential = credential_of(mechanism, "secret", b"salt")
    store.credentials.alter(name, {mechanism: credential}, WallMs(now_ms(client)))
    assert store.credentials.load() == {name: {mechanism: credential}}
    store.credentials.alter(name, {mechanism: None}, WallMs(now_ms(client)))
    assert store.credentials.load() == {}
    assert store.quotas.load() == dict.fromkeys(entities, LIMIT)


def test_the_zone_of_an_address_leaves_its_znode(client, store):
    entity = QuotaEntity(None, None, "fe80::1%a/../b")
    store.quotas.alter(entity, {"connection_creation_rate": "5"}, WallMs(now_ms(client)))
    assert store.quotas.load() == {entity: {QuotaKind.CONNECTION: 5.0}}


def test_rates_of_addresses_are_where_kafka_keeps_them(client, store):
    addresses = [QuotaEntity(None, None, ip) for ip in ("192.0.2.7", "::1", DEFAULT)]
    for entity in addresses:
        store.quotas.alter(entity, {"connection_creation_rate": "5"}, WallMs(now_ms(client)))
    assert sorted(client.get_children("/config/ips")) == ["192.0.2.7", "::1", "<default>"]
    assert store.quotas.load() == {entity: {QuotaKind.CONNECTION: 5.0} for entity in addresses}


def test_change_keeps_foreign_keys_and_is_announced(client, store):
    client.create("/config/users/alice", b'{"version":1,"config":{"SCRAM-SHA-256":"x"}}')
    told: list[Any] = []
    store.quotas.load(lambda: told.append(None))
    store.quotas.alter(ALICE, RATE, WallMs(now_ms(client)))
    wait_until(lambda: told, "the announcement")
    assert b'"SCRAM-SHA-256":"x"' in client.get("/config/users/alice")[0]
    (name,) = client.get_children(paths.CONFIG_CHANGES)
    document, _ = client.get(f"{paths.CONFIG_CHANGES}/{name}")
    assert document == b'{"version":2,"entity_path":"users/alice"}'


def test_old_announcements_are_removed_by_the_next(client, store):
    for number in range(3):
        store.quotas.alter(ALICE, {"producer_byte_rate": str(number + 1)}, WallMs(now_ms(client)))
    store.quotas.alter(ALICE, RATE, WallMs(now_ms(client) + CHANGE_EXPIRY_MS + 60_000))
    assert client.get_children(paths.CONFIG_CHANGES) == []


def test_unreadable_quota_is_ignored_and_others_apply(client, store):
    store.quotas.alter(ALICE, RATE, WallMs(now_ms(client)))
    secret = [make_digest_acl("other", "secret", all=True)]
    for name, document in {
        "protected": b'{"version":1,"config":{"producer_byte_rate":"5"}}',
        "empty": b"",
        "nonsense": b"\xff",
        "list": b"[]",
        "deep": b"[" * 50_000,
        "infinite": b'{"version":1,"config":{"producer_byte_rate":"1e999"}}',
        "nan": b'{"version":1,"config":{"producer_byte_rate":"nan"}}',
        "negative": b'{"version":1,"config":{"producer_byte_rate":-1}}',
        "text": b'{"version":1,"config":{"producer_byte_rate":"fast"}}',
        "null": b'{"version":1,"config":null}',
        "unknown": b'{"version":9,"config":{"new_rate":"1"},"more":{}}',
        "%FF": b'{"version":1,"config":{"producer_byte_rate":"5"}}',
    }.items():
        for kind in ("users", "clients"):
            acl = secret if name == "protected" else None
            client.create(f"/config/{kind}/{name}", document, acl=acl)
    client.create("/config/users/alice/clients", b"", acl=secret)
    assert store.quotas.load() == {ALICE: LIMIT}
