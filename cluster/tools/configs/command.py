"""`configs`: settings of topics, brokers, groups, client metrics, levels of loggers, quotas, as
Kafka's tool.
"""

import json
import sys
from typing import TYPE_CHECKING

from cluster.client.admin import Admin
from cluster.client.config_requests import names_with_configs
from cluster.client.consumer_group_requests import list_groups
from cluster.client.quota_requests import describe_quotas
from cluster.client.refusals import reason_of
from cluster.client.socket_client import SocketClient
from cluster.model.errors import ErrorCode, Refused, UserError
from cluster.model.printable import one_line
from cluster.model.quotas import ALL_RULES, DEFAULT
from cluster.quotas.alteration import parts_of
from cluster.tools.arguments import UsageError, add_command
from cluster.tools.configs.changes import add_changes, alter, changes
from cluster.tools.configs.entities import Entity, add_entities, entities, quota_filter
from cluster.tools.configs.listing import (
    DEFAULT_NAME,
    ConfigEntry,
    lines,
    quota_line,
    selected,
)
from cluster.tools.configs.remarks import entries_of
from cluster.tools.configs.scram import scram_line, users_of
from cluster.tools.kafka_connection import add_servers, admin_of, servers_of
from cluster.tools.missing_rights import right_hint

if TYPE_CHECKING:
    import argparse

    from cluster.tools.arguments import Subparsers

_CLIENT_ID = "milena-configs"


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `configs` and its options to `subparsers`."""
    parser = add_command(
        subparsers,
        "configs",
        "configs describe --topic orders",
        "configs --describe --entity-type topics --entity-name orders",
        "configs --describe --entity-type brokers --entity-name 0 --all",
        "configs --alter --add-config min.insync.replicas=2 --topic orders",
        "configs --alter --add-config log.retention.ms=3600000 --broker-defaults",
        "configs --alter --add-config producer_byte_rate=1048576 --client loader-1",
        "configs --describe --entity-type users --entity-type clients",
        "configs --alter --client-metrics basic --add-config 'metrics=*,interval.ms=10000'",
    )
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--describe", action="store_true", help="print settings")
    action.add_argument("--alter", action="store_true", help="change settings")
    parser.accept_words(("describe", "alter"))
    add_entities(parser)
    add_changes(parser)
    parser.add_argument("--all", action="store_true", help="also what is not set for it alone")
    parser.add_argument("--json", action="store_true", help="one object, for scripts")
    add_servers(parser)


def run(args: "argparse.Namespace") -> int:
    """Print or change the settings of the named entities. Returns the exit status."""
    found = entities(args)
    if args.alter:
        return _alter(args, found)
    if args.add_config or args.add_config_file or args.delete_config:
        raise UsageError("--add-config and --delete-config go with --alter")
    if found[0].is_of_quotas:
        return _describe_quotas(args, found)
    return _describe(args, found[0])


def _alter(args: "argparse.Namespace", found: list[Entity]) -> int:
    added, deleted = changes(args)
    with SocketClient.connect(servers_of(args), _CLIENT_ID) as client:
        try:
            print(alter(client, found, added, deleted))
        except Refused as refused:
            return _failed(f"{refused.reason}{_hint(refused, args, found)}")
    return 0


def _describe_quotas(args: "argparse.Namespace", found: list[Entity]) -> int:
    with SocketClient.connect(servers_of(args), _CLIENT_ID) as client:
        try:
            quotas = describe_quotas(client, quota_filter(found), strict=True)
            users = users_of(client, found)
        except Refused as refused:
            return _failed(f"{refused.reason}{_hint(refused, args, found)}")
    ordered = sorted(quotas.items(), key=lambda item: (ALL_RULES.index(item[0].rule), str(item[0])))
    if args.json:
        objects = [
            {"entity": dict(parts_of(entity)), "quotas": limits} for entity, limits in ordered
        ]
        objects += [
            {"entity": {"user": user}, "scram": {key.value: count for key, count in ways.items()}}
            for user, ways in sorted(users.items())
        ]
        print(json.dumps(objects, indent=2))
        return 0
    for entity, limits in ordered:
        print(quota_line(parts_of(entity), limits))
    for user, ways in sorted(users.items()):
        print(scram_line(user, ways))
    return 0


def _describe(args: "argparse.Namespace", entity: Entity) -> int:
    with admin_of(args, _CLIENT_ID) as admin:
        try:
            found = _found(admin, args, entity)
        except Refused as refused:
            return _failed(f"{reason_of(refused)}{_hint(refused, args, [entity])}")
    chosen = {
        name: selected(entity.type, name, entries, every=args.all)
        for name, entries in found.items()
    }
    if args.json:
        objects = {
            name or "<default>": [entry.as_json() for entry in entries]
            for name, entries in chosen.items()
        }
        print(json.dumps(objects, indent=2))
        return 0
    for name, entries in chosen.items():
        for line in lines(entity.type, name, entries, every=args.all):
            print(line)
    return 0


def _hint(refused: Refused, args: "argparse.Namespace", found: list[Entity]) -> str:
    names = [each.name for each in found if isinstance(each.name, str)]
    return right_hint(refused.code, args, names)


def _failed(message: str) -> int:
    print(f"Error while executing config command : {message}", file=sys.stderr)
    return 1


def _found(
    admin: Admin, args: "argparse.Namespace", entity: Entity
) -> dict[str, list[ConfigEntry]]:
    """The settings of each chosen entity, by its name. Raises Refused and UserError."""
    name = None if entity.name is None or entity.name is DEFAULT else str(entity.name)
    found: dict[str, list[ConfigEntry]] = {}
    if entity.type == "groups":
        return _of_groups(admin, name, every=args.all)
    if entity.type == "client-metrics":
        known = sorted(_with_configs(admin, entity.type))
        chosen = _chosen("client-metric", name, known)
        return {each: _of_any(admin, entity.type, each) for each in chosen}
    if entity.type == "broker-loggers":
        return {str(name): _of_broker(admin, entity.type, str(name))}
    if entity.name is not DEFAULT:
        found = _of_topics(admin, name) if entity.type == "topics" else _of_brokers(admin, name)
    if entity.type == "brokers" and name is None:
        found[DEFAULT_NAME] = admin.any_broker(
            lambda client: entries_of(client, "brokers", DEFAULT_NAME)
        )
    return found


def _of_groups(admin: Admin, name: str | None, *, every: bool) -> dict[str, list[ConfigEntry]]:
    """The settings of a group, or of each, by group id."""
    known = {*_with_configs(admin, "groups")}
    if name is None or (name not in known and not every):
        known |= {each.group_id for each in list_groups(admin)}
    if name is not None and name not in known and not every:
        raise UserError(
            f"The group '{one_line(name)}' doesn't exist and doesn't have dynamic config."
        )
    names = sorted(known) if name is None else [name]
    return {each: _of_any(admin, "groups", each) for each in names}


def _with_configs(admin: Admin, entity_type: str) -> list[str]:
    return admin.any_broker(lambda client: names_with_configs(client, entity_type))


def _of_topics(admin: Admin, name: str | None) -> dict[str, list[ConfigEntry]]:
    found = {}
    for topic in _chosen("topic", name, [each.name for each in admin.facts().topics]):
        try:
            found[topic] = _of_any(admin, "topics", topic)
        except Refused as refused:
            if refused.code is not ErrorCode.unknown_topic_or_partition:  # deleted meanwhile
                raise
    return found


def _of_brokers(admin: Admin, name: str | None) -> dict[str, list[ConfigEntry]]:
    known = [str(number) for number in sorted(admin.facts().brokers)]
    return {
        number: _of_broker(admin, "brokers", number) for number in _chosen("broker", name, known)
    }


def _chosen(kind: str, name: str | None, known: list[str]) -> list[str]:
    """The entity of that name, or all. Raises UserError for one that is not known."""
    if name is None:
        return known
    if name not in known:
        raise UserError(f"The {kind} '{name}' doesn't exist and doesn't have dynamic config.")
    return [name]


def _of_any(admin: Admin, entity_type: str, name: str) -> list[ConfigEntry]:
    return admin.any_broker(lambda client: entries_of(client, entity_type, name))


def _of_broker(admin: Admin, entity_type: str, name: str) -> list[ConfigEntry]:
    """What only that broker knows."""
    if name not in map(str, admin.facts().brokers):
        raise UserError(f"The broker '{name}' doesn't exist.")
    return admin.broker(int(name), lambda client: entries_of(client, entity_type, name))
