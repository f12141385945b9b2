"""Users and access rules on the page: filtered, bounded, and without a secret."""

import json
import shlex
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.dashboard.users.access_view import RULES_MAX, USERS_MAX, AccessFacts, access_view
from cluster.dashboard.users.commands import removal_command, user_command
from cluster.model.acls import (
    CLUSTER_NAME,
    RESOURCE_TYPES,
    SUPPORTED_OPERATIONS,
    WILDCARD,
    AclBinding,
    AclEntry,
    AclOperation,
    AclPermission,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from cluster.model.quotas import DEFAULT, QuotaEntity
from cluster.model.security import SaslMechanism
from cluster.tools.acls.bindings import rules as rules_of
from cluster.tools.main import command_line

PROGRAM = "milena --data-dir '/a b'"
SHA_256, SHA_512 = SaslMechanism.SCRAM_SHA_256, SaslMechanism.SCRAM_SHA_512


def rule(
    principal: str = "User:alice",
    name: str = "orders",
    operation: AclOperation = AclOperation.READ,
    kind: ResourceType = ResourceType.TOPIC,
) -> AclBinding:
    entry = AclEntry(principal, WILDCARD, operation, AclPermission.ALLOW)
    return AclBinding(ResourcePattern(kind, name), entry)


FACTS = AccessFacts(
    authorizer="kafka.security.authorizer.AclAuthorizer",
    super_users=("User:root", "User:admin"),
    users={"bob": {SHA_512: 8192, SHA_256: 4096}, "admin": {SHA_512: 4096}},
    quotas=(QuotaEntity("bob", None), QuotaEntity("bob", DEFAULT), QuotaEntity(DEFAULT, None)),
    rules=(rule(), rule("User:bob"), rule("User:bob", "billing", kind=ResourceType.GROUP)),
)


def view(facts: AccessFacts = FACTS, principal: str = "", resource: str = "") -> dict[str, Any]:
    shown: dict[str, Any] = json.loads(json.dumps(access_view(facts, principal, resource, PROGRAM)))
    return shown


def test_user_has_mechanisms_and_the_numbers_of_quotas_and_rules() -> None:
    admin, bob = view()["users"]
    assert bob == {
        "user": "bob",
        "mechanisms": [
            {"name": "SCRAM-SHA-256", "iterations": 4096},
            {"name": "SCRAM-SHA-512", "iterations": 8192},
        ],
        "is_super": False,
        "quotas": 2,
        "rules": 2,
        "alter": f"{PROGRAM} users alter bob",
        "delete": f"{PROGRAM} users delete bob",
    }
    assert (admin["is_super"], admin["quotas"], admin["rules"]) == (True, 0, 0)


def test_rule_is_said_in_the_words_of_acls() -> None:
    found = view()
    assert [each["principal"] for each in found["rules"]] == ["User:alice", "User:bob", "User:bob"]
    assert found["rules"][2] == {
        "principal": "User:bob",
        "permission": "Allow",
        "operation": "Read",
        "resource_type": "Group",
        "name": "billing",
        "pattern_type": "Literal",
        "host": "*",
        "command": f"{PROGRAM} acls --remove --allow-principal=User:bob --operation=Read"
        " --group=billing",
    }
    assert found["super_users"] == ["User:admin", "User:root"]


@pytest.mark.parametrize(
    ("principal", "resource", "users", "rules"),
    [
        ("BOB", "", ["bob"], 2),
        ("User:alice", "", [], 1),
        ("", "group", ["admin", "bob"], 1),
        ("bob", "ORD", ["bob"], 1),
        ("x", "x", [], 0),
    ],
)
def test_filters_find_users_and_resources(
    principal: str, resource: str, users: list[str], rules: int
) -> None:
    found = view(principal=principal, resource=resource)
    assert [each["user"] for each in found["users"]] == users
    assert len(found["rules"]) == rules
    assert (found["user_count"], found["rule_count"]) == (2, 3)


def test_large_lists_are_cut_and_the_filter_finds_the_rest() -> None:
    many = replace(
        FACTS,
        users={f"u{number:05}": {SHA_512: 4096} for number in range(USERS_MAX + 5)},
        rules=[rule(f"User:u{number:05}") for number in range(10_000)],
    )
    found = view(many)
    assert (len(found["users"]), found["users_left_out"]) == (USERS_MAX, 5)
    assert (len(found["rules"]), found["rules_left_out"]) == (RULES_MAX, 10_000 - RULES_MAX)
    last = view(many, principal="u09999")
    assert [each["principal"] for each in last["rules"]] == ["User:u09999"]
    assert last["rules_left_out"] == 0


def test_reasons_of_refusals_are_passed_on() -> None:
    refused = AccessFacts(problems=["denied; to allow it: milena acls --add"])
    assert view(refused)["problems"] == ["denied; to allow it: milena acls --add"]


names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)


@st.composite
def bindings(draw: st.DrawFn) -> AclBinding:
    kind = draw(st.sampled_from(RESOURCE_TYPES))
    is_cluster = kind is ResourceType.CLUSTER
    pattern = PatternType.LITERAL
    if not is_cluster:
        pattern = draw(st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]))
    entry = AclEntry(
        f"User:{draw(names)}",
        draw(st.sampled_from(["*", "10.0.0.1", "::1"])),
        draw(st.sampled_from([*SUPPORTED_OPERATIONS[kind], AclOperation.ALL])),
        draw(st.sampled_from([AclPermission.ALLOW, AclPermission.DENY])),
    )
    name = CLUSTER_NAME if is_cluster else draw(names)
    return AclBinding(ResourcePattern(kind, name, pattern), entry)


@given(bindings())
def test_removal_removes_that_rule_alone(binding: AclBinding) -> None:
    line = removal_command("milena", binding)
    pattern, entry = binding
    if line is None:
        texts = (pattern.name, entry.principal)
        assert any(text != text.strip() for text in texts)
        return
    args = command_line(shlex.split(line)[1:])
    assert args.remove
    ((resource, entries),) = rules_of(args).items()
    assert (resource.resource_type, resource.name, resource.pattern_type) == pattern
    assert entries == {entry}


def test_rule_of_another_kind_of_principal_has_no_command() -> None:
    assert removal_command("milena", rule("Group:ops")) is None


@pytest.mark.parametrize("name", ["alice", "-x", "--help", "it's <b>", "a b"])
@pytest.mark.parametrize("action", ["alter", "delete"])
def test_command_names_the_user(action: str, name: str) -> None:
    args = command_line(shlex.split(user_command("milena", action, name))[1:])
    assert (args.user_action, args.name) == (action, name)
