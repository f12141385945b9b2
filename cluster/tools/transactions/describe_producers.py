"""`transactions describe-producers`: the producers that a replica of a partition remembers."""

import argparse
from typing import TYPE_CHECKING, Final

from cluster.client.topic_requests import Place
from cluster.client.transaction_requests import describe_producers
from cluster.model.errors import ErrorCode, Refused, UserError
from cluster.runtime.whole_numbers import not_negative
from cluster.tools.kafka_connection import admin_of
from cluster.tools.transactions.options import (
    CLIENT_ID,
    NONE,
    add_json,
    add_partition,
    print_json,
    print_table,
)
from cluster.tools.transactions.subcommands import add_subcommand
from cluster.views.transactions.ending import no_producers

if TYPE_CHECKING:
    from cluster.protocol.messages import DescribedProducer
    from cluster.tools.arguments import Subparsers

_HEADINGS: Final = (
    *("ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence", "LastTimestamp"),
    "CurrentTransactionStartOffset",
)


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `transactions describe-producers` and its options to `subparsers`."""
    parser = add_subcommand(
        subparsers,
        "describe-producers",
        "transactions describe-producers --topic orders --partition 0",
        "transactions describe-producers --topic orders --partition 0 --broker-id 2 --json",
    )
    add_partition(parser)
    parser.add_argument(
        "--broker-id",
        type=not_negative,
        metavar="N",
        help="the replica on this broker (default: the leader)",
    )
    add_json(parser, "one array")


def run(args: argparse.Namespace) -> int:
    """Print the producers. Returns the exit status; raises Refused, UserError."""
    place = Place(args.topic, args.partition)
    broker: int | None = args.broker_id
    with admin_of(args, CLIENT_ID) as admin:
        try:
            code, producers = describe_producers(admin, [place], broker)[place]
        except Refused as refused:
            if refused.code is ErrorCode.broker_not_available:
                raise UserError(f"there is no live broker {broker}") from None
            raise
    if code is ErrorCode.not_leader_or_follower and broker is not None:
        raise UserError(f"broker {broker} has no replica of {place.topic}-{place.partition}")
    if code is not ErrorCode.none:
        raise no_producers(place, code)
    if args.json:
        print_json([_as_json(each) for each in producers])
    else:
        print_table(_HEADINGS, [_row(each) for each in producers])
    return 0


def _as_json(producer: "DescribedProducer") -> dict[str, int | None]:
    start = producer.current_txn_start_offset
    return {
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "coordinator_epoch": producer.coordinator_epoch,
        "last_sequence": producer.last_sequence,
        "last_timestamp_ms": producer.last_timestamp,
        "transaction_start_offset": None if start < 0 else start,
    }


def _row(producer: "DescribedProducer") -> tuple[str, ...]:
    start = producer.current_txn_start_offset
    return (
        str(producer.producer_id),
        str(producer.producer_epoch),
        str(producer.coordinator_epoch),
        str(producer.last_sequence),
        str(producer.last_timestamp),
        NONE if start < 0 else str(start),
    )
