"""`topics`: create, list, describe, alter and delete, with the flags and output of Kafka's tool."""

import argparse
import json
import struct
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from cluster.client import topic_requests
from cluster.client.admin import Admin
from cluster.client.refusals import reason_of
from cluster.model.errors import ErrorCode, Refused
from cluster.model.printable import one_line
from cluster.runtime.whole_numbers import at_least_one
from cluster.tools.arguments import UsageError, add_command
from cluster.tools.kafka_connection import add_servers, admin_of
from cluster.tools.missing_rights import right_hint
from cluster.tools.options import key_value
from cluster.tools.topics.choice import chosen_topics, may_collide, replica_assignment
from cluster.tools.topics.description import Chosen
from cluster.tools.topics.requests import describe_topics

if TYPE_CHECKING:
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
        "topics create orders --partitions 3",
        "topics --create --topic orders --partitions 3 --replication-factor 3",
        "topics --create --topic audit --config min.insync.replicas=2",
        "topics describe orders",
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
    parser.accept_words(_ACTIONS, name="--topic")
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
    add_servers(parser)


def run(args: argparse.Namespace) -> int:
    """Carry out the action; print a refusal as Kafka's tool does. Returns the exit status."""
    replicas = _checked(args)
    with admin_of(args, "milena-topics") as admin:
        try:
            _ACTIONS[args.action](admin, args, replicas)
        except TopicMissing as missing:
            return _complain(str(missing))
        except Refused as refused:
            return _complain(f"{reason_of(refused)}{right_hint(refused.code, args)}")
    return 0


Replicas = list[list[int]] | None
"""The value of `--replica-assignment`: each partition's replicas. None without the option."""


def _create(admin: Admin, args: argparse.Namespace, replicas: Replicas) -> None:
    if may_collide(args.topic):
        print(COLLISION_WARNING)
    try:
        admin.controller(
            lambda client: topic_requests.create_topic(
                client,
                args.topic,
                partitions=args.partitions,
                replication_factor=args.replication_factor,
                replicas=replicas,
                configs=dict(args.config or ()),
            )
        )
    except struct.error:
        raise UsageError("a number of partitions, replicas or a broker is too large") from None
    except Refused as refused:
        exists = refused.code is ErrorCode.topic_already_exists
        if not (exists and args.if_not_exists):
            raise
    else:
        print(f"Created topic {args.topic}.")
        if args.config:
            from cluster.tools.configs.remarks import warn_of_configs

            admin.any_broker(
                lambda client: warn_of_configs(client, "topics", args.topic, dict(args.config))
            )


def _list(admin: Admin, args: argparse.Namespace, _replicas: Replicas) -> None:
    counts = admin.facts().partition_counts(exclude_internal=args.exclude_internal)
    names = chosen_topics(args.topic, counts)
    if args.json:
        print(json.dumps(names))
        return
    for name in names:
        print(one_line(name))


def _describe(admin: Admin, args: argparse.Namespace, _replicas: Replicas) -> None:
    topics = describe_topics(admin, list(_existing(admin, args)))
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


def _alter(admin: Admin, args: argparse.Namespace, replicas: Replicas) -> None:
    for name, count in _existing(admin, args).items():
        # The option lists all partitions, the request only the new ones.
        new = None if replicas is None else replicas[count:]
        ask = partial(topic_requests.add_partitions, name=name, count=args.partitions, replicas=new)
        admin.controller(ask)


def _delete(admin: Admin, args: argparse.Namespace, _replicas: Replicas) -> None:
    for name in _existing(admin, args):
        admin.controller(partial(topic_requests.delete_topic, name=name))


_ACTIONS: Final[dict[str, Callable[[Admin, argparse.Namespace, Replicas], None]]] = {
    "create": _create,
    "list": _list,
    "describe": _describe,
    "alter": _alter,
    "delete": _delete,
}


def _existing(admin: Admin, args: argparse.Namespace) -> dict[str, int]:
    """The topics that `--topic` matches, with their partition counts. Raises TopicMissing."""
    counts = admin.facts().partition_counts(exclude_internal=args.exclude_internal)
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
