"""What a host name stands for. Blocks, so it is asked on a background thread."""

import socket

from cluster.model.addresses import is_address


def address_of(host: str) -> str | None:
    """An address as it is; of a name its first one, of IPv4 if it has any, as Java does.

    None for what is neither an address nor a name that resolves.
    """
    if is_address(host):
        return host
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None
    found.sort(key=lambda each: each[0] != socket.AF_INET)
    return str(found[0][4][0])
