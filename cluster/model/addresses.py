"""The addresses that a cluster has by default, and what the text of an address says by itself.

Pure; resolves no names.
"""

import ipaddress
from typing import Final

LOOPBACK: Final = "127.0.0.1"
BROKER_PORT: Final = 9092
"""Of broker 0; the next ones follow."""
REGISTRY_PORT: Final = 2181
DASHBOARD_PORT: Final = 9292


def is_address(host: str) -> bool:
    """Whether it is an address of IPv4 or IPv6, rather than a name or a range."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens there. False for other names than localhost:
    what they stand for can change.
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
