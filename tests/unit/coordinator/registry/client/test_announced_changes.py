"""Changes of documents while the disk of the registry is full: announced, or not made."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.exceptions import NotReadOnlyCallError

from cluster.coordinator.cluster_store import ClusterStore, group_config
from cluster.model.acls import (
    AclEntry,
    AclOperation,
    AclPermission,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from cluster.model.clocks import WallMs
from cluster.model.delegation_tokens import DelegationToken
from cluster.model.quotas import QuotaEntity
from cluster.model.scram import credential_of
from cluster.model.security import SaslMechanism
from tests.integration.registry_process import RegistryProcess, wait_until
from tests.support.fake_registry import FakeClient, FakeTree, store_of
from tests.support.small_disk import MIB, mounted

NOW = WallMs(0)
READ = AclEntry("User:alice", "*", AclOperation.READ, AclPermission.ALLOW)
WRITE = READ._replace(operation=AclOperation.WRITE)
ORDERS = ResourcePattern(ResourceType.TOPIC, "orders")
ALICE = QuotaEntity("alice", None)
SCRAM = SaslMechanism.SCRAM_SHA_256
BILLING = group_config("billing")
TOKEN = DelegationToken("t1", "User:alice", "User:alice", (), NOW, WallMs(9), WallMs(5))


def prepare(store: ClusterStore) -> None:
    """Store one document of each kind."""
    store.brokers.prepare()
    store.acls.load(PatternType.LITERAL, None)
    store.tokens.load(None)
    store.acls.change(ORDERS, lambda _: frozenset({READ}), NOW)
    store.quotas.alter(ALICE, {"producer_byte_rate": "1024"}, NOW)
    store.configs.write(BILLING, {"a": "1"}, store.configs.load(BILLING).version, NOW)
    store.tokens.write(TOKEN, NOW)


def content(store: ClusterStore) -> list[Any]:
    return [
        store.acls.load(PatternType.LITERAL, None),
        store.quotas.load(),
        store.credentials.load(),
        store.configs.load(BILLING),
        store.tokens.load(None),
    ]


CHANGES: dict[str, Callable[[ClusterStore], object]] = {
    "removal of the last rule": lambda store: store.acls.change(ORDERS, lambda _: frozenset(), NOW),
    "another rule": lambda store: store.acls.change(ORDERS, lambda old: old | {WRITE}, NOW),
    "quota": lambda store: store.quotas.alter(ALICE, {"producer_byte_rate": "7"}, NOW),
    "credential": lambda store: store.credentials.alter(
        "alice", {SCRAM: credential_of(SCRAM, "secret", b"salt")}, NOW
    ),
    "config": lambda store: store.configs.write(
        BILLING, {"a": "2"}, store.configs.load(BILLING).version, NOW
    ),
    "renewed token": lambda store: store.tokens.write(TOKEN._replace(expires_at=WallMs(6)), NOW),
    "removed token": lambda store: store.tokens.remove("t1", NOW),
}


def refuse_new_nodes(tree: FakeTree) -> None:
    """Nearly full: nodes may be changed and deleted, but not created."""

    def create(*_arguments: Any, **_options: Any) -> str:
        raise NotReadOnlyCallError

    tree.create = create  # type: ignore[method-assign]


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_change_that_cannot_be_announced_is_not_made(
    change: Callable[[ClusterStore], object],
) -> None:
    tree = FakeTree()
    store = store_of(FakeClient(tree))
    prepare(store)
    before = content(store)
    refuse_new_nodes(tree)
    with pytest.raises(NotReadOnlyCallError):
        change(store)
    assert content(store) == before


@pytest.fixture
def full(tmp_path: Path) -> Iterator[ClusterStore]:
    """The store of a real registry whose disk is nearly full."""
    with (
        mounted(tmp_path / "disk", 16 * MIB) as disk,
        RegistryProcess(disk.path / "registry", min_free_bytes=4 * MIB) as registry,
    ):
        store = store_of(registry.client())
        prepare(store)
        wait_until(lambda: (disk.path / "registry" / "reserve").exists(), "the reserve")
        disk.fill(left_bytes=2 * MIB)
        wait_until(lambda: "refusing writes that need much" in registry.log(), "the disk to fill")
        yield store
        registry.close_clients()


@pytest.mark.slow
def test_no_change_is_made_without_its_announcement_on_a_real_full_disk(full: ClusterStore) -> None:
    before = content(full)
    for change in CHANGES.values():
        with pytest.raises(NotReadOnlyCallError):
            change(full)
    assert content(full) == before
