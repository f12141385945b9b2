"""`configs`: settings of topics, brokers, groups, levels of loggers, quotas, as Kafka's tool."""

import json
import sys
from typing import TYPE_CHECKING

from cluster.client.config_requests import groups_with_configs
from cluster.client.consumer_group_requests import list_groups
from cluster.client.quota_requests import describe_quotas
from cluster.client.security import ClientSecurity, Servers
from cluster.client.socket_client import SocketClient
from cluster.model.errors import Refused, UserError
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
from cluster.tools.configs.remarks import completed, connected_to, entries_of
from cluster.tools.configs.requests import broker_configs, topic_configs
from cluster.tools.configs.scram import scram_line, users_of
from cluster.tools.kafka_connection import (
    REQUEST_TIMEOUT_S,
    add_connection,
    connect,
    explained,
    security_of,
    servers_of,
)

if TYPE_CHECKING:
    import argparse

    from confluent_kafka.admin import AdminClient

    from cluster.tools.arguments import Subparsers

_CLIENT_ID = "milena-configs"


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `configs` and its options to `subparsers`."""
    parser = add_command(
        subparsers,
        "configs",
        "configs --describe --entity-type topics --entity-name orders",
        "configs --describe --entity-type brokers --entity-name 0 --all",
        "configs --alter --add-config min.insync.replicas=2 --topic orders",
        "configs --alter --add-config log.retention.ms=3600000 --broker-defaults",
        "configs --alter --add-config producer_byte_rate=1048576 --client loader-1",
        "configs --describe --entity-type users --entity-type clients",
    )
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--describe", action="store_true", help="print settings")
    action.add_argument("--alter", action="store_true", help="change settings")
    add_entities(parser)
    add_changes(parser)
    parser.add_argument("--all", action="store_true", help="also what is not set for it alone")
    parser.add_argument("--json", action="store_true", help="one object, for scripts")
    add_connection(parser)


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
            return _failed(refused.reason)
    return 0


def _describe_quotas(args: "argparse.Namespace", found: list[Entity]) -> int:
    with SocketClient.connect(servers_of(args), _CLIENT_ID) as client:
        try:
            quotas = describe_quotas(client, quota_filter(found), strict=True)
            users = users_of(client, found)
        except Refused as refused:
            return _failed(refused.reason)
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
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    found: dict[str, list[ConfigEntry]] = {}
    try:
        if entity.type == "broker-loggers":
            found[str(entity.name)] = _loggers(args, str(entity.name))
        elif entity.type == "groups":
            found |= _of_groups(args, entity.name and str(entity.name))
        elif entity.name is not DEFAULT:
            client = connect(AdminClient, args, _CLIENT_ID)
            found |= _found(
                client, security_of(args), entity.type, entity.name and str(entity.name)
            )
        if entity.type == "brokers" and (entity.name is DEFAULT or entity.name is None):
            with SocketClient.connect(servers_of(args), _CLIENT_ID) as own:
                found[DEFAULT_NAME] = entries_of(own, entity.type, DEFAULT_NAME)
    except KafkaException as refusal:
        return _failed(explained(refusal.args[0]))
    except Refused as refused:
        return _failed(refused.reason)
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


def _loggers(args: "argparse.Namespace", broker: str) -> list[ConfigEntry]:
    with (
        SocketClient.connect(servers_of(args), _CLIENT_ID) as any_client,
        connected_to(any_client, broker, _CLIENT_ID) as client,
    ):
        return entries_of(client, "broker-loggers", broker)


def _failed(message: str) -> int:
    print(f"Error while executing config command : {message}", file=sys.stderr)
    return 1


def _of_groups(args: "argparse.Namespace", name: str | None) -> dict[str, list[ConfigEntry]]:
    """The settings of a group, or of each, by group id. Raises Refused and UserError."""
    servers = servers_of(args)
    with SocketClient.connect(servers, _CLIENT_ID) as client:
        known = {*groups_with_configs(client)}
        if name is None or (name not in known and not args.all):
            known |= {each.group_id for each in list_groups(servers, _CLIENT_ID)}
        if name is not None and name not in known and not args.all:
            raise UserError(
                f"The group '{one_line(name)}' doesn't exist and doesn't have dynamic config."
            )
        names = sorted(known) if name is None else [name]
        return {each: entries_of(client, "groups", each) for each in names}


def _found(
    client: "AdminClient", security: ClientSecurity, entity_type: str, name: str | None
) -> dict[str, list[ConfigEntry]]:
    """The settings of each entity by its name. Raises KafkaException, and UserError without any."""
    metadata = client.list_topics(timeout=REQUEST_TIMEOUT_S)
    brokers = {str(each.id): (str(each.host), each.port) for each in metadata.brokers.values()}
    known = sorted(metadata.topics) if entity_type == "topics" else sorted(brokers, key=int)
    if name is not None and name not in known:
        raise UserError(
            f"The {entity_type.removesuffix('s')} '{name}' doesn't exist"
            " and doesn't have dynamic config."
        )
    names = known if name is None else [name]
    if entity_type == "topics":
        return completed(
            Servers([*brokers.values()], security), "topics", topic_configs(client, names)
        )
    found: dict[str, list[ConfigEntry]] = {}
    for broker_id in names:
        entries = {broker_id: broker_configs(client, broker_id)}
        found |= completed(Servers([brokers[broker_id]], security), "brokers", entries)
    return found
