"""Evaluates ACLs. Pure.

The semantics are those of Kafka 3.9's `kafka.security.authorizer.AclAuthorizer`: a rule that denies
takes precedence over rules that allow, and a setting decides about resources without any rule.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from cluster.model.acls import (
    EVERYBODY,
    WILDCARD,
    AclEntry,
    AclOperation,
    AclPermission,
    PatternType,
    ResourcePattern,
    ResourceType,
    plain_address,
)

_OP = AclOperation
_IMPLIED_BY: Final = {
    _OP.DESCRIBE: frozenset(
        {_OP.DESCRIBE, _OP.READ, _OP.WRITE, _OP.DELETE, _OP.ALTER, _OP.ALL},
    ),
    _OP.DESCRIBE_CONFIGS: frozenset({_OP.DESCRIBE_CONFIGS, _OP.ALTER_CONFIGS, _OP.ALL}),
}
"""For an operation, the operations whose ALLOW rules also allow it."""
_DENY_ALL: Final = AclEntry(EVERYBODY, WILDCARD, _OP.ALL, AclPermission.DENY)


class AclRules:
    """A set of rules, indexed by resource.

    Invariant: if rules cannot be read, everything on the resources they apply to is denied.
    """

    def __init__(self, *, allows_without_rules: bool = False) -> None:
        """`allows_without_rules`: whether resources without any rule may be used
        (`allow.everyone.if.no.acl.found`).
        """
        self._allows_without_rules = allows_without_rules
        self._by_pattern: dict[ResourcePattern, tuple[AclEntry, ...]] = {}
        self._prefixes: dict[ResourceType, Counter[int]] = defaultdict(Counter)
        """The number of prefixed patterns by length."""
        self._of_principal: dict[tuple[ResourceType, str], set[ResourcePattern]] = {}
        """The patterns with a rule for that principal."""

    def put(
        self, pattern: ResourcePattern, entries: Iterable[AclEntry], *, are_known: bool = True
    ) -> None:
        """Replace the rules for a pattern. `are_known` is False if some of them cannot be read."""
        self._remove(pattern)
        kept = [entry._replace(host=plain_address(entry.host)) for entry in entries]
        if not are_known:
            kept.append(_DENY_ALL)
        if kept:
            self._by_pattern[pattern] = tuple(kept)
            for entry in kept:
                key = pattern.resource_type, entry.principal
                self._of_principal.setdefault(key, set()).add(pattern)
            if pattern.pattern_type is PatternType.PREFIXED:
                self._prefixes[pattern.resource_type][len(pattern.name)] += 1

    def _remove(self, pattern: ResourcePattern) -> None:
        entries = self._by_pattern.pop(pattern, None)
        if entries is None:
            return
        for principal in {entry.principal for entry in entries}:
            key = pattern.resource_type, principal
            self._of_principal[key].discard(pattern)
            if not self._of_principal[key]:
                del self._of_principal[key]
        if pattern.pattern_type is PatternType.PREFIXED:
            counts = self._prefixes[pattern.resource_type]
            counts[len(pattern.name)] -= 1
            if not counts[len(pattern.name)]:
                del counts[len(pattern.name)]

    def allow(
        self,
        principal: str,
        host: str,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        """Whether a principal (`User:alice`) may perform the operation from an address."""
        host = plain_address(host)
        denying = (operation, _OP.ALL)
        allowing: Collection[AclOperation] = _IMPLIED_BY.get(operation, denying)
        has_rules = is_allowed = False
        for entry in self._entries_for(resource_type, name):
            has_rules = True
            if entry.principal not in (principal, EVERYBODY) or entry.host not in (host, WILDCARD):
                continue
            if entry.permission is AclPermission.DENY:
                if entry.operation in denying:
                    return False
            elif entry.operation in allowing:
                is_allowed = True
        return is_allowed if has_rules else self._allows_without_rules

    def allow_some(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Whether a principal may perform the operation on any resource of the type, existing or
        not (KIP-679).
        """
        host = plain_address(host)
        found: dict[tuple[AclPermission, PatternType], set[str]] = defaultdict(set)
        for each in (principal, EVERYBODY):
            for pattern in self._of_principal.get((resource_type, each), ()):
                for entry in self._by_pattern[pattern]:
                    if (
                        entry.operation in (operation, _OP.ALL)
                        and entry.principal == each
                        and entry.host in (host, WILDCARD)
                    ):
                        found[entry.permission, pattern.pattern_type].add(pattern.name)
        denied_names = found[AclPermission.DENY, PatternType.LITERAL]
        denied_prefixes = found[AclPermission.DENY, PatternType.PREFIXED]
        if WILDCARD in denied_names:
            return False
        if self._allows_without_rules:
            return True

        def is_left(name: str) -> bool:
            return not any(name.startswith(prefix) for prefix in denied_prefixes)

        return any(map(is_left, found[AclPermission.ALLOW, PatternType.PREFIXED])) or any(
            name == WILDCARD or (name not in denied_names and is_left(name))
            for name in found[AclPermission.ALLOW, PatternType.LITERAL]
        )

    def _entries_for(self, resource_type: ResourceType, name: str) -> Iterator[AclEntry]:
        get = self._by_pattern.get
        literal = PatternType.LITERAL
        yield from get(ResourcePattern(resource_type, name, literal), ())
        if name != WILDCARD:
            yield from get(ResourcePattern(resource_type, WILDCARD, literal), ())
        prefixed = PatternType.PREFIXED
        for length in self._prefixes.get(resource_type, ()):
            if length <= len(name):
                yield from get(ResourcePattern(resource_type, name[:length], prefixed), ())
