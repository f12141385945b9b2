"""`configs --describe`: the settings of topics and brokers, in the layout of Kafka's tool."""

import json
import sys
from typing import TYPE_CHECKING

from cluster.model.errors import UserError
from cluster.tools.arguments import UsageError, add_command
from cluster.tools.config_listing import ConfigEntry, lines, selected
from cluster.tools.config_requests import broker_configs, topic_configs
from cluster.tools.kafka_connection import REQUEST_TIMEOUT_S, add_connection, connect, explained

if TYPE_CHECKING:
    import argparse

    from confluent_kafka.admin import AdminClient

    from cluster.tools.arguments import Subparsers


def add_parser(subparsers: "Subparsers") -> None:
    """Declare the options."""
    parser = add_command(
        subparsers,
        "configs",
        "configs --describe --entity-type topics --entity-name orders",
        "configs --describe --entity-type topics --entity-name orders --all",
        "configs --describe --entity-type brokers --entity-name 0 --all",
    )
    parser.add_argument("--describe", action="store_true", required=True, help="print settings")
    entity = parser.add_mutually_exclusive_group(required=True)
    entity.add_argument("--entity-type", choices=("topics", "brokers"), help="whose settings")
    entity.add_argument("--topic", metavar="T", help="short for --entity-type topics, and its name")
    entity.add_argument("--broker", metavar="ID", help="the same for a broker")
    parser.add_argument(
        "--entity-name", metavar="X", help="a topic or a broker's number (default: each of them)"
    )
    parser.add_argument("--all", action="store_true", help="also what is not set for it alone")
    parser.add_argument("--json", action="store_true", help="one object, for scripts")
    add_connection(parser)


def run(args: "argparse.Namespace") -> int:
    """Print the settings of what was named, or of everything of that type."""
    entity_type, name = _entity(args)
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    client = connect(AdminClient, args, "milena-configs")
    try:
        found = _found(client, entity_type, name)
    except KafkaException as refusal:
        message = explained(refusal.args[0])
        print(f"Error while executing config command : {message}", file=sys.stderr)
        return 1
    chosen = {
        name: selected(entity_type, entries, every=args.all) for name, entries in found.items()
    }
    if args.json:
        objects = {name: [entry.as_json() for entry in entries] for name, entries in chosen.items()}
        print(json.dumps(objects, indent=2))
        return 0
    for name, entries in chosen.items():
        for line in lines(entity_type, name, entries, every=args.all):
            print(line)
    return 0


def _entity(args: "argparse.Namespace") -> tuple[str, str | None]:
    short: str | None = args.broker if args.topic is None else args.topic
    if short is None:
        return args.entity_type, args.entity_name
    if args.entity_name is not None:
        raise UsageError("--entity-name goes with --entity-type")
    return "brokers" if args.topic is None else "topics", short


def _found(
    client: "AdminClient", entity_type: str, name: str | None
) -> dict[str, list[ConfigEntry]]:
    """The settings of each entity by its name. Raises KafkaException, and UserError without any."""
    metadata = client.list_topics(timeout=REQUEST_TIMEOUT_S)
    if entity_type == "topics":
        known = sorted(metadata.topics)
    else:
        known = [str(broker_id) for broker_id in sorted(metadata.brokers)]
    if name is not None and name not in known:
        raise UserError(
            f"The {entity_type.removesuffix('s')} '{name}' doesn't exist"
            " and doesn't have dynamic config."
        )
    names = known if name is None else [name]
    if entity_type == "topics":
        return topic_configs(client, names)
    return {broker_id: broker_configs(client, broker_id) for broker_id in names}
