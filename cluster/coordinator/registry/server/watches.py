"""Watches: which connections are notified of changes at which paths. Pure; notifications are
ordered.

As in ZooKeeper there are one-shot data watches (getData, exists) and one-shot child watches
(getChildren), and lasting persistent and recursive watches (addWatch).
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple

from cluster.coordinator.registry.server.sessions import ConnectionId
from cluster.coordinator.registry.server.znode_path import split_path
from cluster.coordinator.registry.wire.codes import EventType, WatcherType


class WatchKind(IntEnum):
    """One-shot watches of data or of children; persistent watches of one path or of a subtree."""

    DATA = 0
    CHILDREN = 1
    PERSISTENT = 2
    RECURSIVE = 3


class Notification(NamedTuple):
    """One event for one connection."""

    connection_id: ConnectionId
    event_type: EventType
    path: str


_KINDS_OF: Final[dict[int, tuple[WatchKind, ...]]] = {
    WatcherType.CHILDREN: (WatchKind.CHILDREN,),
    WatcherType.DATA: (WatchKind.DATA,),
    WatcherType.ANY: tuple(WatchKind),
    WatcherType.PERSISTENT: (WatchKind.PERSISTENT,),
    WatcherType.PERSISTENT_RECURSIVE: (WatchKind.RECURSIVE,),
}

Watchers = dict[ConnectionId, None]


class WatchTable:
    """All watches.

    Invariant: `_by_path[kind][path]` holds a connection exactly if `_by_connection` of that
    connection holds (kind, path); a connection gets one notification of an event at a path, however
    many of its watches match.
    """

    def __init__(self) -> None:
        self._by_path: dict[WatchKind, dict[str, Watchers]] = {kind: {} for kind in WatchKind}
        self._by_connection: dict[ConnectionId, dict[tuple[WatchKind, str], None]] = {}
        self.count = 0

    def data_watchers(self) -> dict[str, list[ConnectionId]]:
        """The connections that watch the data of each path; for listings."""
        watchers: dict[str, list[ConnectionId]] = {}
        for kind in (WatchKind.DATA, WatchKind.PERSISTENT, WatchKind.RECURSIVE):
            for path, ids in self._by_path[kind].items():
                known = watchers.setdefault(path, [])
                known.extend(one for one in ids if one not in known)
        return watchers

    def add(self, connection_id: ConnectionId, kind: WatchKind, path: str) -> None:
        """Add a watch of a path, whether or not it exists; repeated watches count once."""
        watchers = self._by_path[kind].setdefault(path, {})
        if connection_id not in watchers:
            watchers[connection_id] = None
            self._by_connection.setdefault(connection_id, {})[kind, path] = None
            self.count += 1

    def has(self, connection_id: ConnectionId, path: str, watcher_type: int) -> bool:
        """Whether the connection has a watch of that type on the path."""
        return any(
            connection_id in self._by_path[kind].get(path, ())
            for kind in _KINDS_OF.get(watcher_type, ())
        )

    def remove(self, connection_id: ConnectionId, path: str, watcher_type: int) -> bool:
        """Remove the connection's watches of those kinds at the path; False if there were none."""
        kinds = [
            kind
            for kind in _KINDS_OF.get(watcher_type, ())
            if connection_id in self._by_path[kind].get(path, ())
        ]
        for kind in kinds:
            self._drop(connection_id, kind, path)
        return bool(kinds)

    def remove_connection(self, connection_id: ConnectionId) -> None:
        """Remove all watches of the connection."""
        for kind, path in list(self._by_connection.get(connection_id, ())):
            self._drop(connection_id, kind, path)

    def on_node_created(self, path: str) -> list[Notification]:
        """Notifications of a created path to its watchers and to watchers of its parent's
        children.
        """
        hearers = self._hearers_at(path, WatchKind.DATA)
        return self._tell(hearers, EventType.NODE_CREATED, path) + self._on_children_changed(path)

    def on_node_deleted(self, path: str) -> list[Notification]:
        """Notifications of a deleted path to its watchers and to watchers of its parent's
        children.
        """
        hearers = self._hearers_at(path, WatchKind.DATA)
        hearers.update(self._take(WatchKind.CHILDREN, path))
        return self._tell(hearers, EventType.NODE_DELETED, path) + self._on_children_changed(path)

    def on_data_changed(self, path: str) -> list[Notification]:
        """Notifications of changed data."""
        hearers = self._hearers_at(path, WatchKind.DATA)
        return self._tell(hearers, EventType.NODE_DATA_CHANGED, path)

    def _on_children_changed(self, path: str) -> list[Notification]:
        parent, _ = split_path(path)
        hearers = self._take(WatchKind.CHILDREN, parent)
        hearers.update(self._by_path[WatchKind.PERSISTENT].get(parent, {}))
        return self._tell(hearers, EventType.NODE_CHILDREN_CHANGED, parent)

    def _hearers_at(self, path: str, one_shot: WatchKind) -> Watchers:
        hearers = self._take(one_shot, path)
        hearers.update(self._by_path[WatchKind.PERSISTENT].get(path, {}))
        recursive = self._by_path[WatchKind.RECURSIVE]
        if recursive:
            above = path
            hearers.update(recursive.get(above, {}))
            while above != "/":
                above, _ = split_path(above)
                hearers.update(recursive.get(above, {}))
        return hearers

    def _take(self, kind: WatchKind, path: str) -> Watchers:
        """Remove the one-shot watches at a path, and return the connections that had them."""
        watchers = self._by_path[kind].pop(path, None)
        if watchers is None:
            return {}
        for connection_id in watchers:
            self._forget(connection_id, kind, path)
        return watchers

    def _drop(self, connection_id: ConnectionId, kind: WatchKind, path: str) -> None:
        watchers = self._by_path[kind][path]
        del watchers[connection_id]
        if not watchers:
            del self._by_path[kind][path]
        self._forget(connection_id, kind, path)

    def _forget(self, connection_id: ConnectionId, kind: WatchKind, path: str) -> None:
        own = self._by_connection[connection_id]
        del own[kind, path]
        if not own:
            del self._by_connection[connection_id]
        self.count -= 1

    @staticmethod
    def _tell(
        hearers: Iterable[ConnectionId], event_type: EventType, path: str
    ) -> list[Notification]:
        return [Notification(connection_id, event_type, path) for connection_id in hearers]
