"""ACLs in the registry, where Kafka's AclAuthorizer keeps them.

    /kafka-acl/Topic/orders                       {"version":1,"acls":[{"principal":"User:alice",
    /kafka-acl-extended/prefixed/Group/billing-     "permissionType":"Allow","operation":"Read",
                                                    "host":"*"}]}
    /kafka-acl-changes/acl_changes_0000000007     Topic:orders
    /kafka-acl-extended-changes/acl_changes_0000000000
        {"version":1,"resourceType":"Group","name":"billing-","patternType":"PREFIXED"}

A change of rules is announced by a change node in the same transaction.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Final

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import BadVersionError, NoAuthError, NodeExistsError, NoNodeError

from cluster.coordinator.cluster_store import AclNews, OnChange, StoredAcls
from cluster.coordinator.registry.client.change_nodes import commit_with_change
from cluster.coordinator.registry.client.watching import Watch
from cluster.coordinator.registry.documents import paths, znodes
from cluster.model.acls import (
    RESOURCE_TYPES,
    AclEntry,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from cluster.model.clocks import WallMs

log = logging.getLogger(__name__)

_TRIES_MAX: Final = 50
"""A try fails only when another broker has just changed the same rules."""


class AclRecords:
    """An `AclStore`."""

    def __init__(self, client: KazooClient, watch: Watch) -> None:
        self._client = client
        self._watch = watch

    def load(
        self,
        pattern_type: PatternType,
        seen: frozenset[str] | None,
        on_change: OnChange | None = None,
    ) -> AclNews:
        client = self._client
        directory = paths.ACL_CHANGES[pattern_type]
        if seen is None:
            _make_parents(client, pattern_type)
        names = frozenset(client.get_children(directory, watch=self._watch(on_change)))
        changed = None if seen is None else _changed(client, pattern_type, names - seen)
        if changed is None:
            return AclNews(_read(client, _all_patterns(client, pattern_type)), names, is_whole=True)
        return AclNews(_read(client, changed), names, is_whole=False)

    def change(
        self,
        pattern: ResourcePattern,
        change: Callable[[frozenset[AclEntry]], frozenset[AclEntry]],
        wall_ms: WallMs,
    ) -> StoredAcls:
        """Raises BadVersionError when others change the same rules again and again."""
        client = self._client
        path = paths.acls(pattern)
        for _ in range(_TRIES_MAX):
            try:
                document, stat = client.get(path)
                version = stat.version
            except NoNodeError:
                document, version = b"", None
            found = _decoded(path, document)
            entries = found.entries if found.problem is not None else change(found.entries)
            if entries == found.entries:
                return found
            prefix = f"{paths.ACL_CHANGES[pattern.pattern_type]}/{paths.ACL_CHANGE_NAME}"
            writes = client.transaction()
            _write(writes, path, entries, version)
            try:
                change_node = znodes.encode_acl_change(pattern)
                commit_with_change(client, writes, prefix, change_node, wall_ms)
            except (BadVersionError, NodeExistsError):
                continue  # another broker was faster
            except NoNodeError:  # another broker was faster, or the parent does not exist
                client.ensure_path(path.rpartition("/")[0])
                continue
            return StoredAcls(entries)
        raise BadVersionError(f"{path} is changed all the time")


def _write(
    writes: TransactionRequest, path: str, entries: frozenset[AclEntry], version: int | None
) -> None:
    """`version` is None if there is no node. A node without rules is removed, as in Kafka."""
    if not entries:
        writes.delete(path, version=version)
    elif version is None:
        writes.create(path, znodes.encode_acls(entries))
    else:
        writes.set_data(path, znodes.encode_acls(entries), version=version)


def _make_parents(client: KazooClient, pattern_type: PatternType) -> None:
    client.ensure_path(paths.ACL_CHANGES[pattern_type])
    for resource_type in RESOURCE_TYPES:
        client.ensure_path(paths.acls_of_type(pattern_type, resource_type))


def _changed(
    client: KazooClient, pattern_type: PatternType, names: Iterable[str]
) -> set[ResourcePattern] | None:
    """The patterns that change nodes name; None if one cannot be read, since it may name any."""
    directory = paths.ACL_CHANGES[pattern_type]
    answers = [(name, client.get_async(f"{directory}/{name}")) for name in sorted(names)]
    patterns = set()
    for name, answer in answers:
        try:
            pattern = znodes.decode_acl_change(pattern_type, answer.get()[0])
        except NoNodeError:
            return None  # removed before it was read
        except (NoAuthError, ValueError) as error:
            log.warning("%s/%s: %r; all ACLs are read again", directory, name, error)
            return None
        if not paths.is_node_name(pattern.name):
            return None
        patterns.add(pattern)
    return patterns


def _all_patterns(client: KazooClient, pattern_type: PatternType) -> list[ResourcePattern]:
    patterns = []
    for name in client.get_children(paths.ACLS[pattern_type]):
        try:
            resource_type = ResourceType.of_label(name)
        except ValueError:
            log.warning("ignored %s/%s: not a resource type", paths.ACLS[pattern_type], name)
            continue
        patterns += [
            ResourcePattern(resource_type, each, pattern_type)
            for each in client.get_children(paths.acls_of_type(pattern_type, resource_type))
        ]
    return patterns


def _read(
    client: KazooClient, patterns: Iterable[ResourcePattern]
) -> dict[ResourcePattern, StoredAcls]:
    found = {}
    answers = [(pattern, client.get_async(paths.acls(pattern))) for pattern in patterns]
    for pattern, answer in answers:
        path = paths.acls(pattern)
        try:
            found[pattern] = _decoded(path, answer.get()[0])
        except NoNodeError:
            found[pattern] = StoredAcls(frozenset())
        except NoAuthError:
            found[pattern] = StoredAcls(frozenset(), f"{path} may not be read")
    return found


def _decoded(path: str, document: bytes) -> StoredAcls:
    try:
        return StoredAcls(znodes.decode_acls(document))
    except ValueError as error:
        return StoredAcls(frozenset(), f"{path}: {error}")
