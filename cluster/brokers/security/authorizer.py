"""Decides whether a user may perform an operation.

Decisions are cached until the rules change. The module knows nothing of requests or of where rules
are stored.
"""

from collections.abc import Collection, Mapping
from typing import Final, TypeVar

from cluster.brokers.security.acl_rules import AclRules
from cluster.brokers.security.audit_log import note_allowed, note_denied
from cluster.coordinator.cluster_store import StoredAcls
from cluster.model.acls import (
    SUPPORTED_OPERATIONS,
    USER_PREFIX,
    AclOperation,
    ResourcePattern,
    ResourceType,
)

_Key = TypeVar("_Key")

_REMEMBERED_MAX: Final = 20_000
"""Cached decisions of some 200 bytes each, at most 1.2 KB. When there are more, all are dropped."""
_REMEMBERED_CHARACTERS: Final = 256
"""Decisions about longer names, which may have 32 KiB, are not cached. Names of Kafka topics have
at most 249 characters.
"""


class Authorizer:
    """One per broker if `authorizer.class.name` is set; used by the broker's thread.

    Invariant: a cached decision agrees with the present rules.
    """

    def __init__(
        self, super_users: Collection[str] = frozenset(), *, allows_without_rules: bool = False
    ) -> None:
        """`super_users`: principals with their type (`User:admin`) who may do everything.

        `allows_without_rules`: whether everybody may use resources without any rule.
        """
        self._super_users = frozenset(super_users)
        self._rules = AclRules(allows_without_rules=allows_without_rules)
        self.rules_number = 0
        """Incremented whenever the rules change."""
        self._answers: dict[tuple[str, str, AclOperation, ResourceType, str], bool] = {}
        self._answers_for_some: dict[tuple[str, str, AclOperation, ResourceType], bool] = {}

    def take_rules(self, acls: Mapping[ResourcePattern, StoredAcls]) -> None:
        """Replace the rules for these patterns."""
        for pattern, stored in acls.items():
            self._rules.put(pattern, stored.entries, are_known=stored.problem is None)
        self.rules_number += 1
        self._answers.clear()
        self._answers_for_some.clear()

    def allows(
        self,
        user: str,
        host: str,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        *,
        is_audited: bool = True,
    ) -> bool:
        """Whether a user (without `User:`) may perform the operation from an address.

        `is_audited`: whether a denial is logged; False if another right would suffice.
        """
        key = (user, host, operation, resource_type, name)
        allowed = self._answers.get(key)
        if allowed is None:
            allowed = self._decide(key)
        if allowed:
            note_allowed(user, host, operation, (resource_type, name))
        elif is_audited:
            note_denied(user, host, operation, (resource_type, name))
        return allowed

    def allows_some(
        self, user: str, host: str, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Whether a user may perform the operation on any resource of the type (KIP-679)."""
        key = (user, host, operation, resource_type)
        allowed = self._answers_for_some.get(key)
        if allowed is None:
            principal = USER_PREFIX + user
            allowed = principal in self._super_users or self._rules.allow_some(principal, *key[1:])
            _remember(self._answers_for_some, key, allowed)
        if not allowed:
            note_denied(user, host, operation, (resource_type, "any"))
        return allowed

    def allowed_operations(
        self, user: str, host: str, resource_type: ResourceType, name: str
    ) -> list[AclOperation]:
        """The allowed operations among those that the resource type supports (KIP-430)."""
        return [
            operation
            for operation in SUPPORTED_OPERATIONS[resource_type]
            if self.allows(user, host, operation, resource_type, name, is_audited=False)
        ]

    def _decide(self, key: tuple[str, str, AclOperation, ResourceType, str]) -> bool:
        principal = USER_PREFIX + key[0]
        allowed = principal in self._super_users or self._rules.allow(principal, *key[1:])
        if len(key[-1]) <= _REMEMBERED_CHARACTERS:
            _remember(self._answers, key, allowed)
        return allowed


def _remember(answers: dict[_Key, bool], key: _Key, allowed: bool) -> None:
    if len(answers) >= _REMEMBERED_MAX:
        answers.clear()
    answers[key] = allowed
