"""`topics`: create, list, describe, alter and delete, with the flags and output of Kafka's tool."""

import argparse
import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from cluster.model.printable import one_line
from cluster.runtime.whole_numbers import at_least_one
from cluster.tools.arguments import UsageError, add_command
from cluster.tools.kafka_connection import add_connection, connect, explained, servers_of
from cluster.tools.options import key_value
from cluster.tools.topics import requests as topic_requests
from cluster.tools.topics.choice import chosen_topics, may_collide, replica_assignment
from cluster.tools.topics.description import Chosen

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from cluster.tools.arguments import Subparsers

COLLISION_WARNING: Final = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_')"
    " could collide. To avoid issues it is best to use either, but not both."
)

_ACTIONS_OF: Final = {
    "partitions": ("create", "alter"),
    "replication_factor": ("create",),
    "replica_assignment": ("create", "alter"),
    "config": ("create",),
    "if_not_exists": ("create",),
    "if_exists": ("describe", "alter", "delete"),
    "exclude_internal": ("list", "describe", "alter", "delete"),
    "under_replicated_partitions": ("describe",),
    "unavailable_partitions": ("describe",),
    "under_min_isr_partitions": ("describe",),
    "at_min_isr_partitions": ("describe",),
    "topics_with_overrides": ("describe",),
    "json": ("list", "describe"),
}
"""Options by the actions that use them; with another action they are wrong usage."""


_PARTITION_FILTERS: Final = (
    "under_replicated_partitions",
    "unavailable_partitions",
    "under_min_isr_partitions",
    "at_min_isr_partitions",
)


class TopicMissing(Exception):
    """`--topic` matches no existing topic."""

    def __init__(self, pattern: str) -> None:
        super().__init__(f"Topic '{pattern}' does not exist as expected")


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `topics` and its options to `subparsers`."""
    parser = add_command(
        subparsers,
        "topics",
        "topics --create --topic orders --partitions 3 --replication-factor 3",
        "topics --create --topic audit --config min.insync.replicas=2",
        "topics --describe --topic orders",
        "topics --alter --topic orders --partitions 6",
    )
    actions = parser.add_mutually_exclusive_group(required=True)
    for name, what in (
        ("create", "create a topic"),
        ("list", "print the names of topics"),
        ("describe", "print topics, their partitions, leaders and replicas"),
        ("alter", "give topics more partitions"),
        ("delete", "delete topics and their records"),
    ):
        actions.add_argument(
            f"--{name}", dest="action", action="store_const", const=name, help=what
        )
    parser.add_argument(
        "--topic", metavar="T", help="a name; without --create also a list or a regular expression"
    )
    for option in ("--partitions", "--replication-factor"):
        parser.add_argument(
            option, type=at_least_one, metavar="N", help="(default: as the brokers are configured)"
        )
    parser.add_argument(
        "--replica-assignment",
        metavar="0:1,1:2",
        help="the brokers of each partition, leader first",
    )
    parser.add_argument(
        "--config",
        action="append",
        type=key_value,
        metavar="KEY=VALUE",
        help="one setting of the new topic; may be repeated",
    )
    for option, what in (
        ("--if-not-exists", "do nothing if the topic is there"),
        ("--if-exists", "do nothing if the topic is missing"),
        ("--exclude-internal", "leave out topics that the brokers mark as internal"),
        ("--under-replicated-partitions", "only partitions that miss in-sync replicas"),
        ("--unavailable-partitions", "only partitions without a leader"),
        (
            "--under-min-isr-partitions",
            "only partitions with fewer in-sync replicas than min.insync.replicas",
        ),
        ("--at-min-isr-partitions", "only partitions with just so many in-sync replicas"),
        ("--topics-with-overrides", "only topics with settings of their own, without partitions"),
        ("--json", "a list, for scripts"),
    ):
        parser.add_argument(option, action="store_true", help=what)
    add_connection(parser)


def run(args: argparse.Namespace) -> int:
    """Carry out the action; print a refusal as Kafka's tool does. Returns the exit status."""
    replicas = _checked(args)
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    client = connect(AdminClient, args, "milena-topics")
    try:
        _ACTIONS[args.action](client, args, replicas)
    except TopicMissing as missing:
        return _complain(str(missing))
    except KafkaException as refusal:
        return _complain(explained(refusal.args[0]))
    return 0


Replicas = list[list[int]] | None
"""The value of `--replica-assignment`: each partition's replicas. None without the option."""


def _create(client: "AdminClient", args: argparse.Namespace, replicas: Replicas) -> None:
    from confluent_kafka import KafkaError, KafkaException

    if may_collide(args.topic):
        print(COLLISION_WARNING)
    try:
        topic_requests.create_topic(
            client,
            args.topic,
            partitions=args.partitions,
            replication_factor=args.replication_factor,
            replicas=replicas,
            configs=dict(args.config or ()),
        )
    except ValueError as problem:
        raise UsageError(str(problem)) from None
    except KafkaException as refusal:
        exists = refusal.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
        if not (exists and args.if_not_exists):
            raise
    else:
        print(f"Created topic {args.topic}.")
        if args.config:
            from cluster.tools.configs.remarks import warn_of_new_topic

            warn_of_new_topic(servers_of(args), args.topic, dict(args.config))


def _list(client: "AdminClient", args: argparse.Namespace, _replicas: Replicas) -> None:
    names = chosen_topics(
        args.topic, topic_requests.partition_counts(client, exclude_internal=args.exclude_internal)
    )
    if args.json:
        print(json.dumps(names))
        return
    for name in names:
        print(one_line(name))


def _describe(client: "AdminClient", args: argparse.Namespace, _replicas: Replicas) -> None:
    topics = topic_requests.describe_topics(client, list(_existing(client, args)))
    wanted = Chosen(
        under_replicated=args.under_replicated_partitions,
        unavailable=args.unavailable_partitions,
        under_min_isr=args.under_min_isr_partitions,
        at_min_isr=args.at_min_isr_partitions,
    )
    is_filtered = any(wanted)
    if args.topics_with_overrides:
        topics = [topic for topic in topics if topic.configs]
    found = [
        (topic, topic.chosen_partitions(wanted) if is_filtered else topic.partitions)
        for topic in topics
    ]
    if args.json:
        shown = [topic.as_json(partitions) for topic, partitions in found if partitions]
        print(json.dumps(shown, indent=2))
        return
    for topic, partitions in found:
        if not is_filtered:
            print(topic.header())
        if args.topics_with_overrides:
            continue
        for partition in partitions:
            print(partition.line(topic.name))


def _alter(client: "AdminClient", args: argparse.Namespace, replicas: Replicas) -> None:
    for name, count in _existing(client, args).items():
        # The option lists all partitions, the request only the new ones.
        new = None if replicas is None else replicas[count:]
        topic_requests.add_partitions(client, name, args.partitions, new)


def _delete(client: "AdminClient", args: argparse.Namespace, _replicas: Replicas) -> None:
    for name in _existing(client, args):
        topic_requests.delete_topic(client, name)


_ACTIONS: Final[dict[str, Callable[["AdminClient", argparse.Namespace, Replicas], None]]] = {
    "create": _create,
    "list": _list,
    "describe": _describe,
    "alter": _alter,
    "delete": _delete,
}


def _existing(client: "AdminClient", args: argparse.Namespace) -> dict[str, int]:
    """The topics that `--topic` matches, with their partition counts. Raises TopicMissing."""
    counts = topic_requests.partition_counts(client, exclude_internal=args.exclude_internal)
    names = chosen_topics(args.topic, counts)
    if not names and args.topic is not None and not args.if_exists:
        raise TopicMissing(args.topic)
    return {name: counts[name] for name in names}


def _checked(args: argparse.Namespace) -> Replicas:
    """Check that the options fit together; returns `--replica-assignment`. Raises UsageError."""
    for option, actions in _ACTIONS_OF.items():
        if getattr(args, option) and args.action not in actions:
            raise UsageError(f"--{_spelled(option)} does not go with --{args.action}")
    for option in _PARTITION_FILTERS:
        if args.topics_with_overrides and getattr(args, option):
            raise UsageError(f"--topics-with-overrides does not go with --{_spelled(option)}")
    if args.topic is None and args.action in ("create", "alter", "delete"):
        raise UsageError(f"--{args.action} needs --topic")
    if args.action == "alter" and args.partitions is None:
        raise UsageError("--alter needs --partitions")
    if args.replica_assignment is None:
        return None
    replicas = replica_assignment(args.replica_assignment)
    if args.action == "create" and (args.partitions or args.replication_factor):
        raise UsageError(
            "--replica-assignment does not go with --partitions or --replication-factor"
        )
    if args.action == "alter" and len(replicas) != args.partitions:
        raise UsageError("--replica-assignment must list every partition, also those there are")
    return replicas


def _complain(message: str) -> int:
    print(f"Error while executing topic command : {message}", file=sys.stderr)
    return 1


def _spelled(option: str) -> str:
    return option.replace("_", "-")
