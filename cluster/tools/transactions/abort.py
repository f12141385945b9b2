"""`transactions abort`: an abort marker in one partition, for a transaction that hangs there."""

import argparse
import sys
from typing import TYPE_CHECKING

from cluster.client.topic_requests import Place
from cluster.client.transaction_requests import TransactionEnd
from cluster.runtime.whole_numbers import integer, not_negative
from cluster.tools.arguments import UsageError
from cluster.tools.kafka_connection import admin_of
from cluster.tools.transactions.hidden import hidden_from_user
from cluster.tools.transactions.options import CLIENT_ID, add_json, add_partition, print_json
from cluster.tools.transactions.subcommands import add_subcommand
from cluster.views.transactions.ending import abort_at, aborted_text, beginning_at, check_hanging

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `transactions abort` and its options to `subparsers`."""
    parser = add_subcommand(
        subparsers,
        "abort",
        "transactions abort --topic orders --partition 0 --start-offset 4711",
        "transactions abort --topic orders --partition 0 --producer-id 17 --producer-epoch 3"
        " --coordinator-epoch 5",
    )
    add_partition(parser)
    parser.add_argument(
        "--start-offset",
        type=not_negative,
        metavar="OFFSET",
        help="where the transaction begins, as find-hanging and describe-producers print it",
    )
    for option, what in (
        ("--producer-id", "instead of --start-offset: its producer, with both epochs"),
        ("--producer-epoch", "the epoch of that producer"),
        ("--coordinator-epoch", "the epoch of the coordinator; a negative one counts as 0"),
    ):
        parser.add_argument(option, type=integer, metavar="N", help=what)
    parser.add_argument(
        "--force",
        action="store_true",
        help="even if its coordinator knows it, and may commit it in other partitions",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Write the marker. Returns the exit status; raises Refused, UserError."""
    place = Place(args.topic, args.partition)
    _check(args)
    with admin_of(args, CLIENT_ID) as admin:
        if args.start_offset is not None:
            end = beginning_at(admin, place, args.start_offset)
        else:
            end = TransactionEnd(
                args.producer_id, args.producer_epoch, max(0, args.coordinator_epoch)
            )
        if not args.force:
            check_hanging(admin, place, end, hidden_from_user)
        abort_at(admin, place, end)
    if args.json:
        print_json({**place._asdict(), **end._asdict()})
    else:  # Kafka's tool prints nothing on stdout
        print(aborted_text(place, end), file=sys.stderr)
    return 0


def _check(args: argparse.Namespace) -> None:
    """Raises UsageError unless one transaction is named, in one way."""
    epochs = (args.producer_epoch, args.coordinator_epoch)
    if args.start_offset is not None:
        if args.producer_id is not None or any(each is not None for each in epochs):
            raise UsageError(
                "--start-offset does not go with --producer-id, --producer-epoch and"
                " --coordinator-epoch"
            )
        return
    if args.producer_id is None:
        raise UsageError(
            "say which transaction: --start-offset, or --producer-id, --producer-epoch and"
            " --coordinator-epoch"
        )
    if None in epochs:
        raise UsageError("--producer-id needs --producer-epoch and --coordinator-epoch")
