"""Resolves host names. Blocks during the lookup."""

import logging
import socket

from cluster.model.addresses import is_address

log = logging.getLogger(__name__)


def addresses_of(host: str) -> list[str]:
    """The address itself, or the addresses of a name, IPv4 first, as in Java.

    Empty for a name that does not resolve, which is logged.
    """
    if is_address(host):
        return [host]
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as problem:
        log.warning("cannot resolve %s: %s", host, problem)
        return []
    found.sort(key=lambda each: each[0] != socket.AF_INET)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def address_of(host: str) -> str | None:
    """The first of `addresses_of`, or None."""
    return next(iter(addresses_of(host)), None)
