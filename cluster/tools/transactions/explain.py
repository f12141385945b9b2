"""`transactions explain`: the course of a transactional id's transactions, and what holds the last
stable offsets of partitions back.
"""

import argparse
import sys
import time
from typing import TYPE_CHECKING, Final

from cluster.client.refusals import reason_of
from cluster.client.topic_requests import ClusterFacts, Place
from cluster.model.errors import ErrorCode, Refused, UserError
from cluster.model.printable import one_line
from cluster.runtime.whole_numbers import at_least_one, not_negative
from cluster.tools.arguments import UsageError
from cluster.tools.kafka_connection import admin_of
from cluster.tools.transactions.options import CLIENT_ID, add_json, print_json
from cluster.tools.transactions.subcommands import add_subcommand
from cluster.views.transactions.words import SHOWN

if TYPE_CHECKING:
    from cluster.client.admin import Admin
    from cluster.client.explanation_requests import ExplainedPartitions
    from cluster.tools.arguments import Subparsers

_PATIENCE_S: Final = 4.0
"""The answer is wanted while something hangs: do not wait long for a broker that may be the cause.
"""


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `transactions explain` and its options to `subparsers`."""
    parser = add_subcommand(
        subparsers,
        "explain",
        "transactions explain --transactional-id payments-1",
        "transactions explain --topic orders --partition 0",
        "transactions explain",
    )
    parser.add_argument(
        "--transactional-id", metavar="ID", help="the last transactions of this id, step by step"
    )
    parser.add_argument(
        "--topic",
        metavar="T",
        help="what holds read_committed consumers of this topic back (default: of any topic)",
    )
    parser.add_argument(
        "--partition", type=not_negative, metavar="N", help="only this partition of --topic"
    )
    parser.add_argument(
        "--last",
        type=at_least_one,
        metavar="N",
        help=f"with --transactional-id: how many transactions to show (default: {SHOWN}; brokers"
        " keep 10)",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print what is known. Returns the exit status; raises Refused, UserError."""
    if args.transactional_id is not None and args.topic is not None:
        raise UsageError("--transactional-id does not go with --topic")
    if args.partition is not None and args.topic is None:
        raise UsageError("--partition needs --topic")
    if args.last is not None and args.transactional_id is None:
        raise UsageError("--last needs --transactional-id")
    with admin_of(args, CLIENT_ID, _PATIENCE_S) as admin:
        if args.transactional_id is not None:
            return _explain_id(admin, args)
        return _explain_partitions(admin, args)


def _explain_id(admin: "Admin", args: argparse.Namespace) -> int:
    from cluster.tools.transactions.explanation_json import id_object
    from cluster.views.transactions.ending import known_id
    from cluster.views.transactions.id_text import id_text

    last = args.last or SHOWN
    known = known_id(admin, args.transactional_id)
    if args.json:
        print_json(id_object(known, last))
    else:
        address = admin.facts().brokers.get(known.answer.broker)
        at = None if address is None else "{}:{}".format(*address)
        sys.stdout.write(id_text(known, at, last))
    return 0


def _explain_partitions(admin: "Admin", args: argparse.Namespace) -> int:
    from cluster.client.explanation_requests import explain_all_partitions, explain_partitions
    from cluster.tools.transactions.explanation_json import partitions_object
    from cluster.views.find_holders import find_holders
    from cluster.views.transactions.holder_text import holders_text

    if args.topic is None:
        told, holders = find_holders(admin, lambda: explain_all_partitions(admin))
    else:
        places = _places(admin.facts(), args.topic, args.partition)
        told, holders = find_holders(admin, lambda: explain_partitions(admin, places))
    problems = [*told.silent, *(_refusal(place, code) for place, code in told.refused.items())]
    if problems and not told.examined:
        raise UserError(f"nothing is explained: {'; '.join(problems)}")
    now_ms = time.time_ns() // 1_000_000
    if args.json:
        print_json(partitions_object(told, holders, now_ms))
        return 0
    for problem in problems:
        print(f"warning: not explained: {one_line(problem)}", file=sys.stderr)
    if holders:
        sys.stdout.write(holders_text(holders, now_ms))
    else:
        print(_nothing(told, args))
    return 0


def _refusal(place: Place, code: ErrorCode) -> str:
    name = f"{one_line(place.topic)}-{place.partition}"
    if code is ErrorCode.leader_not_available:
        return f"{name}, whose leader does not answer at present"
    return f"{name} ({reason_of(Refused(code))})"


def _places(facts: ClusterFacts, topic: str, number: int | None) -> list[Place]:
    counts = facts.partition_counts()
    if topic not in counts:
        raise UserError(f"there is no topic {one_line(topic)}")
    if number is None:
        return [Place(topic, each) for each in range(counts[topic])]
    if number >= counts[topic]:
        raise UserError(f"there is no partition {one_line(topic)}-{number}")
    return [Place(topic, number)]


def _nothing(told: "ExplainedPartitions", args: argparse.Namespace) -> str:
    """That no consumer waits, in one sentence."""
    if args.partition is not None:
        where = f"in {one_line(args.topic)}-{args.partition}"
    elif args.topic is not None:
        where = f"in the {told.examined:,} partitions of {one_line(args.topic)}"
    else:
        where = f"in the {told.examined:,} partitions that were examined"
    return f"Nothing holds read_committed consumers back {where}."
