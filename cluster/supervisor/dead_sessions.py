"""Closes the registry session of a dead broker, so that failover starts before its timeout.

The broker leaves `broker-<id>.session` (JSON: session_id, password in hex; mode 0600) in the run
directory. Plain ZooKeeper protocol, so it works on a real ensemble too.
"""

import json
import logging
import struct
from pathlib import Path
from typing import Final

from cluster.coordinator.registry.client.registry_access import NOBODY, RegistryAccess
from cluster.coordinator.registry.client.session_close import close_session
from cluster.model.addresses import REGISTRY_PORT

log = logging.getLogger(__name__)

_TIMEOUT_MS: Final = 1_000


def close_dead_session(
    session_file: Path, registry_address: str, access: RegistryAccess = NOBODY
) -> bool:
    """Close the session named in the file, then remove the file.

    Returns whether a session was closed. False means that it had already ended, that there is no
    readable file, or that no registry answered; in the last case the file is kept for a later
    attempt.
    """
    try:
        left = json.loads(session_file.read_text())
        session_id, password = int(left["session_id"]), bytes.fromhex(left["password"])
    except FileNotFoundError:
        return False
    except (OSError, ValueError, KeyError, TypeError) as problem:
        log.warning("cannot read %s: %s", session_file, problem)
        return False
    for host, port in registry_hosts(registry_address):
        try:
            known = close_session(host, port, session_id, password, _TIMEOUT_MS, access)
        except OSError as problem:
            log.warning("the registry at %s:%d does not answer: %s", host, port, problem)
            continue
        except (struct.error, OverflowError, ValueError) as problem:
            log.warning(
                "cannot close the session in %s at %s:%d: %s", session_file, host, port, problem
            )
            continue
        try:
            session_file.unlink(missing_ok=True)
        except OSError as problem:
            log.warning("cannot remove %s: %s", session_file, problem.strerror)
        log.info("session 0x%x %s", session_id, "closed" if known else "had already ended")
        return known
    return False


def registry_hosts(address: str) -> list[tuple[str, int]]:
    """Host and port of each valid server in `host[:port][,host[:port]...][/chroot]`; IPv6 addresses
    are in brackets.
    """
    servers = []
    for server in address.partition("/")[0].split(","):
        host, _, port = server.rpartition(":")
        if not host:
            servers.append((port, REGISTRY_PORT))
        elif port.isdecimal():
            servers.append((host.strip("[]"), int(port)))
    return servers
