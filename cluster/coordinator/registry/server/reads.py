"""Answers requests that change nothing, and leaves their watches. Source:
`FinalRequestProcessor`.
"""

from typing import Final

from cluster.coordinator.registry.server.acl import Acl, Identity, encode_acl, require_permission
from cluster.coordinator.registry.server.planning import Caller
from cluster.coordinator.registry.server.quota import usage_at
from cluster.coordinator.registry.server.replies import StepResult
from cluster.coordinator.registry.server.requests import MultiRequest, PathRequest, WatchableRequest
from cluster.coordinator.registry.server.sessions import ConnectionId
from cluster.coordinator.registry.server.tree import ZnodeTree
from cluster.coordinator.registry.server.watches import WatchKind, WatchTable
from cluster.coordinator.registry.wire.codes import (
    Operation,
    OperationRefused,
    Permission,
    RegistryError,
)
from cluster.coordinator.registry.wire.jute import (
    encode_buffer,
    encode_int,
    encode_string,
    encode_strings,
)
from cluster.model.errors import PeerError

MULTI_READ_BYTES_MAX: Final = 64 << 20


class Reader:
    """Answers reads for one registry; watches belong to the connection that asks."""

    def __init__(self, tree: ZnodeTree, watches: WatchTable) -> None:
        self._tree = tree
        self._watches = watches

    def read_watchable(
        self,
        operation: Operation,
        request: WatchableRequest,
        caller: Caller,
        connection_id: ConnectionId,
    ) -> bytes:
        """exists, getData, getChildren, getChildren2. Raises OperationRefused.

        Only exists leaves a watch on a missing path.
        """
        path = request.path or "/"
        is_children = operation in (Operation.GET_CHILDREN, Operation.GET_CHILDREN2)
        if operation is Operation.EXISTS:
            if "\0" in path:
                raise OperationRefused(RegistryError.BAD_ARGUMENTS)
        else:
            node = self._tree.get(path)
            require_permission(node.acl, Permission.READ, caller.identities)
        if request.watch:
            kind = WatchKind.CHILDREN if is_children else WatchKind.DATA
            self._watches.add(connection_id, kind, path)
        node = self._tree.get(path)
        usage = usage_at(self._tree, path)
        if usage is not None:
            node = node.showing(usage)
        if operation is Operation.EXISTS:
            return node.encode_stat()
        if operation is Operation.GET_DATA:
            return encode_buffer(node.data) + node.encode_stat()
        names = encode_strings(node.children or ())
        return names + node.encode_stat() if operation is Operation.GET_CHILDREN2 else names

    def read_path(self, operation: Operation, request: PathRequest, caller: Caller) -> bytes:
        """getACL, sync, getEphemerals, getAllChildrenNumber. Raises OperationRefused."""
        path = request.path
        if operation is Operation.SYNC:
            return encode_string(path)  # one server: every read sees every acknowledged write
        if operation is Operation.GET_EPHEMERALS:
            own = self._tree.ephemerals_of(caller.session_id)
            return encode_strings(owned for owned in own if owned.startswith(path))
        node = self._tree.get(path or "/")
        if operation is Operation.GET_ACL:
            require_permission(node.acl, Permission.READ | Permission.ADMIN, caller.identities)
            return encode_acl(_shown_acl(node.acl, caller.identities)) + node.encode_stat()
        require_permission(node.acl, Permission.READ, caller.identities)
        return encode_int(self._tree.descendant_count(path))

    def read_multi(
        self, request: MultiRequest, caller: Caller, connection_id: ConnectionId
    ) -> list[StepResult]:
        """multiRead: an error affects only its own step, and no step leaves a watch.

        Raises PeerError when the results exceed the limit on a connection's unsent bytes: a request
        of 1 MiB can name the same large znode fifty thousand times.
        """
        results = []
        size_bytes = 0
        for operation, step in request.steps:
            if not isinstance(step, WatchableRequest):
                continue
            try:
                unwatched = step._replace(watch=False)
                record = self.read_watchable(operation, unwatched, caller, connection_id)
                size_bytes += len(record)
                if size_bytes > MULTI_READ_BYTES_MAX:
                    raise PeerError(f"a multiRead of more than {MULTI_READ_BYTES_MAX} bytes")
                results.append(StepResult(operation, RegistryError.OK, record))
            except OperationRefused as refused:
                results.append(StepResult(Operation.ERROR, refused.code, b""))
        return results


def _shown_acl(acl: Acl, identities: tuple[Identity, ...]) -> Acl:
    """Callers without the admin permission see digests with a masked hash."""
    try:
        require_permission(acl, Permission.ADMIN, identities)
    except OperationRefused:
        return tuple(
            entry._replace(id=entry.id.partition(":")[0] + ":x")
            if entry.scheme == "digest"
            else entry
            for entry in acl
        )
    return acl
