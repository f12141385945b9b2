"""`transactions list`: every transactional id of the cluster, or those that match."""

import argparse
from typing import TYPE_CHECKING, Final

from cluster.client.transaction_requests import list_transactions
from cluster.model.errors import ErrorCode, Refused
from cluster.runtime.whole_numbers import integer
from cluster.tools.arguments import UsageError
from cluster.tools.kafka_connection import admin_of
from cluster.tools.transactions.options import CLIENT_ID, add_json, print_json, print_table
from cluster.tools.transactions.subcommands import add_subcommand

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers

_HEADINGS: Final = ("TransactionalId", "Coordinator", "ProducerId", "TransactionState")


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `transactions list` and its options to `subparsers`."""
    parser = add_subcommand(
        subparsers,
        "list",
        "transactions list",
        "transactions list --duration-filter 60000",
        "transactions list --transactional-id-pattern 'payments-.*' --json",
    )
    parser.add_argument(
        "--duration-filter",
        type=integer,
        default=-1,
        metavar="MS",
        help="only transactions that have been open for longer (default: -1, all ids)",
    )
    parser.add_argument(
        "--transactional-id-pattern",
        metavar="RE",
        help="only ids that match this regular expression of RE2 as a whole",
    )
    add_json(parser, "one array")


def run(args: argparse.Namespace) -> int:
    """Print the ids. Returns the exit status; raises Refused."""
    pattern: str | None = args.transactional_id_pattern
    with admin_of(args, CLIENT_ID) as admin:
        try:
            found = list_transactions(
                admin, longer_than_ms=args.duration_filter, pattern=pattern or None
            )
        except Refused as refused:
            if refused.code is not ErrorCode.invalid_regular_expression:
                raise
            raise UsageError(
                f"--transactional-id-pattern takes a regular expression of RE2, not {pattern}"
            ) from None
    if args.json:
        print_json([each._asdict() for each in found])
    else:
        print_table(
            _HEADINGS,
            [
                (each.transactional_id, str(each.coordinator), str(each.producer_id), each.state)
                for each in found
            ],
        )
    return 0
