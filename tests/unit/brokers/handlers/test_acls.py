"""DescribeAcls, CreateAcls and DeleteAcls through the whole broker."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.model.acls import AclOperation, AclPermission, PatternType, ResourceType
from cluster.model.errors import ErrorCode
from cluster.protocol.api import ApiKey
from tests.support.fake_clock import FakeClock
from tests.support.handler_stage import HandlerStage, StageConnection
from tests.support.kafka_wire import request

LITERAL, PREFIXED, MATCH = PatternType.LITERAL, PatternType.PREFIXED, PatternType.MATCH
VERSIONS = range(1, 4)


class Admin:
    """A super user's connection."""

    def __init__(self, stage: HandlerStage) -> None:
        self.stage = stage
        self.connection: StageConnection = stage.connect()
        self.connection.principal = "admin"

    def call(self, message: Any) -> Any:
        self.connection.send(message)
        for _ in range(5):
            self.stage.store.work()
            self.stage.turn()
        return self.connection.receive()

    def create(self, *creations: dict[str, Any], version: int = 3) -> list[tuple[int, str | None]]:
        answer = self.call(request(ApiKey.CREATE_ACLS, version, creations=list(creations)))
        return [(int(each.error_code), each.error_message) for each in answer.results]

    def describe(self, version: int = 3, **wanted: Any) -> Any:
        return self.call(request(ApiKey.DESCRIBE_ACLS, version, **a_filter(**wanted)))

    def delete(self, *filters: dict[str, Any], version: int = 3) -> Any:
        return self.call(request(ApiKey.DELETE_ACLS, version, filters=list(filters)))


def creation(**changes: Any) -> dict[str, Any]:
    return {
        "resource_type": int(ResourceType.TOPIC),
        "resource_name": "orders",
        "resource_pattern_type": int(LITERAL),
        "principal": "User:alice",
        "host": "*",
        "operation": int(AclOperation.READ),
        "permission_type": int(AclPermission.ALLOW),
    } | changes


def a_filter(**changes: Any) -> dict[str, Any]:
    return {
        "resource_type_filter": int(ResourceType.ANY),
        "resource_name_filter": None,
        "pattern_type_filter": int(PatternType.ANY),
        "principal_filter": None,
        "host_filter": None,
        "operation": int(AclOperation.ANY),
        "permission_type": int(AclPermission.ANY),
    } | changes


class TickingClock(FakeClock):
    """A clock that advances with each look at its microseconds, once `is_ticking` is set."""

    us_per_look = 0
    _passed_us = 0

    def monotonic_us(self) -> int:
        self._passed_us += self.us_per_look
        return super().monotonic_us() + self._passed_us


@pytest.fixture
def admin(tmp_path: Path) -> Iterator[Admin]:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
    }
    with HandlerStage(tmp_path / "data", settings, clock=TickingClock()) as stage:
        assert stage.core.clients.security.acls is not None
        stage.core.clients.security.acls.follower.load_at_start()
        yield Admin(stage)


@pytest.mark.parametrize("version", VERSIONS)
def test_rules_are_created_described_and_deleted(admin: Admin, version: int) -> None:
    prefixed = creation(resource_name="pay-", resource_pattern_type=int(PREFIXED))
    assert admin.create(creation(), prefixed, version=version) == [(0, None)] * 2
    answer = admin.describe(version)
    assert (answer.error_code, len(answer.resources)) == (0, 2)
    (found,) = admin.describe(
        version, resource_name_filter="pay-roll", pattern_type_filter=int(MATCH)
    ).resources
    assert (found.resource_name, found.pattern_type) == ("pay-", PREFIXED)
    (entry,) = found.acls
    assert (entry.principal, entry.host, entry.operation) == ("User:alice", "*", 3)
    literal = a_filter(pattern_type_filter=int(LITERAL))
    nothing = a_filter(principal_filter="User:bob")
    first, second = admin.delete(literal, nothing, version=version).filter_results
    (gone,) = first.matching_acls
    assert (gone.error_code, gone.resource_name, gone.operation) == (0, "orders", 3)
    assert second.matching_acls == ()
    (left,) = admin.describe(version).resources
    assert left.resource_name == "pay-"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"resource_type": 1}, "Invalid resourceType ANY"),
        ({"resource_type": 99}, "Invalid resourceType UNKNOWN"),
        ({"resource_pattern_type": 2}, "Invalid patternType MATCH"),
        ({"operation": 1}, "Invalid operation ANY"),
        ({"operation": 0}, "Invalid operation UNKNOWN"),
        ({"permission_type": 1}, "Invalid permissionType ANY"),
        ({"resource_type": 4}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        ({"resource_name": ""}, "Invalid empty resource name"),
        ({"resource_name": "a/b"}, "ACL binding contains invalid resource name: 'a/b'"),
        ({"resource_name": ".."}, "ACL binding contains invalid resource name: '..'"),
        ({"resource_name": "a\0"}, "ACL binding contains invalid resource name: 'a\\x00'"),
        ({"principal": "alice"}, "Could not parse principal from `alice`: it is not type:name"),
        ({"principal": ""}, "Could not parse principal from ``: it is not type:name"),
        ({"host": ""}, "Invalid empty host"),
    ],
)
def test_invalid_rule_is_refused_without_affecting_the_others(
    admin: Admin, wrong: dict[str, Any], message: str
) -> None:
    code = int(ErrorCode.invalid_request)
    assert admin.create(creation(**wrong), creation()) == [(code, message), (0, None)]
    assert len(admin.describe().resources) == 1


@pytest.mark.parametrize("field", ["resource_type_filter", "pattern_type_filter", "operation"])
def test_filter_with_unknown_code_is_refused(admin: Admin, field: str) -> None:
    assert admin.describe(**{field: 99}).error_code == ErrorCode.invalid_request
    refused, fine = admin.delete(a_filter(**{field: 0}), a_filter()).filter_results
    assert (refused.error_code, fine.error_code) == (ErrorCode.invalid_request, 0)


@pytest.mark.slow
@pytest.mark.parametrize("version", [VERSIONS[0], VERSIONS[-1]])
@pytest.mark.parametrize("of_one_pattern", [False, True])
def test_describe_of_many_rules_lets_other_requests_through(
    admin: Admin, version: int, of_one_pattern: bool
) -> None:
    count = 700
    rules = {(f"topic-{0 if of_one_pattern else n}", f"User:user-{n}") for n in range(count)}
    admin.create(*(creation(resource_name=name, principal=who) for name, who in rules))
    admin.stage.clock.us_per_look = 1_000  # as much as a turn has for such work
    other = admin.stage.connect()
    admin.connection.send(request(ApiKey.DESCRIBE_ACLS, version, **a_filter()))
    turns = 0
    while admin.connection.is_waiting:
        other.send(request(ApiKey.API_VERSIONS, 0))
        assert not other.is_waiting
        assert other.receive().error_code == 0
        admin.stage.turn()
        turns += 1
        if turns == 2:  # what is described is what was there when it was asked
            deletion = admin.stage.connect()
            deletion.principal = "admin"
            deletion.send(request(ApiKey.DELETE_ACLS, version, filters=[a_filter()]))
            admin.stage.store.work()
    assert turns > 2
    resources = admin.connection.receive().resources
    assert {(each.resource_name, rule.principal) for each in resources for rule in each.acls} == (
        rules
    )
    assert len(resources) == (1 if of_one_pattern else count)


def test_acl_requests_get_security_disabled_without_an_authorizer(stage: HandlerStage) -> None:
    admin = Admin(stage)
    code = int(ErrorCode.security_disabled)
    message = "No Authorizer is configured."
    assert admin.create(creation()) == [(code, message)]
    answer = admin.describe()
    assert (answer.error_code, answer.error_message) == (code, message)
    (result,) = admin.delete(a_filter()).filter_results
    assert (result.error_code, result.error_message) == (code, message)


def test_created_rule_is_in_force_when_the_answer_is_sent(admin: Admin) -> None:
    authorizer = admin.stage.services.security.authorizer
    assert authorizer is not None

    def may_read() -> bool:
        return authorizer.allows("alice", "::1", AclOperation.READ, ResourceType.TOPIC, "orders")

    assert not may_read()
    admin.create(creation())
    assert may_read()
    admin.delete(a_filter())
    assert not may_read()
