"""Turns requests into decided changes: every check that ZooKeeper makes before a write, in its
order.

Pure and without effect: the change is applied elsewhere. Source: `PrepRequestProcessor`.
"""

from typing import NamedTuple

from cluster.coordinator.registry.server.acl import Identity, require_permission, resolve_acl
from cluster.coordinator.registry.server.node import (
    CONTAINER_OWNER,
    MAX_TTL_MS,
    Node,
    owning_session,
    ttl_owner,
)
from cluster.coordinator.registry.server.requests import (
    CheckVersionRequest,
    CreateRequest,
    DeleteContainerRequest,
    DeleteRequest,
    SetAclRequest,
    SetDataRequest,
    WriteRequest,
)
from cluster.coordinator.registry.server.transactions import (
    AclChanged,
    DataChanged,
    NodeCreated,
    NodeDeleted,
    TreeChange,
)
from cluster.coordinator.registry.server.tree import PERMANENT_PATHS, ZnodeTree
from cluster.coordinator.registry.server.znode_path import require_valid, split_path
from cluster.coordinator.registry.wire.codes import (
    ANY_VERSION,
    EPHEMERAL_FLAGS,
    SEQUENTIAL_FLAGS,
    TTL_FLAGS,
    CreateFlag,
    OperationRefused,
    Permission,
    RegistryError,
)


class Caller(NamedTuple):
    """The caller of a request: the session, which owns its ephemeral nodes, and the proved
    identities.

    Session 0 is the registry itself, which removes containers and TTL nodes without permission
    checks.
    """

    session_id: int
    identities: tuple[Identity, ...]


def plan_write(tree: ZnodeTree, request: WriteRequest, caller: Caller) -> TreeChange | None:
    """The change that a request leads to; None for a successful check. Raises OperationRefused with
    the code that ZooKeeper answers.
    """
    match request:
        case CreateRequest():
            return _plan_create(tree, request, caller)
        case DeleteRequest(path, version):
            return _plan_delete(tree, path, version, caller)
        case SetDataRequest(path, data, version):
            require_valid(path)
            node = tree.get(path)
            require_permission(node.acl, Permission.WRITE, caller.identities)
            _require_version(node.version, version)
            return DataChanged(path, data)
        case SetAclRequest(path, acl, version):
            require_valid(path)
            resolved = resolve_acl(acl, caller.identities)
            node = tree.get(path)
            require_permission(node.acl, Permission.ADMIN, caller.identities)
            _require_version(node.acl_version, version)
            return AclChanged(path, resolved)
        case CheckVersionRequest(path, version):
            require_valid(path)
            node = tree.get(path)
            require_permission(node.acl, Permission.READ, caller.identities)
            _require_version(node.version, version)
            return None
        case DeleteContainerRequest(path):
            return _plan_delete_container(tree, path, caller)


def _plan_create(tree: ZnodeTree, request: CreateRequest, caller: Caller) -> NodeCreated:
    flag = _require_flag(request)
    path = request.path
    _require_parted(path)
    acl = resolve_acl(request.acl, caller.identities)
    parent = tree.get(split_path(path)[0])
    require_permission(parent.acl, Permission.CREATE, caller.identities)
    if flag in SEQUENTIAL_FLAGS:
        path += f"{parent.created_children:010d}"
    require_valid(path)
    if tree.find(path) is not None:
        raise OperationRefused(RegistryError.NODE_EXISTS)
    if owning_session(parent.ephemeral_owner) is not None:
        raise OperationRefused(RegistryError.NO_CHILDREN_FOR_EPHEMERALS)
    return NodeCreated(path, request.data, acl, _owner_of(flag, request.ttl_ms, caller))


def _require_flag(request: CreateRequest) -> CreateFlag:
    try:
        flag = CreateFlag(request.flags)
    except ValueError:
        raise OperationRefused(RegistryError.BAD_ARGUMENTS) from None
    if flag in TTL_FLAGS:
        if not 0 < (request.ttl_ms or 0) <= MAX_TTL_MS:
            raise OperationRefused(RegistryError.BAD_ARGUMENTS)
    elif request.ttl_ms is not None:
        raise OperationRefused(RegistryError.BAD_ARGUMENTS)
    return flag


def _owner_of(flag: CreateFlag, ttl_ms: int | None, caller: Caller) -> int:
    if flag in EPHEMERAL_FLAGS:
        return caller.session_id
    if flag is CreateFlag.CONTAINER:
        return CONTAINER_OWNER
    if flag in TTL_FLAGS and ttl_ms is not None:
        return ttl_owner(ttl_ms)
    return 0


def _plan_delete(tree: ZnodeTree, path: str, version: int, caller: Caller) -> NodeDeleted:
    if path in PERMANENT_PATHS:
        raise OperationRefused(RegistryError.BAD_ARGUMENTS)
    _require_parted(path)
    parent = tree.get(split_path(path)[0])
    require_permission(parent.acl, Permission.DELETE, caller.identities)
    node = tree.get(path)
    _require_version(node.version, version)
    _require_no_children(node)
    return NodeDeleted(path, node.acl)


def _plan_delete_container(tree: ZnodeTree, path: str, caller: Caller) -> NodeDeleted:
    if path in PERMANENT_PATHS:
        raise OperationRefused(RegistryError.BAD_ARGUMENTS)
    _require_parted(path)
    if caller.session_id != 0:
        parent = tree.get(split_path(path)[0])
        require_permission(parent.acl, Permission.DELETE, caller.identities)
    node = tree.get(path)
    _require_no_children(node)
    if node.ephemeral_owner == 0 or owning_session(node.ephemeral_owner) is not None:
        raise OperationRefused(RegistryError.BAD_VERSION)
    return NodeDeleted(path, node.acl)


def _require_parted(path: str) -> None:
    """Check a path as delete does, and as create does before it looks for the parent."""
    if "/" not in path or "\0" in path:
        raise OperationRefused(RegistryError.BAD_ARGUMENTS)


def _require_version(version: int, expected: int) -> None:
    if expected not in (ANY_VERSION, version):
        raise OperationRefused(RegistryError.BAD_VERSION)


def _require_no_children(node: Node) -> None:
    if node.children:
        raise OperationRefused(RegistryError.NOT_EMPTY)
