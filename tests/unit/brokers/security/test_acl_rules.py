"""ACL rules, compared with a direct implementation of Kafka's documentation."""

from collections import defaultdict
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from cluster.brokers.security.acl_rules import AclRules
from cluster.model.acls import (
    AclBinding,
    AclEntry,
    AclOperation,
    AclPermission,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from tests.support.examples import examples

READ, WRITE, DESCRIBE, ALL = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.DESCRIBE,
    AclOperation.ALL,
)
ALLOW, DENY = AclPermission.ALLOW, AclPermission.DENY
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
NAMES = ("a", "ab", "abc", "b", "*")
HOSTS = ("1.2.3.4", "::1", "10.0.0.1")
USERS = ("User:alice", "User:bob")
OPERATIONS = (
    READ,
    WRITE,
    DESCRIBE,
    AclOperation.ALTER_CONFIGS,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.DELETE,
)


def rule(
    name: str,
    principal: str = "User:alice",
    operation: AclOperation = READ,
    permission: AclPermission = ALLOW,
    *,
    host: str = "*",
    kind: ResourceType = TOPIC,
    pattern: PatternType = LITERAL,
) -> AclBinding:
    return AclBinding(
        ResourcePattern(kind, name, pattern), AclEntry(principal, host, operation, permission)
    )


def rules_of(
    bindings: Iterable[AclBinding],
    unreadable: Iterable[ResourcePattern] = (),
    *,
    allows_without_rules: bool = False,
) -> AclRules:
    rules = AclRules(allows_without_rules=allows_without_rules)
    entries = defaultdict(list)
    for pattern, entry in bindings:
        entries[pattern].append(entry)
    for pattern in {*entries, *unreadable}:
        rules.put(pattern, entries[pattern], are_known=pattern not in unreadable)
    return rules


bindings = st.lists(
    st.builds(
        rule,
        st.sampled_from(NAMES),
        st.sampled_from((*USERS, "User:*")),
        st.sampled_from((*OPERATIONS, ALL)),
        st.sampled_from((ALLOW, DENY)),
        host=st.sampled_from((*HOSTS, "*")),
        kind=st.sampled_from((TOPIC, GROUP)),
        pattern=st.sampled_from((LITERAL, PREFIXED)),
    ),
    max_size=8,
)


def is_for(binding: AclBinding, kind: ResourceType, name: str) -> bool:
    pattern = binding.pattern
    if pattern.pattern_type is PREFIXED:
        return pattern.resource_type is kind and name.startswith(pattern.name)
    return pattern.resource_type is kind and pattern.name in (name, "*")


def concerns(binding: AclBinding, principal: str, host: str) -> bool:
    return binding.entry.principal in (principal, "User:*") and binding.entry.host in (host, "*")


def implies(allowed: AclOperation, operation: AclOperation) -> bool:
    if allowed in (operation, ALL):
        return True
    if operation is DESCRIBE:
        return allowed in (READ, WRITE, AclOperation.DELETE, AclOperation.ALTER)
    return operation is AclOperation.DESCRIBE_CONFIGS and allowed is AclOperation.ALTER_CONFIGS


@examples(300)
@given(
    bindings,
    st.sampled_from(USERS),
    st.sampled_from(HOSTS),
    st.sampled_from(OPERATIONS),
    st.sampled_from((TOPIC, GROUP)),
    st.sampled_from(("a", "ab", "abc", "b", "zzz")),
    st.booleans(),
)
def test_decision_equals_that_of_a_direct_evaluation_of_all_rules(
    rules: list[AclBinding],
    user: str,
    host: str,
    operation: AclOperation,
    kind: ResourceType,
    name: str,
    allows_without: bool,
) -> None:
    here = [each for each in rules if is_for(each, kind, name)]
    mine = [each.entry for each in here if concerns(each, user, host)]
    denied = any(e.permission is DENY and e.operation in (operation, ALL) for e in mine)
    allowed = any(e.permission is ALLOW and implies(e.operation, operation) for e in mine)
    expected = (allowed and not denied) if here else allows_without
    made = rules_of(rules, allows_without_rules=allows_without)
    assert made.allow(user, host, operation, kind, name) is expected


@examples(300)
@given(bindings, st.sampled_from(USERS), st.sampled_from(HOSTS), st.sampled_from((READ, WRITE)))
def test_some_resource_is_allowed_when_a_rule_leaves_a_name(
    rules: list[AclBinding], user: str, host: str, operation: AclOperation
) -> None:
    mine = [
        each
        for each in rules
        if each.pattern.resource_type is TOPIC
        and concerns(each, user, host)
        and each.entry.operation in (operation, ALL)
    ]
    names = [*(n for n in NAMES if n != "*"), *(f"{n}-longer" for n in NAMES), "unheard-of"]

    def is_left(name: str) -> bool:
        here = [each for each in mine if is_for(each, TOPIC, name)]
        return any(each.entry.permission is ALLOW for each in here) and not any(
            each.entry.permission is DENY for each in here
        )

    assert rules_of(rules).allow_some(user, host, operation, TOPIC) is any(map(is_left, names))


def test_ipv4_peer_of_an_ipv6_socket_matches_its_ipv4_address() -> None:
    rules = rules_of([rule("orders"), rule("orders", permission=DENY, host="10.0.0.1")])
    assert rules.allow("User:alice", "::ffff:10.0.0.2", READ, TOPIC, "orders")
    assert not rules.allow("User:alice", "::ffff:10.0.0.1", READ, TOPIC, "orders")


def test_ipv6_address_matches_in_any_notation() -> None:
    rules = rules_of([rule("orders", host="2001:DB8:0:0:0:0:0:1")])
    assert rules.allow("User:alice", "2001:db8::1", READ, TOPIC, "orders")
    assert not rules.allow("User:alice", "2001:db8::2", READ, TOPIC, "orders")


def test_unreadable_rules_deny_everything_on_their_resources() -> None:
    unreadable = [ResourcePattern(TOPIC, "pay-", PREFIXED), ResourcePattern(GROUP, "*", LITERAL)]
    rules = rules_of([rule("*"), rule("*", kind=GROUP)], unreadable, allows_without_rules=True)
    assert rules.allow("User:alice", "::1", READ, TOPIC, "orders")
    assert not rules.allow("User:alice", "::1", READ, TOPIC, "pay-roll")
    assert not rules.allow("User:alice", "::1", READ, GROUP, "any")


def test_rules_are_replaced_pattern_by_pattern() -> None:
    rules = rules_of([rule("ab", pattern=PREFIXED), rule("cd", pattern=PREFIXED), rule("x")])
    rules.put(ResourcePattern(TOPIC, "ab", PREFIXED), [])
    rules.put(ResourcePattern(TOPIC, "x", LITERAL), [rule("x", "User:bob").entry])
    assert not rules.allow("User:alice", "::1", READ, TOPIC, "abc")
    assert rules.allow("User:alice", "::1", READ, TOPIC, "cde")
    assert not rules.allow("User:alice", "::1", READ, TOPIC, "x")
    assert rules.allow("User:bob", "::1", READ, TOPIC, "x")
    rules.put(ResourcePattern(TOPIC, "cd", PREFIXED), [])
    assert not rules.allow("User:alice", "::1", READ, TOPIC, "cde")
