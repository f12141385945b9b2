"""A cluster's default addresses, and what the text of an address implies.

Pure; resolves no names.
"""

import ipaddress
from typing import Final

LOOPBACK: Final = "127.0.0.1"
BROKER_PORT: Final = 9092
"""The port of broker 0; the others follow."""
REGISTRY_PORT: Final = 2181
DASHBOARD_PORT: Final = 9292


def is_address(host: str) -> bool:
    """Whether the text is an IPv4 or IPv6 address, rather than a name or a range."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens there.

    False for names other than localhost: their addresses can change.
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
