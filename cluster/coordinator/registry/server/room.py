"""Which writes are allowed as the registry's disk fills up. Pure.

There are three stages: all writes; only writes that need little space, such as deletions, sessions
and other leaders; nothing but the end of sessions. A reserved file is removed between the second
and the third.
"""

from enum import IntEnum
from typing import Final

from cluster.coordinator.registry.server.requests import (
    CreateRequest,
    MultiRequest,
    Request,
    SetAclRequest,
    SetDataRequest,
)
from cluster.coordinator.registry.server.tree import ZnodeTree
from cluster.coordinator.registry.wire.codes import EPHEMERAL_FLAGS

LITTLE_BYTES: Final = 16 << 10
"""The limit on a znode's data while the disk is full; a partition's state has less."""


class Room(IntEnum):
    """The stages of a disk that fills up."""

    ENOUGH = 0
    LITTLE = 1
    """The tree does not grow."""
    NONE = 2
    """No write and no new session."""


def stage(free_bytes: int, min_free_bytes: int) -> Room:
    """The stage for an amount of free space."""
    if free_bytes >= min_free_bytes:
        return Room.ENOUGH
    return Room.LITTLE if free_bytes >= min_free_bytes // 4 else Room.NONE


def reserve_bytes(min_free_bytes: int) -> int:
    """The size of the reserved file."""
    return min_free_bytes // 2


def takes_little(request: Request, tree: ZnodeTree) -> bool:
    """Whether a write is allowed in the stage LITTLE. Creating an existing znode writes nothing;
    clients do that to check for it.
    """
    match request:
        case CreateRequest() if tree.find(request.path) is not None:
            return True
        case CreateRequest():
            return request.flags in EPHEMERAL_FLAGS and len(request.data or b"") <= LITTLE_BYTES
        case SetDataRequest():
            return len(request.data or b"") <= LITTLE_BYTES
        case SetAclRequest():
            return False
        case MultiRequest():
            return all(takes_little(step, tree) for _, step in request.steps)
        case _:
            return True
