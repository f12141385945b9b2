"""A follower that loads only what change nodes name."""

from typing import Any

from cluster.brokers.stored.document_follower import ChangeFollower
from cluster.coordinator.cluster_store import AclNews, ClusterStore, OnChange
from cluster.model.acls import PatternType, ResourcePattern
from cluster.model.clocks import WallMs
from cluster.runtime.loop import EventLoop
from tests.support.fake_clock import FakeClock
from tests.support.fake_registry import FakeClient, FakeSession, FakeTree, store_of
from tests.unit.brokers.security.test_acl_rules import rule

LITERAL = PatternType.LITERAL


def load(stores: ClusterStore, seen: frozenset[str] | None, on_change: OnChange | None) -> AclNews:
    return stores.acls.load(LITERAL, seen, on_change)


def test_single_read_returns_all_documents_and_hides_no_change() -> None:
    tree, loop = FakeTree(), EventLoop(FakeClock())
    session: Any = FakeSession(tree, loop.call_from_thread)
    applied: list[set[ResourcePattern]] = []
    follower = ChangeFollower(
        session, loop, "the rules", load, lambda news: applied.append(set(news.acls))
    )
    follower.load_at_start()
    orders, bills = rule("orders"), rule("bills")
    other = store_of(FakeClient(tree))
    for binding in (orders, bills):
        other.acls.change(binding.pattern, lambda old, own=binding.entry: old | {own}, WallMs(0))
    read: list[set[ResourcePattern]] = []
    follower.read(lambda news: read.append(set(news.acls)), lambda _error: None)
    for _ in range(5):
        session.work()
        loop.run_once(max_wait_ms=0)
    both = {orders.pattern, bills.pattern}
    assert read == [both]
    assert applied == [set(), both]
