"""A znode and its Stat; the encoding of ephemeral owners (`EphemeralType`)."""

import copy
import struct
from typing import Final

from cluster.coordinator.registry.server.acl import Acl
from cluster.model.clocks import WallMs

_STAT: Final = struct.Struct(">qqqqiiiqiiq")
_OWNER: Final = struct.Struct(">q")
_UNSIGNED: Final = struct.Struct(">Q")

CONTAINER_OWNER: Final = -(2**63)
_TTL_MASK: Final = 0xFF00_0000_0000_0000
MAX_TTL_MS: Final = 0x00FF_FFFF_FFFF
"""40 bits, almost 35 years; ZooKeeper reserves the 16 bits above them."""


def ttl_owner(ttl_ms: int) -> int:
    """The ephemeralOwner of a TTL node: 0xFF in the top byte, the TTL in the lowest 40 bits."""
    owner: int = _OWNER.unpack(_UNSIGNED.pack(_TTL_MASK | ttl_ms))[0]
    return owner


def ttl_of(owner: int) -> int | None:
    """The TTL in ms that an ephemeralOwner encodes; None if it is not that of a TTL node."""
    unsigned = owner & 0xFFFF_FFFF_FFFF_FFFF
    return unsigned & MAX_TTL_MS if unsigned & _TTL_MASK == _TTL_MASK else None


def owning_session(owner: int) -> int | None:
    """The session whose end removes the node; None for persistent, container and TTL nodes."""
    if owner == 0 or owner == CONTAINER_OWNER or ttl_of(owner) is not None:
        return None
    return owner


class Node:
    """One znode without its path.

    Invariant: `children` holds exactly the names whose paths are in the tree below this one; None
    stands for an empty set, because most znodes are leaves. `created_children` only grows: it
    numbers sequential children, and `cversion` is derived from it as ZooKeeper does.
    """

    __slots__ = (
        "acl",
        "acl_version",
        "children",
        "children_zxid",
        "created_children",
        "created_ms",
        "created_zxid",
        "data",
        "ephemeral_owner",
        "modified_ms",
        "modified_zxid",
        "version",
    )

    def __init__(
        self, data: bytes | None, acl: Acl, ephemeral_owner: int, zxid: int, wall_ms: WallMs
    ) -> None:
        self.data = data
        self.acl = acl
        self.ephemeral_owner = ephemeral_owner
        self.created_zxid = zxid
        self.modified_zxid = zxid
        self.children_zxid = zxid
        self.created_ms = wall_ms
        self.modified_ms = wall_ms
        self.version = 0
        self.acl_version = 0
        self.created_children = 0
        self.children: dict[str, None] | None = None

    def showing(self, data: bytes) -> "Node":
        """A copy with other data, only for an answer."""
        shown = copy.copy(self)
        shown.data = data
        return shown

    @property
    def child_count(self) -> int:
        return len(self.children) if self.children else 0

    @property
    def cversion(self) -> int:
        """Number of changes to the set of children: creations and deletions."""
        return _wrap_int(2 * self.created_children - self.child_count)

    def encode_stat(self) -> bytes:
        """jute `Stat`: czxid mzxid ctime mtime version cversion aversion ephemeralOwner
        dataLength numChildren pzxid. Containers and TTL nodes show no owner.
        """
        return _STAT.pack(
            self.created_zxid,
            self.modified_zxid,
            self.created_ms,
            self.modified_ms,
            self.version,
            self.cversion,
            self.acl_version,
            owning_session(self.ephemeral_owner) or 0,
            len(self.data) if self.data else 0,
            self.child_count,
            self.children_zxid,
        )


def next_version(version: int) -> int:
    """The next version. Like Java's int it wraps, and it skips -1, which means "any"."""
    following = _wrap_int(version + 1)
    return 0 if following == -1 else following


def _wrap_int(number: int) -> int:
    return (number + 2**31) % 2**32 - 2**31
