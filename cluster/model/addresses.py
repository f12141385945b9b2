"""What the text of an address says by itself. Pure; resolves no names."""

import ipaddress


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
