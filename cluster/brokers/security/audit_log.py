"""One line for every decision: what was denied at INFO, what was allowed at DEBUG.

The logger has Kafka's name, so that its level can be changed as in Kafka. How many lines there may
be is limited where they are written (`runtime/line_limiter.py`), by user and host, and fewer of
those that tell the same again.
"""

import logging
from typing import Final

from cluster.model.acls import USER_PREFIX, AclOperation, ResourceType
from cluster.runtime.logs import is_left_out, of_peer

LOGGER: Final = "kafka.authorizer.logger"

_log = logging.getLogger(LOGGER)


_DENIED: Final = (
    "Principal = %s is Denied operation = %s from host = %s on resource = %s:LITERAL:%s"
)
_ALLOWED: Final = _DENIED.replace("Denied", "Allowed")
"""Of its own kind for the limiter: what is allowed hides nothing that is denied."""


def note_denied(
    user: str, host: str, operation: AclOperation, resource: tuple[ResourceType, str]
) -> None:
    """Somebody tried what is not allowed."""
    _note(logging.INFO, _DENIED, user, host, operation, resource)


def note_allowed(
    user: str, host: str, operation: AclOperation, resource: tuple[ResourceType, str]
) -> None:
    """Somebody did what is allowed; costs little while nobody asks for such lines."""
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
