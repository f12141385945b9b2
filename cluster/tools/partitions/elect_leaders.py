"""`partitions elect-leaders`: kafka-leader-election's options, its file and its output."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.client.election_requests import elect_leaders
from cluster.client.refusals import reason_of
from cluster.client.topic_requests import Place
from cluster.model.errors import ErrorCode, Refused, UserError
from cluster.model.printable import one_line
from cluster.runtime.whole_numbers import not_negative
from cluster.tools.arguments import UsageError
from cluster.tools.kafka_connection import admin_of
from cluster.tools.options import WeakerProperties
from cluster.tools.partitions.json_files import place_of, rows_of
from cluster.tools.partitions.subcommands import CLIENT_ID, add_subcommand

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers

Elected = dict[Place, Refused | None]
"""Why a partition got no leader, None where it got one."""


def add_parser(subparsers: "Subparsers") -> None:
    """Add `elect-leaders` and its options to `subparsers`."""
    parser = add_subcommand(
        subparsers,
        "elect-leaders",
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
    with admin_of(args, CLIENT_ID) as admin:
        try:
            elected = admin.controller(
                lambda client: elect_leaders(client, args.election_type, partitions)
            )
        except Refused as refused:
            raise UserError(f"no election: {reason_of(refused)}") from None
    return _print(args.election_type, elected)


def _print(election_type: str, elected: Elected) -> int:
    name = election_type.upper()
    done, needless, failed = [], [], []
    for (topic, number), problem in sorted(elected.items()):
        partition = one_line(f"{topic}-{number}")
        if problem is None:
            done.append(partition)
        elif problem.code is ErrorCode.election_not_needed:
            needless.append(partition)
        else:
            failed.append((partition, one_line(reason_of(problem))))
    if done:
        print(f"Successfully completed leader election ({name}) for partitions {', '.join(done)}")
    if needless:
        print(f"Valid replica already elected for partitions {', '.join(needless)}")
    for partition, reason in failed:
        print(f"Error completing leader election ({name}) for partition: {partition}: {reason}")
    if failed:
        raise UserError(f"{len(failed)} replica(s) could not be elected")
    return 0


def _asked(args: argparse.Namespace) -> list[Place] | None:
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
    return [place_of(vars(args), "the options")]


def read_partitions(path: Path) -> list[Place]:
    """The partitions of a file as kafka-leader-election takes it. Raises UserError."""
    partitions: list[Place] = []
    for where, row in rows_of(path, "partitions"):
        place = place_of(row, where)
        if place in partitions:
            raise UserError(f"{where}: {one_line(place.topic)}-{place.partition} is there twice")
        partitions.append(place)
    return partitions
