"""A broker's rules follow the registry: over changes, failures, unreadable documents, sessions."""

import json
from typing import Any

import pytest

from cluster.brokers.security.authorizer import Authorizer
from cluster.brokers.stored.acl_changes import AclChanges
from cluster.brokers.stored.changes import DONE
from cluster.model.acls import (
    AclBinding,
    AclFilter,
    AclOperation,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from cluster.model.errors import ErrorCode
from cluster.runtime.loop import EventLoop
from tests.support.fake_clock import FakeClock
from tests.support.fake_registry import FakeClient, FakeSession, FakeTree, store_of
from tests.unit.brokers.security.test_acl_rules import rule

READ, TOPIC = AclOperation.READ, ResourceType.TOPIC
PREFIXED = PatternType.PREFIXED
ORDERS = rule("orders")
ALL_PAY = rule("pay-", pattern=PREFIXED)
ENTRY = b'{"principal":"User:alice","permissionType":"Allow","operation":"Read","host":"*"}'


class Stage:
    """Brokers on one registry, each with an authorizer."""

    def __init__(self, tree: FakeTree | None = None) -> None:
        self.clock = FakeClock()
        self.loop = EventLoop(self.clock)
        self.tree = tree or FakeTree()
        self.other: Any = FakeClient(self.tree)
        store_of(self.other).brokers.prepare()
        self.session = FakeSession(self.tree, self.loop.call_from_thread)
        self.authorizer = Authorizer()
        store: Any = self.session
        self.acls = AclChanges(store, self.loop, self.clock, self.authorizer.take_rules)

    def settle(self) -> None:
        """Until nothing is submitted any more."""
        for _ in range(10):
            self.session.work()
            self.loop.run_once(max_wait_ms=0)

    def add(self, *bindings: AclBinding) -> dict[Any, Any]:
        return self._change(self.acls.add, bindings)

    def remove(self, *bindings: AclBinding) -> dict[Any, Any]:
        return self._change(self.acls.remove, bindings)

    def _change(self, change: Any, bindings: tuple[AclBinding, ...]) -> dict[Any, Any]:
        done: list[dict[Any, Any]] = []
        change(bindings, done.append)
        self.settle()
        (outcomes,) = done
        return {p: each for p, each in outcomes.items() if each.code is not ErrorCode.none}

    def may_read(self, topic: str) -> bool:
        return self.authorizer.allows("alice", "10.0.0.1", READ, TOPIC, topic, is_audited=False)

    def write(self, path: str, document: bytes, change: bytes | None) -> None:
        """Write the way that AclAuthorizer of a Kafka broker does."""
        self.other.ensure_path(path)
        self.other.set(path, document)
        if change is not None:
            where = "-extended" if path.startswith("/kafka-acl-extended") else ""
            self.tree.create(f"/kafka-acl{where}-changes/acl_changes_", change, 0, sequence=True)


@pytest.fixture
def stage() -> Stage:
    made = Stage()
    made.acls.follower.load_at_start()
    return made


def test_rules_are_stored_as_kafka_stores_them(stage: Stage) -> None:
    assert stage.add(ORDERS, ALL_PAY) == {}
    document, _ = stage.other.get("/kafka-acl/Topic/orders")
    assert json.loads(document) == {"version": 1, "acls": [json.loads(ENTRY)]}
    assert stage.other.get("/kafka-acl-extended/prefixed/Topic/pay-")[0] == document
    (literal,) = stage.other.get_children("/kafka-acl-changes")
    assert stage.other.get(f"/kafka-acl-changes/{literal}")[0] == b"Topic:orders"
    (prefixed,) = stage.other.get_children("/kafka-acl-extended-changes")
    change, _ = stage.other.get(f"/kafka-acl-extended-changes/{prefixed}")
    assert json.loads(change) == {
        "version": 1,
        "resourceType": "Topic",
        "name": "pay-",
        "patternType": "PREFIXED",
    }
    assert literal == prefixed == "acl_changes_0000000000"


def test_every_broker_applies_a_change(stage: Stage) -> None:
    other = Stage(stage.tree)
    other.acls.follower.load_at_start()
    stage.add(ORDERS, ALL_PAY)
    other.settle()
    for each in (stage, other):
        assert [each.may_read(name) for name in ("orders", "pay-roll", "x")] == [True, True, False]
    other.remove(ORDERS, ALL_PAY)
    stage.settle()
    for each in (stage, other):
        assert not each.may_read("orders")
        assert not each.may_read("pay-roll")
    assert not stage.other.exists("/kafka-acl/Topic/orders")


def test_stored_rules_apply_before_the_first_request() -> None:
    first = Stage()
    first.acls.follower.load_at_start()
    first.add(ORDERS, ALL_PAY)
    second = Stage(first.tree)
    second.acls.follower.load_at_start()
    assert second.may_read("orders")
    assert second.may_read("pay-roll")


@pytest.mark.parametrize(
    "path", ["/kafka-acl/Topic/orders", "/kafka-acl-extended/prefixed/Topic/ord"]
)
def test_another_tools_change_is_followed(stage: Stage, path: str) -> None:
    announcement = b"Topic:orders"
    if "prefixed" in path:
        announcement = b'{"version":1,"resourceType":"Topic","name":"ord","patternType":"PREFIXED"}'
    stage.write(path, b'{"version":1,"acls":[' + ENTRY + b"]}", announcement)
    stage.settle()
    assert stage.may_read("orders")


def test_invalid_change_node_has_everything_read(stage: Stage) -> None:
    stage.write("/kafka-acl/Topic/orders", b'{"version":1,"acls":[' + ENTRY + b"]}", b"nonsense")
    stage.settle()
    assert stage.may_read("orders")
    stage.write("/kafka-acl/Topic/orders", b'{"version":1,"acls":[]}', b"Topic:../..")
    stage.settle()
    assert not stage.may_read("orders")


def test_changes_between_two_sessions_are_read(stage: Stage) -> None:
    stage.add(ORDERS, ALL_PAY)
    stage.session.client.expire()
    gone = rule("gone")
    other = Stage(stage.tree)
    other.acls.follower.load_at_start()
    other.remove(ORDERS)
    other.add(gone)
    for name in other.other.get_children("/kafka-acl-changes"):  # as if it was long ago
        other.other.delete(f"/kafka-acl-changes/{name}")
    stage.settle()
    assert stage.may_read("orders")
    stage.session.client.begin_again()
    stage.acls.follower.on_new_session()
    stage.settle()
    assert [stage.may_read(name) for name in ("orders", "gone", "pay-x")] == [False, True, True]
    other.add(rule("later"))
    stage.settle()
    assert stage.may_read("later")


def test_rules_are_read_again_when_the_session_ends_during_a_read(stage: Stage) -> None:
    stage.write(
        "/kafka-acl/Topic/orders", b'{"version":1,"acls":[' + ENTRY + b"]}", b"Topic:orders"
    )
    stage.loop.run_once(max_wait_ms=0)  # it is submitted
    stage.session.client.expire()
    stage.session.work()
    stage.session.client.begin_again()
    stage.acls.follower.on_new_session()
    stage.settle()
    assert stage.may_read("orders")


@pytest.mark.parametrize(
    "document",
    [
        b"{",
        b'{"version":2,"acls":[]}',
        b'{"version":1,"acls":[{"principal":"User:a"}]}',
        b'{"version":1,"acls":[' + ENTRY.replace(b"Read", b"Fly") + b"]}",
        b'{"version":1,"acls":[' + ENTRY.replace(b"Allow", b"Any") + b"]}",
    ],
)
def test_an_unreadable_document_denies_what_it_is_for(
    stage: Stage, document: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    stage.add(rule("*"), rule("orders"))
    stage.write("/kafka-acl/Topic/orders", document, b"Topic:orders")
    stage.settle()
    assert not stage.may_read("orders")
    assert stage.may_read("other")
    (line,) = (r for r in caplog.records if r.levelname == "ERROR")
    assert "\n" not in line.getMessage()
    assert "Topic:LITERAL:orders" in line.getMessage()
    (failure,) = stage.add(rule("orders", "User:bob")).values()
    assert failure.code is ErrorCode.unknown_server_error
    assert failure.detail.startswith("/kafka-acl/Topic/orders: ")
    assert stage.other.get("/kafka-acl/Topic/orders")[0] == document
    stage.write("/kafka-acl/Topic/orders", b'{"version":1,"acls":[]}', b"Topic:orders")
    stage.settle()
    assert stage.may_read("orders")


def test_two_brokers_that_change_the_same_rules_lose_nothing(stage: Stage) -> None:
    other = Stage(stage.tree)
    other.acls.follower.load_at_start()
    done: list[Any] = []
    stage.acls.add([rule("orders")], done.append)
    other.acls.add([rule("orders", "User:bob")], done.append)
    other.settle()
    stage.settle()
    other.settle()
    assert done == [{ORDERS.pattern: DONE}, {ORDERS.pattern: DONE}]
    for each in (stage, other):
        found = each.acls.find(AclFilter())
        assert {binding.entry.principal for binding in found} == {"User:alice", "User:bob"}


def test_rules_are_found_by_filters(stage: Stage) -> None:
    group = rule("pay-roll", "User:bob", kind=ResourceType.GROUP)
    stage.add(ORDERS, ALL_PAY, group, rule("*"))
    find = stage.acls.find
    assert set(find(AclFilter())) == {ORDERS, ALL_PAY, group, rule("*")}
    match = PatternType.MATCH
    assert set(find(AclFilter(TOPIC, "pay-roll", match))) == {ALL_PAY, rule("*")}
    assert set(find(AclFilter(TOPIC, "pay-", PREFIXED))) == {ALL_PAY}
    assert set(find(AclFilter(name="pay-roll"))) == {group}
    assert set(find(AclFilter(principal="User:bob"))) == {group}
    assert find(AclFilter(operation=AclOperation.WRITE)) == []
    assert find(AclFilter(host="10.0.0.1")) == []


def test_failing_registry_is_reported(stage: Stage) -> None:
    stage.session.client.expire()
    failures = stage.add(ORDERS)
    assert set(failures) == {ResourcePattern(TOPIC, "orders")}
    assert not stage.may_read("orders")
