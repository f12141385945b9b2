"""Turns the options of `acls` into rules and filters, as `AclCommand` of Kafka does. Pure."""

import argparse
from collections.abc import Iterable
from typing import Final

from cluster.model.acls import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    WILDCARD,
    AclEntry,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from cluster.tools.arguments import UsageError

Rules = dict[AclFilter, set[AclEntry]]
"""Entries by the resources that they are for."""

_OF_PRODUCERS: Final = {
    ResourceType.TOPIC: (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE),
    ResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE, AclOperation.DESCRIBE),
}
_OF_CONSUMERS: Final = {
    ResourceType.TOPIC: (AclOperation.READ, AclOperation.DESCRIBE),
    ResourceType.GROUP: (AclOperation.READ,),
}
_RESOURCES: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional_id": ResourceType.TRANSACTIONAL_ID,
    "delegation_token": ResourceType.DELEGATION_TOKEN,
    "user_principal": ResourceType.USER,
}


def resources(args: argparse.Namespace) -> list[AclFilter]:
    """The resources that the options name."""
    pattern_type: PatternType = args.resource_pattern_type
    found = [
        AclFilter(kind, name.strip(), pattern_type)
        for option, kind in _RESOURCES.items()
        for name in getattr(args, option)
    ]
    if args.cluster:
        found.append(AclFilter(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL))
    return found


def rules(args: argparse.Namespace) -> Rules:
    """What is to be added or removed. Raises UsageError."""
    found = resources(args)
    if not found:
        raise UsageError(
            "name a resource: --topic, --group, --cluster, --transactional-id,"
            " --delegation-token or --user-principal"
        )
    if not args.producer and not args.consumer:
        chosen = {each: entries(args, args.operation or [AclOperation.ALL]) for each in found}
    else:
        chosen = {}
        for is_given, rights in ((args.producer, _OF_PRODUCERS), (args.consumer, _OF_CONSUMERS)):
            for each in found if is_given else ():
                if each.resource_type in rights:
                    chosen.setdefault(each, set()).update(entries(args, rights[each.resource_type]))
        if args.producer and args.idempotent:
            cluster = AclFilter(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
            chosen[cluster] = entries(args, [AclOperation.IDEMPOTENT_WRITE])
    _check_operations(chosen)
    return chosen


def entries(args: argparse.Namespace, operations: Iterable[AclOperation]) -> set[AclEntry]:
    """Who may, and who may not, do these operations, from where."""
    wanted = list(operations)
    return {
        AclEntry(principal.strip(), host.strip(), operation, permission)
        for principals, hosts, permission in (
            (args.allow_principal, args.allow_host, AclPermission.ALLOW),
            (args.deny_principal, args.deny_host, AclPermission.DENY),
        )
        for principal in principals
        for host in hosts or [WILDCARD]
        for operation in wanted
    }


def _check_operations(chosen: Rules) -> None:
    for resource, granted in chosen.items():
        possible = (*SUPPORTED_OPERATIONS[resource.resource_type], AclOperation.ALL)
        for entry in granted:
            if entry.operation not in possible:
                names = ", ".join(operation.name for operation in possible)
                raise UsageError(
                    f"ResourceType {resource.resource_type.name} only supports operations {names}"
                )
