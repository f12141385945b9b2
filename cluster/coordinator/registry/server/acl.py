"""Access control lists of znodes. Pure; identities come from the connection.

Schemes: `world`, `ip` (address or address/bits), `digest` (user:base64(sha1(user:password))),
`sasl` (a logged-in user), `x509` (the name in a certificate), and in requests `auth`, which stands
for every identity that the caller has proved.
"""

import base64
import hashlib
import ipaddress
import re
from typing import Final, NamedTuple

from cluster.coordinator.registry.wire.codes import OperationRefused, Permission, RegistryError
from cluster.coordinator.registry.wire.jute import RecordReader, encode_int, encode_string


class AclEntry(NamedTuple):
    """jute `ACL {int perms; Id {ustring scheme; ustring id}}`."""

    permissions: int
    scheme: str
    id: str


class Identity(NamedTuple):
    """One authenticated identity of a connection."""

    scheme: str
    id: str


Acl = tuple[AclEntry, ...]

ALL_PERMISSIONS: Final = 31
OPEN_ACL: Final[Acl] = (AclEntry(ALL_PERMISSIONS, "world", "anyone"),)
READ_ACL: Final[Acl] = (AclEntry(Permission.READ, "world", "anyone"),)
_PROVABLE_SCHEMES: Final = frozenset({"digest", "sasl", "x509"})
SUPER: Final = Identity("super", "")
"""The identity that may do everything; a chosen user proves it by a login."""
_SASL_ID: Final = re.compile(r"[^@]*|[^/@]*(/[^/@]*)?@[^/@]*")
"""A user, or a Kerberos principal (`KerberosName`)."""


def digest_identity(credentials: bytes) -> Identity:
    """The identity that `user:password` proves."""
    user, _, _ = credentials.partition(b":")
    digest = base64.b64encode(hashlib.sha1(credentials, usedforsecurity=False).digest())
    return Identity("digest", f"{user.decode('utf-8', 'replace')}:{digest.decode('ascii')}")


def resolve_acl(requested: Acl, identities: tuple[Identity, ...]) -> Acl:
    """The list to store: `auth` entries are replaced by proved identities, duplicates are dropped.

    Raises OperationRefused(INVALID_ACL) for an empty list, an unknown scheme or a malformed id.
    """
    if requested == OPEN_ACL:
        return OPEN_ACL
    resolved: dict[AclEntry, None] = {}
    for entry in requested:
        if entry.scheme == "auth":
            proved = [own for own in identities if own.scheme in _PROVABLE_SCHEMES]
            if not proved:
                raise OperationRefused(RegistryError.INVALID_ACL)
            resolved.update((AclEntry(entry.permissions, *own), None) for own in proved)
        elif _is_valid(entry):
            resolved[entry] = None
        else:
            raise OperationRefused(RegistryError.INVALID_ACL)
    if not resolved:
        raise OperationRefused(RegistryError.INVALID_ACL)
    return tuple(resolved)


def require_permission(acl: Acl, permission: Permission, identities: tuple[Identity, ...]) -> None:
    """Raise OperationRefused(NO_AUTH) unless an entry of the list grants one of the bits."""
    if acl is OPEN_ACL:
        return
    for entry in acl:
        if entry.permissions & permission and _matches(entry, identities):
            return
    if SUPER not in identities:
        raise OperationRefused(RegistryError.NO_AUTH)


def _is_valid(entry: AclEntry) -> bool:
    if entry.scheme == "world":
        return entry.id == "anyone"
    if entry.scheme == "digest":
        return entry.id.count(":") == 1
    if entry.scheme == "sasl":
        return _SASL_ID.fullmatch(entry.id) is not None
    if entry.scheme == "x509":
        return bool(entry.id)
    if entry.scheme == "ip":
        try:
            ipaddress.ip_network(entry.id, strict=False)
        except ValueError:
            return False
        return True
    return False


def _matches(entry: AclEntry, identities: tuple[Identity, ...]) -> bool:
    if entry.scheme == "world":
        return True
    if entry.scheme == "ip":
        network = ipaddress.ip_network(entry.id, strict=False)
        return any(
            own.scheme == "ip" and ipaddress.ip_address(own.id) in network for own in identities
        )
    return (entry.scheme, entry.id) in identities


def read_acl_entry(reader: RecordReader) -> AclEntry:
    return AclEntry(reader.read_int(), reader.read_string(), reader.read_string())


def read_acl(reader: RecordReader) -> Acl:
    """A vector of `ACL`. The open list is always the same object, which makes checks fast."""
    acl = reader.read_vector(read_acl_entry)
    return OPEN_ACL if acl == OPEN_ACL else acl


def encode_acl(acl: Acl) -> bytes:
    if acl is OPEN_ACL:
        return _ENCODED_OPEN_ACL
    return _encode_entries(acl)


def _encode_entries(acl: Acl) -> bytes:
    entries = [
        encode_int(entry.permissions) + encode_string(entry.scheme) + encode_string(entry.id)
        for entry in acl
    ]
    return encode_int(len(entries)) + b"".join(entries)


_ENCODED_OPEN_ACL: Final = _encode_entries(OPEN_ACL)
