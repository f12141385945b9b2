"""What ends a transaction that holds a partition back, in words and as a command. Pure."""

from typing import Final

from cluster.coordinator.transactions.explanation import TransactionExplanation
from cluster.coordinator.transactions.states import TransactionState
from cluster.model.topics import TRANSACTION_STATE_TOPIC
from cluster.views.known_holders import Holder, Verdict
from cluster.views.quantities import duration
from cluster.views.transaction_words import (
    abort_command,
    partitions_text,
    terminate_command,
    time_text,
)

OUTCOMES: Final = {
    TransactionState.PREPARE_COMMIT: "commit",
    TransactionState.PREPARE_ABORT: "abort",
}


def ends(holder: Holder, now_wall_ms: int) -> str:
    """What ends it, and when."""
    explained = None if holder.known is None else holder.known.answer.transaction
    coordinator = "its coordinator"
    if holder.known is not None:
        coordinator = f"broker {holder.known.answer.broker}, its coordinator,"
    if holder.verdict is Verdict.OPEN and explained is not None:
        if explained.storing in OUTCOMES:
            return f"when its {being_stored(explained, now_wall_ms)}"
        return (
            "when its client commits or aborts it; else"
            f" {coordinator} aborts it {deadline(explained, now_wall_ms)}"
        )
    if holder.verdict is Verdict.ENDING and explained is not None:
        outcome = OUTCOMES[explained.state]
        names = [str(each) for each in explained.unmarked]
        return (
            f"when {coordinator} has written the markers: the {outcome} was stored at"
            f" {time_text(explained.last_update_wall_ms)} UTC, missing are those of"
            f" {partitions_text(names, explained.unmarked_left_off) or 'none'}"
        )
    if holder.verdict is Verdict.HANGING:
        return "never by itself: make sure that its client has stopped, then abort it"
    if holder.verdict is Verdict.UNCOMMITTED:
        ended = holder.partition.uncommitted
        marker = "" if ended is None else f" at offset {ended.marker_offset}"
        return (
            f"when all in-sync replicas have fetched the marker{marker}; the high watermark is"
            f" {holder.partition.high_watermark}"
        )
    if holder.verdict is Verdict.DAMAGED:
        return f"when broker {holder.leader}, which leads it, has repaired the index: see its log"
    return f"it is not known when, because its coordinator cannot be asked: {holder.problem}"


def ending_command(holder: Holder, program: str | None = None) -> str | None:
    """The command that ends the transaction; None if nothing but time does.

    `program` is the launcher, quoted for a shell.
    """
    first, known = holder.first, holder.known
    if holder.verdict is Verdict.OPEN and known is not None:
        return terminate_command(known.transactional_id, program)
    if holder.verdict is Verdict.HANGING and first is not None:
        return abort_command(holder.place, first.first_offset, program)
    return None


def being_stored(explained: TransactionExplanation, now_wall_ms: int) -> str:
    """That the outcome of a transaction is not stored yet."""
    assert explained.storing is not None, "called while something is being stored"
    waited = duration(max(0, now_wall_ms - explained.storing_since_wall_ms))
    return (
        f"{OUTCOMES[explained.storing]} is stored: it was asked for {waited} ago, and in-sync"
        f" replicas of {TRANSACTION_STATE_TOPIC} have not confirmed it"
    )


def deadline(explained: TransactionExplanation, now_wall_ms: int) -> str:
    """When a transaction times out."""
    at_ms = explained.start_wall_ms + explained.timeout_ms
    left_ms = at_ms - now_wall_ms
    setting = f"transaction.timeout.ms={explained.timeout_ms}"
    check = f"{explained.timeout_check_interval_ms / 1000:g} s"
    if left_ms <= 0:
        return f"within {check}: it timed out at {time_text(at_ms)} UTC ({setting})"
    return f"in {duration(left_ms)}, at {time_text(at_ms)} UTC or up to {check} later ({setting})"
