"""ACLs in a real registry: what is read and changed, what is protected, who notices."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from kazoo.security import CREATOR_ALL_ACL, make_digest_acl

from cluster.coordinator.cluster_store import StoredAcls
from cluster.coordinator.registry.client.change_nodes import CHANGE_EXPIRY_MS
from cluster.model.acls import (
    AclEntry,
    AclOperation,
    AclPermission,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from cluster.model.clocks import WallMs
from tests.integration.registry_process import RegistryProcess
from tests.support.fake_registry import store_of

LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
READ = AclEntry("User:alice", "*", AclOperation.READ, AclPermission.ALLOW)
WRITE = AclEntry("User:CN=a b, O=ü", "::1", AclOperation.IDEMPOTENT_WRITE, AclPermission.DENY)
ORDERS = ResourcePattern(ResourceType.TOPIC, "orders")
NOW = WallMs(0)


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    with RegistryProcess(tmp_path_factory.mktemp("registry") / "data") as process:
        yield process


@pytest.fixture
def client(registry: RegistryProcess) -> Iterator[Any]:
    client = registry.client_of_empty_tree()
    for pattern_type in (LITERAL, PREFIXED):
        store_of(client).acls.load(pattern_type, None)
    yield client
    registry.close_clients()


def add(client: Any, pattern: ResourcePattern, *entries: AclEntry) -> StoredAcls:
    return store_of(client).acls.change(pattern, lambda old: old | set(entries), NOW)


def remove_all(client: Any, pattern: ResourcePattern) -> StoredAcls:
    return store_of(client).acls.change(pattern, lambda _: frozenset(), NOW)


@pytest.mark.parametrize("pattern_type", [LITERAL, PREFIXED])
def test_stored_acls_are_loaded(client: Any, pattern_type: PatternType) -> None:
    patterns = [
        ResourcePattern(ResourceType.TOPIC, "*", pattern_type),
        ResourcePattern(ResourceType.TRANSACTIONAL_ID, "tx é:1 %2F", pattern_type),
        ResourcePattern(ResourceType.CLUSTER, "kafka-cluster", pattern_type),
        ResourcePattern(ResourceType.USER, "CN=x, O=y", pattern_type),
    ]
    for pattern in patterns:
        assert add(client, pattern, READ, WRITE).entries == {READ, WRITE}
    news = store_of(client).acls.load(pattern_type, None)
    assert news.is_whole
    assert news.acls == dict.fromkeys(patterns, StoredAcls(frozenset({READ, WRITE})))
    other = PREFIXED if pattern_type is LITERAL else LITERAL
    assert store_of(client).acls.load(other, None).acls == {}


def test_only_changed_rules_are_read(client: Any) -> None:
    add(client, ORDERS, READ)
    seen = store_of(client).acls.load(LITERAL, None).seen
    group = ResourcePattern(ResourceType.GROUP, "a:b")
    add(client, group, READ)
    remove_all(client, ORDERS)
    news = store_of(client).acls.load(LITERAL, seen)
    assert not news.is_whole
    assert news.acls == {group: StoredAcls(frozenset({READ})), ORDERS: StoredAcls(frozenset())}
    assert store_of(client).acls.load(LITERAL, news.seen).acls == {}


def test_an_acl_request_without_changes_is_not_announced(client: Any) -> None:
    add(client, ORDERS, READ)
    seen = store_of(client).acls.load(LITERAL, None).seen
    assert add(client, ORDERS, READ).entries == {READ}
    assert remove_all(client, ResourcePattern(ResourceType.TOPIC, "none")).entries == frozenset()
    assert store_of(client).acls.load(LITERAL, None).seen == seen


def test_a_watch_is_called_at_the_next_change(client: Any) -> None:
    called = threading.Event()
    store_of(client).acls.load(LITERAL, None, called.set)
    assert not called.is_set()
    add(client, ORDERS, READ)
    assert called.wait(30)


def test_old_announcements_are_removed(client: Any) -> None:
    add(client, ORDERS, READ)
    now = client.exists("/kafka-acl-changes").ctime
    later = WallMs(now + CHANGE_EXPIRY_MS + 60_000)
    store_of(client).acls.change(ORDERS, lambda old: old | {WRITE}, later)
    assert client.get_children("/kafka-acl-changes") == []
    assert store_of(client).acls.load(LITERAL, None).acls[ORDERS].entries == {READ, WRITE}


def test_changes_of_many_brokers_at_once_are_all_kept(
    registry: RegistryProcess, client: Any
) -> None:
    entries = [READ._replace(principal=f"User:{number}") for number in range(40)]

    def add_some(own: list[AclEntry]) -> None:
        another = registry.client()
        for entry in own:
            add(another, ORDERS, entry)

    threads = [threading.Thread(target=add_some, args=(entries[n::4],)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert store_of(client).acls.load(LITERAL, None).acls[ORDERS].entries == set(entries)


def test_rules_without_read_permission_are_named_and_unchanged(
    registry: RegistryProcess, client: Any
) -> None:
    owner = registry.client()
    owner.add_auth("digest", "other:secret")
    add(client, ORDERS, READ)
    owner.set_acls("/kafka-acl/Topic/orders", [make_digest_acl("other", "secret", all=True)])
    found = store_of(client).acls.load(LITERAL, None).acls[ORDERS]
    assert found == StoredAcls(frozenset(), "/kafka-acl/Topic/orders may not be read")


def test_created_nodes_have_the_default_acl_of_the_client(registry: RegistryProcess) -> None:
    owner = registry.client()
    owner.add_auth("digest", "other:secret")
    for name in ("kafka-acl", "kafka-acl-changes"):
        if owner.exists(f"/{name}"):
            owner.delete(f"/{name}", recursive=True)
    owner.default_acl = CREATOR_ALL_ACL
    store_of(owner).acls.load(LITERAL, None)
    add(owner, ORDERS, READ)
    (change,) = owner.get_children("/kafka-acl-changes")
    for path in ("/kafka-acl", "/kafka-acl/Topic/orders", f"/kafka-acl-changes/{change}"):
        (acl,) = owner.get_acls(path)[0]
        assert acl.id.scheme == "digest"
    registry.close_clients()
