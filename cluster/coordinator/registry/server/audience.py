"""Selects the clients to notify of a committed change: watchers that may read the znode. Pure.

A persistent watch (addWatch) is accepted for any path, so permission is checked before each
notification (CVE-2024-23944).
"""

from collections.abc import Callable, Sequence

from cluster.coordinator.registry.server.acl import OPEN_ACL, Acl, Identity, require_permission
from cluster.coordinator.registry.server.sessions import ConnectionId
from cluster.coordinator.registry.server.transactions import (
    Change,
    DataChanged,
    NodeCreated,
    NodeDeleted,
)
from cluster.coordinator.registry.server.tree import ZnodeTree
from cluster.coordinator.registry.server.watches import Notification, WatchTable
from cluster.coordinator.registry.wire.codes import OperationRefused, Permission

IdentitiesOf = Callable[[ConnectionId], tuple[Identity, ...]]


def notifications_of(
    changes: Sequence[Change], watches: WatchTable, tree: ZnodeTree, identities_of: IdentitiesOf
) -> list[Notification]:
    """The notifications of a transaction; removes the one-shot watches that it triggers. `tree` is
    the tree after the transaction.
    """
    deleted = {change.path: change.acl for change in changes if isinstance(change, NodeDeleted)}

    def may_read(one: Notification) -> bool:
        node = tree.find(one.path)
        acl = deleted.get(one.path, OPEN_ACL) if node is None else node.acl
        return _is_readable(acl, identities_of(one.connection_id))

    return [one for change in changes for one in _set_off(change, watches) if may_read(one)]


def _set_off(change: Change, watches: WatchTable) -> list[Notification]:
    match change:
        case NodeCreated(path):
            return watches.on_node_created(path)
        case NodeDeleted(path):
            return watches.on_node_deleted(path)
        case DataChanged(path):
            return watches.on_data_changed(path)
        case _:
            return []


def _is_readable(acl: Acl, identities: tuple[Identity, ...]) -> bool:
    try:
        require_permission(acl, Permission.READ, identities)
    except OperationRefused:
        return False
    return True
