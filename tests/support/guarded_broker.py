"""A broker with an authorizer on a handler stage, and what one user may do there."""

from collections.abc import Mapping
from typing import Final

from cluster.coordinator.cluster_store import StoredAcls
from cluster.model.acls import AclEntry, AclPermission, PatternType, ResourcePattern, Right
from tests.support.handler_stage import HandlerStage, StageConnection

SETTINGS: Final[Mapping[str, str]] = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:admin",
    "group.initial.rebalance.delay.ms": "0",
}


class Guarded:
    """A broker with an authorizer, and the rights of one user."""

    def __init__(self, stage: HandlerStage) -> None:
        self.stage = stage
        authorizer = stage.services.security.authorizer
        assert authorizer is not None
        self.authorizer = authorizer
        self._rules: dict[ResourcePattern, set[AclEntry]] = {}
        acls = stage.core.clients.security.acls
        assert acls is not None
        acls.follower.load_at_start()

    def grant(self, *needs: tuple[Right, str], permission: str = "ALLOW") -> None:
        """User alice has these rights, beside those that she has."""
        for (operation, kind), name in needs:
            pattern = ResourcePattern(kind, name, PatternType.LITERAL)
            entry = AclEntry("User:alice", "*", operation, AclPermission[permission])
            self._rules.setdefault(pattern, set()).add(entry)
        self._take()

    def revoke_all(self) -> None:
        for entries in self._rules.values():
            entries.clear()
        self._take()

    def _take(self) -> None:
        self.authorizer.take_rules(
            {pattern: StoredAcls(frozenset(found)) for pattern, found in self._rules.items()}
        )

    def client(self, user: str = "alice") -> StageConnection:
        connection = self.stage.connect()
        connection.principal = user
        connection.host = "10.0.0.1"
        return connection
