"""`transactions abort`: an abort marker in one partition, for a transaction that hangs there."""

import argparse
import sys
from typing import TYPE_CHECKING, Final

from cluster.client.topic_requests import Place
from cluster.client.transaction_requests import (
    TransactionEnd,
    abort_in_partition,
    describe_producers,
    transactions_of,
)
from cluster.model.errors import ErrorCode, Refused, UserError
from cluster.model.printable import one_line
from cluster.runtime.whole_numbers import integer, not_negative
from cluster.tools.arguments import UsageError
from cluster.tools.kafka_connection import admin_of
from cluster.tools.transactions.hidden import hidden_from_user
from cluster.tools.transactions.options import (
    CLIENT_ID,
    add_json,
    add_partition,
    no_producers,
    print_json,
)
from cluster.tools.transactions.subcommands import add_subcommand
from cluster.views.known_holders import NOT_DESCRIBED

if TYPE_CHECKING:
    from cluster.client.admin import Admin
    from cluster.tools.arguments import Subparsers

_FENCED: Final = {
    ErrorCode.invalid_producer_epoch: (
        "a later epoch of producer {id} has written to {partition}: see `transactions"
        " describe-producers`"
    ),
    ErrorCode.transaction_coordinator_fenced: (
        "{partition} has a marker of a later coordinator epoch than {epoch}: see `transactions"
        " describe-producers`"
    ),
    ErrorCode.unknown_topic_or_partition: "there is no partition {partition}",
}


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
            end = _beginning_at(admin, place, args.start_offset)
        else:
            end = TransactionEnd(
                args.producer_id, args.producer_epoch, max(0, args.coordinator_epoch)
            )
        if not args.force:
            check_hanging(admin, place, end)
        try:
            abort_in_partition(admin, place, end)
        except Refused as refused:
            text = _FENCED.get(refused.code)
            if text is None:
                raise
            partition = f"{place.topic}-{place.partition}"
            raise UserError(
                text.format(partition=partition, id=end.producer_id, epoch=end.coordinator_epoch)
            ) from None
    if args.json:
        print_json({**place._asdict(), **end._asdict()})
    else:  # Kafka's tool prints nothing on stdout
        print(
            f"aborted the transaction of producer {end.producer_id}, epoch {end.producer_epoch},"
            f" in {place.topic}-{place.partition}",
            file=sys.stderr,
        )
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


def check_hanging(admin: "Admin", place: Place, end: TransactionEnd) -> None:
    """Raises UserError if a coordinator knows the transaction, which then ends by itself; or if
    the user may not see that."""
    for found in transactions_of(admin, [end.producer_id]):
        transaction = found.transaction
        if transaction.producer_epoch == end.producer_epoch and place in found.places:
            name = one_line(transaction.transactional_id)
            raise UserError(
                f"the transaction does not hang: broker {found.coordinator} coordinates it for"
                f" transactional id '{name}' ({transaction.transaction_state}). `transactions"
                " force-terminate` aborts it as a whole; --force aborts it in this partition only"
            )
    if hidden_from_user(admin, [end.producer_id]):
        raise UserError(
            f"not known whether the transaction hangs: {NOT_DESCRIBED}; --force aborts it in this"
            " partition, even if it is committed in others"
        )


def _beginning_at(admin: "Admin", place: Place, offset: int) -> TransactionEnd:
    """The transaction that begins at an offset. Raises UserError if none does."""
    code, producers = describe_producers(admin, [place])[place]
    if code is not ErrorCode.none:
        raise no_producers(place, code)
    starts = []
    for each in producers:
        if each.current_txn_start_offset == offset:
            return TransactionEnd(
                each.producer_id, each.producer_epoch, max(0, each.coordinator_epoch)
            )
        if each.current_txn_start_offset >= 0:
            starts.append(each.current_txn_start_offset)
    known = (
        f"open ones begin at {', '.join(map(str, sorted(starts)))}" if starts else "none is open"
    )
    raise UserError(
        f"no open transaction begins at offset {offset} of {place.topic}-{place.partition}; {known}"
    )
