"""Requests that concern only watches: setWatches(2), addWatch, checkWatches, removeWatches.

Source: `DataTree.setWatches`, `FinalRequestProcessor`.
"""

from cluster.coordinator.registry.server.requests import (
    AddWatchRequest,
    SetWatchesRequest,
    WatchesRequest,
)
from cluster.coordinator.registry.server.sessions import ConnectionId
from cluster.coordinator.registry.server.tree import ZnodeTree
from cluster.coordinator.registry.server.watches import Notification, WatchKind, WatchTable
from cluster.coordinator.registry.wire.codes import (
    AddWatchMode,
    EventType,
    OperationRefused,
    RegistryError,
    WatcherType,
)


def restore_watches(
    tree: ZnodeTree,
    watches: WatchTable,
    request: SetWatchesRequest,
    connection_id: ConnectionId,
) -> list[Notification]:
    """Restore a client's watches; if something has happened since `relative_zxid`, the notification
    is returned instead.
    """
    missed: list[Notification] = []

    def tell(event_type: EventType, path: str) -> None:
        missed.append(Notification(connection_id, event_type, path))

    for path in request.data:
        node = tree.find(path)
        if node is None:
            tell(EventType.NODE_DELETED, path)
        elif node.modified_zxid > request.relative_zxid:
            tell(EventType.NODE_DATA_CHANGED, path)
        else:
            watches.add(connection_id, WatchKind.DATA, path)
    for path in request.exists:
        if tree.find(path) is not None:
            tell(EventType.NODE_CREATED, path)
        else:
            watches.add(connection_id, WatchKind.DATA, path)
    for path in request.children:
        node = tree.find(path)
        if node is None:
            tell(EventType.NODE_DELETED, path)
        elif node.children_zxid > request.relative_zxid:
            tell(EventType.NODE_CHILDREN_CHANGED, path)
        else:
            watches.add(connection_id, WatchKind.CHILDREN, path)
    for path in request.persistent:
        watches.add(connection_id, WatchKind.PERSISTENT, path)
    for path in request.recursive:
        watches.add(connection_id, WatchKind.RECURSIVE, path)
    return missed


def add_watch(watches: WatchTable, request: AddWatchRequest, connection_id: ConnectionId) -> None:
    """Add a persistent watch. Raises OperationRefused(MARSHALLING_ERROR) for an unknown mode."""
    if request.mode == AddWatchMode.PERSISTENT:
        watches.add(connection_id, WatchKind.PERSISTENT, request.path)
    elif request.mode == AddWatchMode.PERSISTENT_RECURSIVE:
        watches.add(connection_id, WatchKind.RECURSIVE, request.path)
    else:
        raise OperationRefused(RegistryError.MARSHALLING_ERROR)


def check_watches(
    watches: WatchTable, request: WatchesRequest, connection_id: ConnectionId
) -> None:
    """Raise OperationRefused(NO_WATCHER) unless the client has such a watch on the path."""
    _require_type(request)
    if not watches.has(connection_id, request.path, request.watcher_type):
        raise OperationRefused(RegistryError.NO_WATCHER)


def remove_watches(
    watches: WatchTable, request: WatchesRequest, connection_id: ConnectionId
) -> None:
    """Remove the client's watches of that type. Raises OperationRefused(NO_WATCHER) if it has
    none.
    """
    _require_type(request)
    if not watches.remove(connection_id, request.path, request.watcher_type):
        raise OperationRefused(RegistryError.NO_WATCHER)


def _require_type(request: WatchesRequest) -> None:
    if request.watcher_type not in frozenset(WatcherType):
        raise OperationRefused(RegistryError.MARSHALLING_ERROR)
