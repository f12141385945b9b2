"""What the registry may still write when its disk is full. Pure.

Three stages: all of it; only what takes little, such as deletions, sessions and other leaders; and
nothing but the end of sessions. Between the second and the third a file is removed that was kept
for that.
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
"""As much data as a znode may be given on a full disk: more than a partition's state has."""


class Room(IntEnum):
    """The stages."""

    ENOUGH = 0
    LITTLE = 1
    """The tree does not grow."""
    NONE = 2
    """No write, and no new session."""


def stage(free_bytes: int, min_free_bytes: int) -> Room:
    """The stage with so much room on the disk."""
    if free_bytes >= min_free_bytes:
        return Room.ENOUGH
    return Room.LITTLE if free_bytes >= min_free_bytes // 4 else Room.NONE


def reserve_bytes(min_free_bytes: int) -> int:
    """The size of the file that is kept to be removed."""
    return min_free_bytes // 2


def takes_little(request: Request, tree: ZnodeTree) -> bool:
    """Whether a write may be made in the stage LITTLE.

    Creating what exists writes nothing: clients do that to find out.
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
