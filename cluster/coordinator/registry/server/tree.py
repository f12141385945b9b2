"""The tree of znodes: applies changes and answers queries. Pure; does not check requests.

`planning` decides before whether a change is allowed, and `watches` decides who is notified.
"""

from collections.abc import Callable, Iterator
from typing import Final

from cluster.coordinator.registry.server.acl import OPEN_ACL, READ_ACL, Acl
from cluster.coordinator.registry.server.node import (
    CONTAINER_OWNER,
    Node,
    next_version,
    owning_session,
    ttl_of,
)
from cluster.coordinator.registry.server.transactions import (
    AclChanged,
    DataChanged,
    NodeCreated,
    NodeDeleted,
    TreeChange,
)
from cluster.coordinator.registry.server.znode_path import split_path
from cluster.coordinator.registry.wire.codes import OperationRefused, RegistryError
from cluster.model.clocks import WallMs
from cluster.model.errors import ensure

Undo = Callable[[], None]

PERMANENT_PATHS: Final = ("/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config")
"""ZooKeeper's own znodes, which always exist."""


class ZnodeTree:
    """All znodes by path.

    Invariants: every path but the root has its parent in the tree; a path stands in its parent's
    `children`; the three indexes below hold exactly the ephemeral, container and TTL nodes.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._ephemerals: dict[int, dict[str, None]] = {}
        self._containers: dict[str, None] = {}
        self._ttl_nodes: dict[str, None] = {}
        self.data_bytes = 0
        self.ephemeral_count = 0
        for path in PERMANENT_PATHS:
            self._nodes[path] = Node(b"", OPEN_ACL, 0, 0, WallMs(0))
            if path != "/":
                self._link(path)
        config = self._nodes["/zookeeper/config"]
        config.acl, config.acl_version = READ_ACL, -1

    def __len__(self) -> int:
        return len(self._nodes)

    def find(self, path: str) -> Node | None:
        return self._nodes.get(path)

    def get(self, path: str) -> Node:
        """The znode at a path. Raises OperationRefused(NO_NODE)."""
        node = self._nodes.get(path)
        if node is None:
            raise OperationRefused(RegistryError.NO_NODE)
        return node

    def items(self) -> Iterator[tuple[str, Node]]:
        """Every path and znode, parents before their children."""
        return iter(self._nodes.items())

    def ephemerals_of(self, session_id: int) -> list[str]:
        """Paths of the znodes that end with the session, oldest first."""
        return list(self._ephemerals.get(session_id, ()))

    def descendant_count(self, path: str) -> int:
        """The number of znodes below a path (`getAllChildrenNumber`)."""
        if path == "/":
            return len(self._nodes) - 1
        prefix = path + "/"
        return sum(1 for other in self._nodes if other.startswith(prefix))

    def usage(self, path: str) -> tuple[int, int]:
        """The number of znodes at and below a path, and the bytes of their data."""
        prefix = path + "/"
        sizes = [
            len(node.data or b"")
            for other, node in self._nodes.items()
            if other == path or other.startswith(prefix)
        ]
        return len(sizes), sum(sizes)

    def removable(self, wall_ms: WallMs) -> list[str]:
        """Containers that have lost their last child, and TTL nodes that have expired."""
        paths = []
        for path in self._containers:
            node = self._nodes[path]
            if node.created_children and not node.children:
                paths.append(path)
        for path in self._ttl_nodes:
            node = self._nodes[path]
            ttl_ms = ttl_of(node.ephemeral_owner)
            if ttl_ms is not None and not node.children and wall_ms - node.modified_ms > ttl_ms:
                paths.append(path)
        return paths

    def approximate_data_bytes(self) -> int:
        """Bytes of data and paths, as ZooKeeper counts them; visits every path."""
        return self.data_bytes + sum(map(len, self._nodes))

    def apply(self, change: TreeChange, zxid: int, wall_ms: WallMs) -> Undo:
        """Apply a valid change; returns a function that undoes it.

        The function must be called before any later change, or after all later ones have been
        undone.
        """
        match change:
            case NodeCreated():
                return self._create(change, zxid, wall_ms)
            case NodeDeleted(path, _):
                return self._delete(path, zxid)
            case DataChanged(path, data):
                return self._set_data(self._nodes[path], data, zxid, wall_ms)
            case AclChanged(path, acl):
                return self._set_acl(self._nodes[path], acl)

    def restore(self, path: str, node: Node) -> None:
        """Restore a znode of a snapshot. Parents come first; children are derived from them."""
        node.children = None
        previous = self._nodes.get(path)
        if previous is not None:
            node.children = previous.children
            self.data_bytes -= len(previous.data or b"")
            del self._nodes[path]
        self._nodes[path] = node
        self.data_bytes += len(node.data or b"")
        if path != "/":
            self._link(path)
        self._index(path, node.ephemeral_owner)

    def _create(self, change: NodeCreated, zxid: int, wall_ms: WallMs) -> Undo:
        path, data, acl, owner = change
        parent = self._nodes[split_path(path)[0]]
        ensure(path not in self._nodes, f"{path} is created twice")
        previous_zxid = parent.children_zxid
        self._nodes[path] = Node(data, acl, owner, zxid, wall_ms)
        self._link(path)
        self._index(path, owner)
        parent.created_children += 1
        parent.children_zxid = zxid
        self.data_bytes += len(data or b"")

        def undo() -> None:
            self._remove(path)
            parent.created_children -= 1
            parent.children_zxid = previous_zxid

        return undo

    def _delete(self, path: str, zxid: int) -> Undo:
        ensure(path not in PERMANENT_PATHS, f"{path} is permanent")
        parent = self._nodes[split_path(path)[0]]
        previous_zxid = parent.children_zxid
        node = self._remove(path)
        parent.children_zxid = zxid

        def undo() -> None:
            self._nodes[path] = node
            self._link(path)
            self._index(path, node.ephemeral_owner)
            self.data_bytes += len(node.data or b"")
            parent.children_zxid = previous_zxid

        return undo

    def _set_data(self, node: Node, data: bytes | None, zxid: int, wall_ms: WallMs) -> Undo:
        before = (node.data, node.version, node.modified_zxid, node.modified_ms)
        growth = len(data or b"") - len(node.data or b"")
        self.data_bytes += growth
        node.data = data
        node.version = next_version(node.version)
        node.modified_zxid = zxid
        node.modified_ms = wall_ms

        def undo() -> None:
            node.data, node.version, node.modified_zxid, node.modified_ms = before
            self.data_bytes -= growth

        return undo

    @staticmethod
    def _set_acl(node: Node, acl: Acl) -> Undo:
        before = (node.acl, node.acl_version)
        node.acl = acl
        node.acl_version = next_version(node.acl_version)

        def undo() -> None:
            node.acl, node.acl_version = before

        return undo

    def _link(self, path: str) -> None:
        parent_path, name = split_path(path)
        parent = self._nodes[parent_path]
        if parent.children is None:
            parent.children = {}
        parent.children[name] = None

    def _remove(self, path: str) -> Node:
        node = self._nodes.pop(path)
        ensure(not node.children, f"{path} is removed while it has children")
        parent_path, name = split_path(path)
        siblings = self._nodes[parent_path].children
        if siblings is not None:
            del siblings[name]
        self.data_bytes -= len(node.data or b"")
        self._drop_from_index(path, node.ephemeral_owner)
        return node

    def _index(self, path: str, owner: int) -> None:
        if owner == 0:
            return
        session_id = owning_session(owner)
        if session_id is not None:
            self._ephemerals.setdefault(session_id, {})[path] = None
            self.ephemeral_count += 1
        elif owner == CONTAINER_OWNER:
            self._containers[path] = None
        else:
            self._ttl_nodes[path] = None

    def _drop_from_index(self, path: str, owner: int) -> None:
        if owner == 0:
            return
        session_id = owning_session(owner)
        if session_id is not None:
            owned = self._ephemerals[session_id]
            del owned[path]
            if not owned:
                del self._ephemerals[session_id]
            self.ephemeral_count -= 1
        elif owner == CONTAINER_OWNER:
            del self._containers[path]
        else:
            del self._ttl_nodes[path]
