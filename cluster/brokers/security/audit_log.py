"""One line for every decision: what was denied at INFO, what was allowed at DEBUG.

The logger has Kafka's name, so that its level can be changed as in Kafka. How many lines there may
be is limited where they are written (`runtime/line_limiter.py`), by user and host, and fewer of
those that tell the same again.
"""

import logging
from typing import Final

from cluster.model.acls import USER_PREFIX, AclOperation, ResourceType
from cluster.runtime.logs import of_peer

LOGGER: Final = "kafka.authorizer.logger"

_log = logging.getLogger(LOGGER)


def note_denied(
    user: str, host: str, operation: AclOperation, resource: tuple[ResourceType, str]
) -> None:
    """Somebody tried what is not allowed."""
    _note(logging.INFO, "Denied", user, host, operation, resource)


def note_allowed(
    user: str, host: str, operation: AclOperation, resource: tuple[ResourceType, str]
) -> None:
    """Somebody did what is allowed; costs little while nobody asks for such lines."""
    _note(logging.DEBUG, "Allowed", user, host, operation, resource)


def _note(
    level: int,
    verdict: str,
    user: str,
    host: str,
    operation: AclOperation,
    resource: tuple[ResourceType, str],
) -> None:
    if _log.isEnabledFor(level):
        what = f"{operation.label} on {resource[0].label} {resource[1]}"
        _log.log(
            level,
            "Principal = %s is %s operation = %s from host = %s on resource = %s:LITERAL:%s",
            USER_PREFIX + user,
            verdict,
            operation.label,
            host,
            resource[0].label,
            resource[1],
            extra=of_peer(f"{USER_PREFIX}{user} at {host}", what),
        )
