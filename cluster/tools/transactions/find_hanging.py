"""`transactions find-hanging`: open transactions in partitions that no coordinator knows."""

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cluster.client.topic_requests import ClusterFacts, Place
from cluster.client.transaction_requests import describe_producers, transactions_of
from cluster.model.errors import ErrorCode, UserError
from cluster.model.printable import one_line
from cluster.runtime.whole_numbers import not_negative
from cluster.tools.arguments import UsageError
from cluster.tools.kafka_connection import admin_of
from cluster.tools.transactions.hidden import hidden_from_user
from cluster.tools.transactions.options import (
    CLIENT_ID,
    add_json,
    print_json,
    print_table,
)
from cluster.tools.transactions.subcommands import add_subcommand
from cluster.views.transaction_words import count_text
from cluster.views.transactions.ending import no_producers

if TYPE_CHECKING:
    from cluster.client.admin import Admin
    from cluster.protocol.messages import DescribedProducer
    from cluster.tools.arguments import Subparsers

_TIMEOUT_MAX_MINUTES: Final = 15
_MINUTE_MS: Final = 60_000
_PARTITIONS_MAX: Final = 500
"""Of one request, as Kafka's tool has it."""
_HEADINGS: Final = (
    *("Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch", "StartOffset"),
    *("LastTimestamp", "Duration(min)"),
)


class OpenTransaction(NamedTuple):
    """A transaction that is open in a partition."""

    place: Place
    producer: "DescribedProducer"


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `transactions find-hanging` and its options to `subparsers`."""
    parser = add_subcommand(
        subparsers,
        "find-hanging",
        "transactions find-hanging --topic orders",
        "transactions find-hanging --broker-id 0 --max-transaction-timeout 30",
    )
    parser.add_argument(
        "--broker-id", type=not_negative, metavar="N", help="only partitions on this broker"
    )
    parser.add_argument("--topic", metavar="T", help="only partitions of this topic")
    parser.add_argument(
        "--partition", type=not_negative, metavar="N", help="only this partition of --topic"
    )
    parser.add_argument(
        "--max-transaction-timeout",
        type=not_negative,
        default=_TIMEOUT_MAX_MINUTES,
        metavar="MINUTES",
        help="only transactions whose last record is older than this, the longest timeout of any"
        f" producer (default: {_TIMEOUT_MAX_MINUTES})",
    )
    add_json(parser, "one array")


def run(args: argparse.Namespace) -> int:
    """Print what hangs. Returns the exit status; raises Refused, UserError."""
    if args.topic is None and args.broker_id is None:
        raise UsageError("find-hanging needs --topic or --broker-id")
    if args.partition is not None and args.topic is None:
        raise UsageError("--partition needs --topic")
    now_ms = time.time_ns() // 1_000_000
    with admin_of(args, CLIENT_ID) as admin:
        facts = admin.facts()
        if args.broker_id is not None and args.broker_id not in facts.brokers:
            raise UserError(f"there is no live broker {args.broker_id}")
        places = _searched(facts, args.topic, args.partition, args.broker_id)
        oldest_ms = now_ms - args.max_transaction_timeout * _MINUTE_MS
        candidates = _open_since(admin, places, args.broker_id, oldest_ms)
        hanging = hanging_among(admin, candidates)
    if args.json:
        print_json([_as_json(each, now_ms) for each in hanging])
    else:
        print_table(_HEADINGS, [_row(each, now_ms) for each in hanging])
    return 0


def _searched(
    facts: ClusterFacts, topic: str | None, number: int | None, broker: int | None
) -> list[Place]:
    found = [
        Place(each.name, partition.number)
        for each in facts.topics
        if topic in (None, each.name)
        for partition in each.partitions
        if number in (None, partition.number) and (broker is None or broker in partition.replicas)
    ]
    if topic is not None and topic not in {each.name for each in facts.topics}:
        raise UserError(f"there is no topic {one_line(topic)}")
    if number is not None and not found:
        where = "" if broker is None else f" on broker {broker}"
        raise UserError(f"there is no partition {one_line(topic or '')}-{number}{where}")
    return found


def _open_since(
    admin: "Admin", places: Sequence[Place], broker: int | None, oldest_ms: int
) -> list[OpenTransaction]:
    found = []
    for start in range(0, len(places), _PARTITIONS_MAX):
        asked = places[start : start + _PARTITIONS_MAX]
        for place, (code, producers) in sorted(describe_producers(admin, asked, broker).items()):
            if code is not ErrorCode.none:
                raise no_producers(place, code)
            found += [
                OpenTransaction(place, each)
                for each in producers
                if each.current_txn_start_offset >= 0 and each.last_timestamp < oldest_ms
            ]
    return found


def _unknown_to_coordinators(
    admin: "Admin", candidates: Collection[OpenTransaction]
) -> list[OpenTransaction]:
    if not candidates:
        return []
    known: dict[int, set[Place]] = defaultdict(set)
    for found in transactions_of(admin, {each.producer.producer_id for each in candidates}):
        known[found.transaction.producer_id].update(found.places)
    return [each for each in candidates if each.place not in known[each.producer.producer_id]]


def hanging_among(admin: "Admin", candidates: Collection[OpenTransaction]) -> list[OpenTransaction]:
    """Those that no coordinator knows.

    Leaves those out whose transactional ids the user may not describe, with a warning. Raises
    Refused, UserError.
    """
    suspects = _unknown_to_coordinators(admin, candidates)
    hidden = hidden_from_user(admin, {each.producer.producer_id for each in suspects})
    found = [each for each in suspects if each.producer.producer_id not in hidden]
    left_out = len(suspects) - len(found)
    if left_out:
        print(
            f"warning: not examined: {count_text(left_out, 'open transaction')}, because this user"
            " may not describe the transactional id",
            file=sys.stderr,
        )
    return found


def _minutes(found: OpenTransaction, now_ms: int) -> int:
    return (now_ms - found.producer.last_timestamp) // _MINUTE_MS


def _as_json(found: OpenTransaction, now_ms: int) -> dict[str, Any]:
    producer = found.producer
    return {
        "topic": found.place.topic,
        "partition": found.place.partition,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "coordinator_epoch": producer.coordinator_epoch,
        "start_offset": producer.current_txn_start_offset,
        "last_timestamp_ms": producer.last_timestamp,
        "duration_ms": now_ms - producer.last_timestamp,
    }


def _row(found: OpenTransaction, now_ms: int) -> tuple[str, ...]:
    producer = found.producer
    return (
        found.place.topic,
        str(found.place.partition),
        str(producer.producer_id),
        str(producer.producer_epoch),
        str(producer.coordinator_epoch),
        str(producer.current_txn_start_offset),
        str(producer.last_timestamp),
        str(_minutes(found, now_ms)),
    )
