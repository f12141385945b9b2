"""`transactions force-terminate`: aborts the transaction of an id, and fences its producer."""

import argparse
import sys
from typing import TYPE_CHECKING

from cluster.client.transaction_requests import terminate_transaction
from cluster.model.printable import one_line
from cluster.tools.kafka_connection import admin_of
from cluster.tools.transactions.describe import known_transaction
from cluster.tools.transactions.options import CLIENT_ID, add_json, print_json
from cluster.tools.transactions.subcommands import add_subcommand

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `transactions force-terminate` and its options to `subparsers`."""
    parser = add_subcommand(
        subparsers,
        "force-terminate",
        "transactions force-terminate --transactional-id payments-1",
    )
    parser.accept_words(name="--transactional-id")
    parser.add_argument(
        "--transactional-id",
        "--transactionalId",
        dest="transactional_id",
        required=True,
        metavar="ID",
        help="which; its present producer is fenced and cannot go on",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Terminate it. Returns the exit status; raises Refused, UserError.

    An unknown id is refused: Kafka's tool would create it.
    """
    transactional_id: str = args.transactional_id
    with admin_of(args, CLIENT_ID) as admin:
        before = known_transaction(admin, transactional_id).transaction
        terminate_transaction(admin, transactional_id)
        after = known_transaction(admin, transactional_id).transaction
    if args.json:
        print_json(
            {
                "transactional_id": transactional_id,
                "state_before": before.transaction_state,
                "producer_id": after.producer_id,
                "producer_epoch": after.producer_epoch,
            }
        )
    else:  # Kafka's tool prints nothing on stdout
        done = "aborted the transaction and fenced the producer"
        if before.transaction_state != "Ongoing":
            done = f"no transaction was open ({before.transaction_state}); fenced the producer"
        print(
            f"{one_line(transactional_id)}: {done} of epoch {before.producer_epoch}",
            file=sys.stderr,
        )
    return 0
