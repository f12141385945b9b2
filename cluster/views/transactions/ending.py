"""Looks transactions up at their coordinators and leaders, and ends them."""

from collections.abc import Callable, Collection
from typing import Final

from cluster.client.admin import Admin
from cluster.client.explanation_requests import explain_transaction, hidden_among
from cluster.client.refusals import reason_of
from cluster.client.topic_requests import Place
from cluster.client.transaction_requests import (
    FoundTransaction,
    TransactionEnd,
    abort_in_partition,
    describe_producers,
    describe_transaction,
    terminate_transaction,
    transactions_of,
)
from cluster.model.errors import ErrorCode, Refused, UserError
from cluster.model.printable import one_line
from cluster.protocol.messages import DescribedTransaction
from cluster.views.known_holders import NOT_DESCRIBED, KnownId

HiddenOf = Callable[[Admin, Collection[int]], Collection[int]]
"""Those producer ids whose transactional ids the user may not describe."""

_UNKNOWN_ID: Final = (ErrorCode.transactional_id_not_found, ErrorCode.invalid_request)
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


def known_id(admin: Admin, transactional_id: str) -> KnownId:
    """What its coordinator tells of an id. Raises Refused, and UserError for one that does not
    exist.
    """
    try:
        return KnownId(transactional_id, explain_transaction(admin, transactional_id))
    except Refused as refused:
        raise _unless_unknown(refused, transactional_id) from None


def known_transaction(admin: Admin, transactional_id: str) -> FoundTransaction:
    """The transaction of an id. Raises Refused, and UserError for an id that does not exist."""
    try:
        return describe_transaction(admin, transactional_id)
    except Refused as refused:
        raise _unless_unknown(refused, transactional_id) from None


def _unless_unknown(refused: Refused, transactional_id: str) -> Refused | UserError:
    if refused.code not in _UNKNOWN_ID:
        return refused
    name = one_line(transactional_id)
    return UserError(f"there is no transactional id '{name}' (`transactions list` prints all)")


def force_terminate(
    admin: Admin, transactional_id: str
) -> tuple[DescribedTransaction, DescribedTransaction]:
    """Abort the open transaction of an id, if there is one, and fence its producer.

    Returns the state before and afterwards. Raises Refused, and UserError for an id that does not
    exist: Kafka's tool would create it.
    """
    before = known_transaction(admin, transactional_id).transaction
    terminate_transaction(admin, transactional_id)
    return before, known_transaction(admin, transactional_id).transaction


def terminated_text(transactional_id: str, before: DescribedTransaction) -> str:
    """What `force_terminate` has done."""
    done = "aborted the transaction and fenced the producer"
    if before.transaction_state != "Ongoing":
        done = f"no transaction was open ({before.transaction_state}); fenced the producer"
    return f"{one_line(transactional_id)}: {done} of epoch {before.producer_epoch}"


def abort_at(admin: Admin, place: Place, end: TransactionEnd) -> None:
    """Write an abort marker in one partition. Raises Refused, UserError."""
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


def aborted_text(place: Place, end: TransactionEnd) -> str:
    """What `abort_at` has done."""
    return (
        f"aborted the transaction of producer {end.producer_id}, epoch {end.producer_epoch},"
        f" in {one_line(place.topic)}-{place.partition}"
    )


def check_hanging(
    admin: Admin, place: Place, end: TransactionEnd, hidden_of: HiddenOf = hidden_among
) -> None:
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
    if hidden_of(admin, [end.producer_id]):
        raise UserError(
            f"not known whether the transaction hangs: {NOT_DESCRIBED}; --force aborts it in this"
            " partition, even if it is committed in others"
        )


def beginning_at(admin: Admin, place: Place, offset: int) -> TransactionEnd:
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
        f"no open transaction begins at offset {offset} of {one_line(place.topic)}-"
        f"{place.partition}; {known}"
    )


def no_producers(place: Place, code: ErrorCode) -> UserError:
    """Why no replica tells of a partition's producers."""
    name = f"{one_line(place.topic)}-{place.partition}"
    if code is ErrorCode.unknown_topic_or_partition:
        return UserError(f"there is no partition {name}")
    return UserError(f"the producers of {name} are not known: {reason_of(Refused(code))}")
