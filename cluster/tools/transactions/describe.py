"""`transactions describe`: the transaction of one transactional id."""

import argparse
import time
from typing import TYPE_CHECKING, Any, Final

from cluster.client.transaction_requests import FoundTransaction
from cluster.protocol.writer import MILLISECOND, timestamp_of
from cluster.tools.kafka_connection import admin_of
from cluster.tools.transactions.options import CLIENT_ID, NONE, add_json, print_json, print_table
from cluster.tools.transactions.subcommands import add_subcommand
from cluster.views.transactions.ending import known_transaction

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers

_HEADINGS: Final = (
    *("CoordinatorId", "TransactionalId", "ProducerId", "ProducerEpoch", "TransactionState"),
    *("TransactionTimeoutMs", "CurrentTransactionStartTimeMs", "TransactionDurationMs"),
    "TopicPartitions",
)


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `transactions describe` and its options to `subparsers`."""
    parser = add_subcommand(subparsers, "describe", "transactions describe payments-1")
    parser.accept_words(name="--transactional-id")
    parser.add_argument("--transactional-id", required=True, metavar="ID", help="which")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the transaction. Returns the exit status; raises Refused, UserError."""
    with admin_of(args, CLIENT_ID) as admin:
        found = known_transaction(admin, args.transactional_id)
    if args.json:
        print_json(_as_json(found))
    else:
        print_table(_HEADINGS, [_row(found)])
    return 0


def start_ms(found: FoundTransaction) -> int | None:
    """When the transaction began, since the epoch; None if none has begun."""
    began_ms = timestamp_of(found.transaction.transaction_start_time)
    return began_ms if began_ms >= 0 else None


def _duration_ms(found: FoundTransaction) -> int | None:
    began_ms = start_ms(found)
    return None if began_ms is None else time.time_ns() // 1_000_000 - began_ms


def _as_json(found: FoundTransaction) -> dict[str, Any]:
    transaction = found.transaction
    return {
        "transactional_id": transaction.transactional_id,
        "coordinator": found.coordinator,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "state": transaction.transaction_state,
        "timeout_ms": transaction.transaction_timeout // MILLISECOND,
        "start_ms": start_ms(found),
        "duration_ms": _duration_ms(found),
        "partitions": [place._asdict() for place in found.places],
    }


def _row(found: FoundTransaction) -> tuple[str, ...]:
    transaction = found.transaction
    return (
        str(found.coordinator),
        transaction.transactional_id,
        str(transaction.producer_id),
        str(transaction.producer_epoch),
        transaction.transaction_state,
        str(transaction.transaction_timeout // MILLISECOND),
        _shown(start_ms(found)),
        _shown(_duration_ms(found)),
        ",".join(f"{place.topic}-{place.partition}" for place in found.places),
    )


def _shown(number: int | None) -> str:
    return NONE if number is None else str(number)
