"""`transactions force-terminate`: aborts the transaction of an id, and fences its producer."""

import argparse
import sys
from typing import TYPE_CHECKING

from cluster.tools.kafka_connection import admin_of
from cluster.tools.transactions.options import CLIENT_ID, add_json, print_json
from cluster.tools.transactions.subcommands import add_subcommand
from cluster.views.transactions.ending import force_terminate, terminated_text

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
    """Terminate it. Returns the exit status; raises Refused, UserError."""
    transactional_id: str = args.transactional_id
    with admin_of(args, CLIENT_ID) as admin:
        before, after = force_terminate(admin, transactional_id)
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
        print(terminated_text(transactional_id, before), file=sys.stderr)
    return 0
