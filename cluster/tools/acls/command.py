"""`acls`: adds, removes and lists access control lists, with the options of Kafka's tool."""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from cluster.client.acl_requests import create_acls, delete_acls, describe_acls
from cluster.client.socket_client import SocketClient
from cluster.model.acls import (
    USER_PREFIX,
    WILDCARD,
    AclBinding,
    AclEntry,
    AclFilter,
    AclOperation,
    PatternType,
    ResourcePattern,
)
from cluster.model.addresses import is_address
from cluster.model.errors import Refused
from cluster.model.printable import one_line
from cluster.tools.acls.bindings import resources, rules
from cluster.tools.arguments import UsageError, add_command
from cluster.tools.kafka_connection import add_servers, servers_of
from cluster.tools.missing_rights import right_hint

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers

_CLIENT_ID: Final = "milena-acls"
_OF_RULES: Final = ("allow_principal", "deny_principal", "allow_host", "deny_host", "operation")
_USED_BY: Final[dict[str, set[str]]] = {
    "topic": {"producer", "consumer"},
    "group": {"consumer"},
    "transactional_id": {"producer"},
    "delegation_token": set(),
    "user_principal": set(),
}
"""For which roles there are rights on a resource."""


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `acls` and its options to `subparsers`."""
    parser = add_command(
        subparsers,
        "acls",
        "acls --add --allow-principal User:alice --producer --topic orders",
        "acls --add --allow-principal User:bob --consumer --topic orders --group billing",
        "acls --add --deny-principal User:eve --operation All --topic '*'",
        "acls list --topic orders",
        "acls --remove --topic orders --force",
    )
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--add", action="store_true", help="add rules")
    action.add_argument("--remove", action="store_true", help="remove rules")
    action.add_argument("--list", action="store_true", help="print rules")
    parser.accept_words(("add", "remove", "list"))
    _add_resources(parser)
    _add_rules(parser)
    parser.add_argument(
        "--principal",
        action="append",
        default=[],
        type=_principal,
        metavar="User:U",
        help="with --list: only rules for this user; may be repeated",
    )
    parser.add_argument("--force", action="store_true", help="remove without asking")
    parser.add_argument("--json", action="store_true", help="with --list: objects, for scripts")
    add_servers(parser)


def _add_resources(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("which resources (each option may be repeated)")
    for option, metavar, what in (
        ("--topic", "T", "a topic, * for all"),
        ("--group", "G", "a consumer group, * for all"),
        ("--transactional-id", "ID", "a transactional id, * for all"),
        ("--delegation-token", "ID", "a delegation token, * for all"),
        ("--user-principal", "User:U", "a user whose tokens are meant, * for all"),
    ):
        group.add_argument(option, action="append", default=[], metavar=metavar, help=what)
    group.add_argument("--cluster", action="store_true", help="the cluster itself")
    group.add_argument(
        "--resource-pattern-type",
        type=_pattern_type,
        default=PatternType.LITERAL,
        metavar="TYPE",
        help="literal, prefixed; to list and remove also match and any (default: literal)",
    )


def _add_rules(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("who may do what (each option may be repeated)")
    for option, verb in (("allow", "may"), ("deny", "may not")):
        group.add_argument(
            f"--{option}-principal",
            action="append",
            default=[],
            type=_principal,
            metavar="User:U",
            help=f"a user who {verb}; User:* is every user",
        )
        group.add_argument(
            f"--{option}-host",
            action="append",
            default=[],
            metavar="IP",
            help=f"an address from which they {verb} (default: *, all)",
        )
    group.add_argument(
        "--operation",
        action="append",
        default=[],
        type=_operation,
        metavar="O",
        help=f"{', '.join(each.label for each in AclOperation if each > AclOperation.ALL)}, All"
        " (default: All)",
    )
    group.add_argument("--producer", action="store_true", help="what a producer needs")
    group.add_argument("--consumer", action="store_true", help="what a consumer needs")
    group.add_argument(
        "--idempotent", action="store_true", help="with --producer: write idempotently"
    )


def run(args: argparse.Namespace) -> int:
    """Carry out the action. Returns the exit status; a refusal is printed as Kafka's tool does."""
    _check(args)
    try:
        if args.list:
            return _list(args)
        if args.add:
            return _add(args)
        return _remove(args)
    except Refused as refused:
        print(
            f"Error while executing ACL command: {one_line(refused.reason)}"
            f"{right_hint(refused.code, args)}",
            file=sys.stderr,
        )
        return 1


def _check(args: argparse.Namespace) -> None:
    """Raises UsageError for options that do not go together."""
    if args.list:
        for option in (*_OF_RULES, "producer", "consumer"):
            if getattr(args, option):
                raise UsageError(f"--{option.replace('_', '-')} does not go with --list")
    elif args.principal:
        raise UsageError("--principal goes with --list")
    elif args.json:
        raise UsageError("--json goes with --list")
    if args.producer or args.consumer:
        for option in ("operation", "deny_principal", "deny_host"):
            if getattr(args, option):
                raise UsageError(
                    f"--{option.replace('_', '-')} does not go with --producer or --consumer"
                )
    if args.producer and not args.topic:
        raise UsageError("--producer needs --topic")
    if args.idempotent and not args.producer:
        raise UsageError("--idempotent goes with --producer")
    if args.consumer and (not args.topic or not args.group):
        raise UsageError("--consumer needs --topic and --group")
    _check_use(args)


def _check_use(args: argparse.Namespace) -> None:
    """Raises UsageError for options that would change nothing. Kafka's tool ignores them: with
    --remove --operation, for one, it removes every rule there is.
    """
    roles = [role for role in ("producer", "consumer") if getattr(args, role)]
    for option in (*_USED_BY, "cluster") if roles else ():
        if getattr(args, option) and not set(roles) & _USED_BY.get(option, set()):
            raise UsageError(
                f"--{option.replace('_', '-')} changes nothing with --{' and --'.join(roles)}:"
                " leave it out"
            )
    for verb in ("allow", "deny"):
        if getattr(args, f"{verb}_host") and not getattr(args, f"{verb}_principal"):
            raise UsageError(f"--{verb}-host needs --{verb}-principal")
    if args.operation and not args.allow_principal and not args.deny_principal:
        raise UsageError("--operation needs --allow-principal or --deny-principal")
    if args.cluster and args.resource_pattern_type is PatternType.PREFIXED:
        raise UsageError("--cluster has no name: it needs --resource-pattern-type literal")


def _add(args: argparse.Namespace) -> int:
    pattern_type: PatternType = args.resource_pattern_type
    if pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise UsageError(f"--resource-pattern-type {pattern_type.name} does not go with --add")
    for user in args.user_principal:
        if user != WILDCARD and not user.startswith(USER_PREFIX):
            raise UsageError(f"--user-principal must be {USER_PREFIX}NAME or *, not {user}")
    chosen = rules(args)
    if not all(chosen.values()):
        raise UsageError("--add needs --allow-principal or --deny-principal")
    for host in (*args.allow_host, *args.deny_host):
        if host.strip() != WILDCARD and not is_address(host.strip()):
            print(
                f"Warning: {one_line(host)} is not an IPv4 or IPv6 address: this rule matches no"
                " client.",
                file=sys.stderr,
            )
    with SocketClient.connect(servers_of(args), _CLIENT_ID) as client:
        for resource, entries in chosen.items():
            pattern = ResourcePattern(
                resource.resource_type, resource.name or "", resource.pattern_type
            )
            print(f"Adding ACLs for {_of(resource)}: \n{_lines(entries)} \n")
            create_acls(client, (AclBinding(pattern, entry) for entry in _sorted(entries)))
    return 0


def _remove(args: argparse.Namespace) -> int:
    chosen = rules(args)
    with SocketClient.connect(servers_of(args), _CLIENT_ID) as client:
        for resource, entries in chosen.items():
            filter_text = _of(resource).replace("resource ", "resource filter ", 1)
            question = (
                f"Are you sure you want to remove ACLs: \n{_lines(entries)} \n from {filter_text}?"
                if entries
                else f"Are you sure you want to delete all ACLs for {filter_text}?"
            )
            if not args.force and not _is_confirmed(question):
                continue
            filters = [resource._replace(**entry._asdict()) for entry in _sorted(entries)]
            delete_acls(client, filters or [resource])
    return 0


def _list(args: argparse.Namespace) -> int:
    with SocketClient.connect(servers_of(args), _CLIENT_ID) as client:
        found = _found(client, resources(args) or [AclFilter()])
    if args.principal:
        found = [each for each in found if each.entry.principal in args.principal]
    if args.json:
        print(json.dumps([_as_json(each) for each in found], indent=2))
    elif args.principal:
        for principal in args.principal:
            print(f"ACLs for principal `{one_line(principal)}`")
            _print_current([each for each in found if each.entry.principal == principal])
    else:
        _print_current(found)
    return 0


def _found(client: SocketClient, wanted: Iterable[AclFilter]) -> list[AclBinding]:
    return sorted({binding for each in wanted for binding in describe_acls(client, each)})


def _print_current(found: Iterable[AclBinding]) -> None:
    by_pattern: defaultdict[ResourcePattern, set[AclEntry]] = defaultdict(set)
    for pattern, entry in found:
        by_pattern[pattern].add(entry)
    for pattern, entries in by_pattern.items():
        print(f"Current ACLs for {_of(pattern)}: \n{_lines(entries)} \n")


def _is_confirmed(question: str) -> bool:
    print(f"{question} (y/n)", flush=True)
    return sys.stdin.readline().strip().lower() == "y"


# -- words, as Kafka's tool prints them ------------------------------------------------------------


def _of(resource: ResourcePattern | AclFilter) -> str:
    name = "<any>" if resource.name is None else one_line(resource.name)
    return (
        f"resource `ResourcePattern(resourceType={resource.resource_type.name}, name={name},"
        f" patternType={resource.pattern_type.name})`"
    )


def _lines(entries: Iterable[AclEntry]) -> str:
    return " " + "\n".join(
        f"\t(principal={one_line(entry.principal)}, host={one_line(entry.host)},"
        f" operation={entry.operation.name}, permissionType={entry.permission.name})"
        for entry in _sorted(entries)
    )


def _sorted(entries: Iterable[AclEntry]) -> list[AclEntry]:
    return sorted(entries)


def _as_json(binding: AclBinding) -> dict[str, Any]:
    pattern, entry = binding
    return {
        "resource_type": pattern.resource_type.name,
        "name": pattern.name,
        "pattern_type": pattern.pattern_type.name,
        "principal": entry.principal,
        "host": entry.host,
        "operation": entry.operation.name,
        "permission": entry.permission.name,
    }


# -- values of options -----------------------------------------------------------------------------


def _principal(text: str) -> str:
    if not text.startswith(USER_PREFIX) or text == USER_PREFIX:
        raise argparse.ArgumentTypeError(f"must be {USER_PREFIX}NAME, not {text}")
    return text


def _operation(text: str) -> AclOperation:
    try:
        operation = AclOperation.of_label(text)
    except ValueError:
        operation = AclOperation.UNKNOWN
    if operation in (AclOperation.UNKNOWN, AclOperation.ANY):
        raise argparse.ArgumentTypeError(f"there is no operation {text}")
    return operation


def _pattern_type(text: str) -> PatternType:
    try:
        kind = PatternType.of_label(text)
    except ValueError:
        kind = PatternType.UNKNOWN
    if kind is PatternType.UNKNOWN:
        raise argparse.ArgumentTypeError(f"must be literal, prefixed, match or any, not {text}")
    return kind
