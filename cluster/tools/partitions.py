"""`partitions elect-leaders`: kafka-leader-election's options, its file and its output."""

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cluster.model.errors import UserError
from cluster.model.printable import one_line
from cluster.runtime.whole_numbers import not_negative
from cluster.tools.arguments import UsageError, add_command, add_parser_of
from cluster.tools.commands import Command
from cluster.tools.kafka_connection import (
    POLL_S,
    REQUEST_TIMEOUT_S,
    add_connection,
    connect,
    explained,
)
from cluster.tools.options import WeakerProperties

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient

    from cluster.tools.arguments import Subparsers

Partition = tuple[str, int]
Elected = dict[Partition, "KafkaError | None"]

ELECT_LEADERS: Final = Command(
    "elect-leaders", "partitions", "have preferred replicas lead, or any where none in sync is left"
)
_INT32_MAX: Final = 2**31 - 1


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `partitions` and its sub-command to `subparsers`."""
    parser = add_command(
        subparsers,
        "partitions",
        "partitions elect-leaders --election-type preferred --all-topic-partitions",
    )
    actions = parser.add_subparsers(
        title="sub-commands", metavar="SUB-COMMAND", dest="partitions_command", required=True
    )
    _add_elect_leaders(actions)


def _add_elect_leaders(subparsers: "Subparsers") -> None:
    parser = add_parser_of(
        subparsers,
        ELECT_LEADERS,
        "partitions elect-leaders --election-type preferred --all-topic-partitions",
        "partitions elect-leaders --election-type unclean --topic orders --partition 0",
        "partitions elect-leaders --election-type preferred --path-to-json-file partitions.json",
    )
    parser.add_argument(
        "--election-type",
        type=lambda text: text.strip().lower(),
        choices=("preferred", "unclean"),
        required=True,
        help="preferred: the first replica of the assignment leads, if it is in sync; unclean: a"
        " partition without leader gets one, if need be one that lacks acknowledged records",
    )
    parser.add_argument("--topic", metavar="T", help="of the one partition")
    parser.add_argument("--partition", type=not_negative, metavar="N", help="its number")
    parser.add_argument(
        "--all-topic-partitions",
        action="store_true",
        help="every partition of every topic that needs an election",
    )
    parser.add_argument(
        "--path-to-json-file",
        type=Path,
        metavar="FILE",
        help='{"partitions": [{"topic": "orders", "partition": 0}]}',
    )
    add_connection(parser)
    parser.add_argument(
        "--admin.config",
        dest="command_properties",
        action=WeakerProperties,
        metavar="FILE",
        help="the older name of --command-config",
    )


def run(args: argparse.Namespace) -> int:
    """Elect, and print what was done, as Kafka's tool does; 1 where an election failed."""
    partitions = _asked(args)
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    # confluent-kafka 2.16 raises SystemError where `elect_leaders` itself is given a timeout.
    timeout = {"socket.timeout.ms": int(REQUEST_TIMEOUT_S * 1_000)}
    client = connect(AdminClient, args, "milena-partitions", timeout)
    try:
        elected = _elect(client, args.election_type, partitions)
    except KafkaException as refusal:
        raise UserError(f"no election: {explained(refusal.args[0])}") from None
    return _print(args.election_type, elected)


def _elect(
    client: "AdminClient", election_type: str, partitions: Sequence[Partition] | None
) -> Elected:
    """The outcome by partition, asked for again while the controller changes.

    Raises KafkaException where the request as a whole is refused.
    """
    from confluent_kafka import ElectionType, KafkaError, KafkaException, TopicPartition

    asked = None if partitions is None else [TopicPartition(*each) for each in partitions]
    deadline = time.monotonic() + REQUEST_TIMEOUT_S
    while True:
        try:
            outcomes = client.elect_leaders(
                ElectionType[election_type.upper()],
                asked,
            ).result()
        except KafkaException as refusal:
            has_moved = refusal.args[0].code() == KafkaError.NOT_CONTROLLER
            if not has_moved or time.monotonic() > deadline:
                raise
        else:
            elected: Elected = {
                (each.topic, each.partition): _error_of(problem)
                for each, problem in outcomes.items()
            }
            has_moved = any(
                problem is not None and problem.code() == KafkaError.NOT_CONTROLLER
                for problem in elected.values()
            )
            if not has_moved or time.monotonic() > deadline:
                return elected
        time.sleep(POLL_S)
        client.list_topics(timeout=REQUEST_TIMEOUT_S)  # lets the client find the new controller


def _error_of(problem: object) -> "KafkaError | None":
    """confluent-kafka announces exceptions and gives the errors themselves."""
    from confluent_kafka import KafkaError, KafkaException

    found = problem.args[0] if isinstance(problem, KafkaException) else problem
    return found if isinstance(found, KafkaError) else None


def _print(election_type: str, elected: Elected) -> int:
    from confluent_kafka import KafkaError

    name = election_type.upper()
    done, needless, failed = [], [], []
    for (topic, number), problem in sorted(elected.items()):
        partition = one_line(f"{topic}-{number}")
        if problem is None:
            done.append(partition)
        elif problem.code() == KafkaError.ELECTION_NOT_NEEDED:
            needless.append(partition)
        else:
            failed.append((partition, one_line(explained(problem))))
    if done:
        print(f"Successfully completed leader election ({name}) for partitions {', '.join(done)}")
    if needless:
        print(f"Valid replica already elected for partitions {', '.join(needless)}")
    for partition, reason in failed:
        print(f"Error completing leader election ({name}) for partition: {partition}: {reason}")
    if failed:
        raise UserError(f"{len(failed)} replica(s) could not be elected")
    return 0


def _asked(args: argparse.Namespace) -> list[Partition] | None:
    """The partitions that the options name; None for all. Raises UsageError and UserError."""
    ways = [args.topic is not None, args.all_topic_partitions, args.path_to_json_file is not None]
    if sum(ways) != 1:
        raise UsageError(
            "takes exactly one of --topic with --partition, --all-topic-partitions and"
            " --path-to-json-file"
        )
    if (args.topic is None) != (args.partition is None):
        raise UsageError("--topic and --partition go together")
    if args.path_to_json_file is not None:
        return read_partitions(args.path_to_json_file)
    if args.all_topic_partitions:
        return None
    _check(args.topic, args.partition, "the options")
    return [(args.topic, args.partition)]


def read_partitions(path: Path) -> list[Partition]:
    """The partitions of a file as kafka-leader-election takes it. Raises UserError."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except OSError as problem:
        raise UserError(f"cannot read {path}: {problem.strerror}") from None
    except (ValueError, RecursionError) as problem:
        raise UserError(f"{path} is no JSON: {problem}") from None
    if not isinstance(content, Mapping) or not isinstance(content.get("partitions"), list):
        raise UserError(f"{path}: a list `partitions` is missing")
    partitions: list[Partition] = []
    for at, row in enumerate(content["partitions"]):
        where = f"{path}: partitions[{at}]"
        if not isinstance(row, Mapping):
            raise UserError(f"{where} is no object")
        topic: Any = row.get("topic")
        number: Any = row.get("partition")
        _check(topic, number, where)
        if (topic, number) in partitions:
            raise UserError(f"{where}: {one_line(topic)}-{number} is there twice")
        partitions.append((topic, number))
    if not partitions:
        raise UserError(f"{path}: the list `partitions` is empty")
    return partitions


def _check(topic: Any, number: Any, where: str) -> None:
    """Raise UserError unless these name a partition."""
    if not isinstance(topic, str) or not topic:
        raise UserError(f"{where}: topic must be a name")
    if type(number) is not int or not 0 <= number <= _INT32_MAX:
        raise UserError(f"{where}: partition must be a whole number from 0 to {_INT32_MAX}")
