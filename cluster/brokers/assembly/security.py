"""Assembles authentication and authorization."""

from dataclasses import dataclass

from cluster.brokers.assembly import options
from cluster.brokers.assembly.foundation import Foundation
from cluster.brokers.security.authentication import Authentication
from cluster.brokers.security.authorizer import Authorizer
from cluster.brokers.stored.acl_changes import AclChanges


@dataclass(frozen=True, slots=True)
class Security:
    """Logins and their credentials; the authorizer and its rules."""

    authentication: Authentication
    authorizer: Authorizer | None
    """None means that everybody may do everything."""
    acls: AclChanges | None
    """None without an authorizer."""


def assemble_security(foundation: Foundation) -> Security:
    """Raises SettingError if the settings of logins contradict each other."""
    ports, live = foundation.ports, foundation.live
    authentication = Authentication(
        ports.store,
        ports.loop,
        ports.clock.wall_ms,
        live,
        options.token_rules(live.now),
        ports.counters,
    )
    authorizer = options.authorizer(live.now)
    acls = None
    if authorizer is not None:
        acls = AclChanges(ports.store, ports.loop, ports.clock, authorizer.take_rules)
    return Security(authentication, authorizer, acls)
