"""Assembles what tells who a client is and what it may do."""

from dataclasses import dataclass

from cluster.brokers.assembly import options
from cluster.brokers.assembly.foundation import Foundation
from cluster.brokers.security.authentication import Authentication
from cluster.brokers.security.authorizer import Authorizer
from cluster.brokers.stored.acl_changes import AclChanges


@dataclass(frozen=True, slots=True)
class Security:
    """Logins and what they check; the authorizer and its rules."""

    authentication: Authentication
    authorizer: Authorizer | None
    """None: everybody may do everything."""
    acls: AclChanges | None
    """None without an authorizer."""


def assemble_security(foundation: Foundation) -> Security:
    """Raises SettingError where the settings of logins do not fit together."""
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
