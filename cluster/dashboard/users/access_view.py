"""Users and access rules as the page lists them: filtered, and a bounded number. Pure."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cluster.client.user_requests import Iterations
from cluster.dashboard.sources import Json
from cluster.dashboard.users.commands import removal_command, user_command
from cluster.model.acls import USER_PREFIX, AclBinding
from cluster.model.quotas import QuotaEntity

USERS_MAX: Final = 100
"""Users in one response; if there are more, the first by name."""
RULES_MAX: Final = 200
"""Rules in one response; if there are more, the first in that order."""


@dataclass(slots=True)
class AccessFacts:
    """What brokers say; what one of them refused to say is empty, with the reason in `problems`."""

    authorizer: str | None = None
    """Its class; None if users may do everything."""
    super_users: Sequence[str] = ()
    allows_without_rules: bool = False
    users: Mapping[str, Iterations] = field(default_factory=dict)
    quotas: Collection[QuotaEntity] = ()
    rules: Sequence[AclBinding] = ()
    """In the order of `acls --list`."""
    problems: list[str] = field(default_factory=list)


def access_view(facts: AccessFacts, principal: str, resource: str, program: str) -> Json:
    """`users` and `rules` that contain these texts, ignoring case; never a password or a salt.

    `principal` filters both by user, `resource` rules by the type or the name of their resource.
    `program` is the launcher with its data directory, quoted for a shell.
    """
    users = [name for name in sorted(facts.users) if _has(USER_PREFIX + name, principal)]
    rules = [each for each in facts.rules if _is_wanted(each, principal, resource)]
    limits = Counter(each.user for each in facts.quotas)
    granted = Counter(each.entry.principal for each in facts.rules)
    return {
        "authorizer": facts.authorizer,
        "allows_without_rules": facts.allows_without_rules,
        "super_users": sorted(facts.super_users),
        "users": [
            _user(name, facts, limits[name], granted[USER_PREFIX + name], program)
            for name in users[:USERS_MAX]
        ],
        "user_count": len(facts.users),
        "users_left_out": max(0, len(users) - USERS_MAX),
        "rules": [_rule(each, program) for each in rules[:RULES_MAX]],
        "rule_count": len(facts.rules),
        "rules_left_out": max(0, len(rules) - RULES_MAX),
        "add_user": f"{program} users add NAME",
        "add_rule": f"{program} acls --add --allow-principal User:NAME --operation Read"
        " --topic TOPIC",
        "problems": [*facts.problems],
    }


def _has(text: str, wanted: str) -> bool:
    return wanted.lower() in text.lower()


def _is_wanted(rule: AclBinding, principal: str, resource: str) -> bool:
    kind = rule.pattern.resource_type.label
    return _has(rule.entry.principal, principal) and _has(f"{kind} {rule.pattern.name}", resource)


def _user(name: str, facts: AccessFacts, limits: int, granted: int, program: str) -> dict[str, Any]:
    return {
        "user": name,
        "mechanisms": [
            {"name": each.value, "iterations": count}
            for each, count in sorted(facts.users[name].items())
        ],
        "is_super": USER_PREFIX + name in facts.super_users,
        "quotas": limits,
        "rules": granted,
        "alter": user_command(program, "alter", name),
        "delete": user_command(program, "delete", name),
    }


def _rule(rule: AclBinding, program: str) -> dict[str, Any]:
    pattern, entry = rule
    return {
        "principal": entry.principal,
        "permission": entry.permission.label,
        "operation": entry.operation.label,
        "resource_type": pattern.resource_type.label,
        "name": pattern.name,
        "pattern_type": pattern.pattern_type.label,
        "host": entry.host,
        "command": removal_command(program, rule),
    }
