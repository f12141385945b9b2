"""Logs authorization decisions: denied ones at INFO, allowed ones at DEBUG.

The logger has Kafka's name, so that its level can be changed as in Kafka. `runtime/line_limiter.py`
limits the lines per user and host, and repeated decisions more strictly.
"""

import logging
from typing import Final

from cluster.model.acls import USER_PREFIX, AclOperation, ResourceType
from cluster.runtime.logs import is_left_out, of_peer

LOGGER: Final = "kafka.authorizer.logger"

_log = logging.getLogger(LOGGER)


_DENIED: Final = "denied: principal %s, operation %s, host %s, resource %s %s"
_ALLOWED: Final = _DENIED.replace("denied", "allowed")
"""A separate kind for the limiter, so that allowed decisions never displace denied ones."""


def note_denied(
    user: str, host: str, operation: AclOperation, resource: tuple[ResourceType, str]
) -> None:
    """Log a denied operation."""
    _note(logging.INFO, _DENIED, user, host, operation, resource)


def note_allowed(
    user: str, host: str, operation: AclOperation, resource: tuple[ResourceType, str]
) -> None:
    """Log an allowed operation; cheap unless the level is DEBUG."""
    _note(logging.DEBUG, _ALLOWED, user, host, operation, resource)


def _note(
    level: int,
    line: str,
    user: str,
    host: str,
    operation: AclOperation,
    resource: tuple[ResourceType, str],
) -> None:
    if not _log.isEnabledFor(level):
        return
    kind, name = resource
    principal, label = USER_PREFIX + user, operation.label
    peer, subject = f"{principal} at {host}", f"{label} on {kind.label} {name}"
    if not is_left_out(_log, line, peer, subject):
        extra = of_peer(peer, subject)
        _log.log(level, line, principal, label, host, kind.label, name, extra=extra)
