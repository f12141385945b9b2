"""Super users, cached decisions and the audit log."""

import logging
import tracemalloc
from pathlib import Path

import pytest

from cluster.brokers.security.audit_log import LOGGER
from cluster.brokers.security.authorizer import Authorizer
from cluster.config.broker import SUPER_USERS
from cluster.config.settings import broker_settings
from cluster.coordinator.cluster_store import StoredAcls
from cluster.model.acls import AclBinding, AclOperation, AclPermission, ResourceType
from cluster.model.errors import UserError
from cluster.runtime.log_file import LogFile
from cluster.runtime.logger_levels import levels_in_force
from tests.unit.brokers.security.test_acl_rules import rule

READ, TOPIC = AclOperation.READ, ResourceType.TOPIC


def take(authorizer: Authorizer, *bindings: AclBinding) -> None:
    authorizer.take_rules({b.pattern: StoredAcls(frozenset({b.entry})) for b in bindings})


def may_read(authorizer: Authorizer, user: str, topic: str = "orders") -> bool:
    return authorizer.allows(user, "127.0.0.1", READ, TOPIC, topic)


def test_without_rules_only_super_users_may_do_anything() -> None:
    authorizer = Authorizer({"User:admin", "User:CN=root, O=x"})
    assert may_read(authorizer, "admin")
    assert may_read(authorizer, "CN=root, O=x")
    assert not may_read(authorizer, "alice")
    assert authorizer.allows_some("admin", "127.0.0.1", READ, TOPIC)
    assert not authorizer.allows_some("alice", "127.0.0.1", READ, TOPIC)


def test_a_super_user_is_not_denied() -> None:
    authorizer = Authorizer({"User:admin"})
    take(authorizer, rule("orders", "User:admin", permission=AclPermission.DENY))
    assert may_read(authorizer, "admin")


def test_cached_decision_is_dropped_when_the_rules_change() -> None:
    authorizer = Authorizer()
    assert not may_read(authorizer, "alice")
    take(authorizer, rule("orders"))
    assert may_read(authorizer, "alice")
    authorizer.take_rules({rule("orders").pattern: StoredAcls(frozenset())})
    assert not may_read(authorizer, "alice")


def test_decisions_are_right_when_the_cache_overflows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cluster.brokers.security.authorizer._REMEMBERED_MAX", 3)
    authorizer = Authorizer()
    take(authorizer, rule("t-1"))
    for _ in range(2):
        found = [
            name for name in (f"t-{n}" for n in range(9)) if may_read(authorizer, "alice", name)
        ]
        assert found == ["t-1"]


def test_decisions_about_long_names_are_not_cached() -> None:
    authorizer = Authorizer()
    tracemalloc.start()
    try:
        for number in range(1_000):
            name = f"{number}-" + "x" * 30_000
            assert not authorizer.allows(
                "u", "h", AclOperation.DESCRIBE, ResourceType.TOPIC, name, is_audited=False
            )
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept_bytes < 1_000_000


def test_denials_are_logged_at_info_and_allowed_operations_at_debug(
    caplog: pytest.LogCaptureFixture,
) -> None:
    authorizer = Authorizer({"User:admin"})
    with caplog.at_level(logging.DEBUG, LOGGER):
        may_read(authorizer, "alice")
        may_read(authorizer, "alice")
        may_read(authorizer, "admin")
        authorizer.allows("bob", "::1", READ, TOPIC, "orders", is_audited=False)
    refusal = "denied: principal User:alice, operation Read, host 127.0.0.1, resource Topic orders"
    assert [record.getMessage() for record in caplog.records] == [
        refusal,
        refusal,
        refusal.replace("denied", "allowed").replace("alice", "admin"),
    ]
    assert [record.levelno for record in caplog.records] == [20, 20, 10]


def test_each_user_operation_and_resource_has_its_own_line_limit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "broker.log"
    handler = LogFile(file)
    logger = logging.getLogger(LOGGER)
    logger.addHandler(handler)
    authorizer = Authorizer()
    caplog.set_level(logging.INFO, LOGGER)
    try:
        for _ in range(1_000):
            may_read(authorizer, "eve")
        may_read(authorizer, "eve", "bills")
        may_read(authorizer, "alice")
        authorizer.allows("eve", "127.0.0.1", AclOperation.WRITE, TOPIC, "orders")
    finally:
        logger.removeHandler(handler)
        handler.close()
    written = file.read_text()
    # One more where the machine takes ten seconds for them.
    assert 11 <= written.count("denied: principal User:eve, operation Read") <= 13
    assert "resource Topic bills" in written
    assert "denied: principal User:alice, operation Read" in written
    assert "denied: principal User:eve, operation Write" in written
    assert "because of User:eve at 127.0.0.1, each about Read on Topic orders," in written


def test_super_users_are_separated_by_semicolons() -> None:
    settings = broker_settings({"super.users": "User:admin; User:CN=root, O=x;"})
    assert settings[SUPER_USERS] == {"User:admin", "User:CN=root, O=x"}
    assert SUPER_USERS.render(settings[SUPER_USERS]) == "User:CN=root, O=x;User:admin"
    assert broker_settings({})[SUPER_USERS] == frozenset()


@pytest.mark.parametrize("text", ["admin", "User:", ":x", "User:a;b"])
def test_a_super_user_without_a_type_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"super\.users"):
        broker_settings({"super.users": text})


def test_level_of_the_audit_logger_can_be_changed_while_running() -> None:
    assert LOGGER in levels_in_force()
