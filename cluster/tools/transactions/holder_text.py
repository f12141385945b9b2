"""What `transactions explain --topic` prints of each partition that is held back. Pure."""

from collections.abc import Iterator, Sequence
from typing import Final

from cluster.coordinator.transactions.explanation import TransactionExplanation
from cluster.coordinator.transactions.held_back import OpenTransaction
from cluster.coordinator.transactions.states import TransactionState
from cluster.model.ids import TopicPartition
from cluster.model.topics import TRANSACTION_STATE_TOPIC
from cluster.tools.explained_lines import wrapped
from cluster.tools.transactions.known_holders import Holder, Verdict
from cluster.tools.transactions.words import (
    client_text,
    command_text,
    count_text,
    labelled,
    partitions_text,
    shown,
    time_text,
)
from cluster.views.quantities import duration, usage

OUTCOMES: Final = {
    TransactionState.PREPARE_COMMIT: "commit",
    TransactionState.PREPARE_ABORT: "abort",
}
_MORE_SHOWN: Final = 3


def holders_text(holders: Sequence[Holder], now_wall_ms: int) -> str:
    """A paragraph for each partition."""
    return "\n\n".join("\n".join(_paragraph(each, now_wall_ms)) for each in holders) + "\n"


def sentence(holder: Holder, now_wall_ms: int) -> str:
    """What holds the partition back, in one sentence."""
    partition, name = holder.partition, str(TopicPartition(*holder.place))
    size = "" if partition.waiting_bytes < 0 else f" ({usage('', partition.waiting_bytes)})"
    records = f"{count_text(partition.waiting_records, 'record')}{size}"
    behind = f"{records} {'waits' if partition.waiting_records == 1 else 'wait'} behind it"
    at = f"{shown(name)}: read_committed consumers wait at offset {partition.last_stable_offset}"
    if holder.verdict is Verdict.DAMAGED:
        return (
            f"{shown(name)}: read_committed consumers get nothing, because its index of aborted"
            f" transactions is damaged: it is not known which of {records} are valid"
        )
    if holder.first is None:
        return f"{at} until every in-sync replica has the marker of a transaction; {behind}"
    age = _age(holder, now_wall_ms)
    if holder.verdict is Verdict.HANGING:
        return (
            f"{at} for a transaction that hangs{age}: no coordinator knows it, so nothing ends it;"
            f" {behind}"
        )
    who = "" if holder.known is None else f" of '{shown(holder.known.transactional_id)}'"
    if holder.verdict is Verdict.ENDING:
        return f"{at} for the marker of a transaction{who} that has ended; {behind}"
    return f"{at} for an open transaction{who}{age}; {behind}"


def _paragraph(holder: Holder, now_wall_ms: int) -> Iterator[str]:
    yield from wrapped("", f"{sentence(holder, now_wall_ms)}.", indent=2)
    first, known = holder.first, holder.known
    if first is not None:
        yield from labelled("producer", _producer(holder, first))
        if first.first_timestamp_ms >= 0:
            yield from labelled("since", f"{time_text(first.first_timestamp_ms)} UTC")
    explained = None if known is None else known.answer.transaction
    yield from labelled("ends", _ends(holder, explained, now_wall_ms))
    if holder.verdict is Verdict.OPEN and known is not None:
        by_id = ("--transactional-id", known.transactional_id)
        yield f"  to end it now {command_text('force-terminate', *by_id)}"
    elif holder.verdict is Verdict.HANGING and first is not None:
        yield f"  to end it     {abort_command(holder, first)}"
    yield from _behind(holder)


def abort_command(holder: Holder, first: OpenTransaction) -> str:
    """The command that ends a hanging transaction."""
    place = ("--topic", holder.place.topic, "--partition", str(holder.place.partition))
    return command_text("abort", *place, "--start-offset", str(first.first_offset))


def _age(holder: Holder, now_wall_ms: int) -> str:
    first = holder.first
    if first is None or first.first_timestamp_ms < 0:
        return ""
    return f", {duration(max(0, now_wall_ms - first.first_timestamp_ms))} old"


def _producer(holder: Holder, first: OpenTransaction) -> str:
    text = f"id {first.producer.producer_id}, epoch {first.producer.epoch}"
    explained = None if holder.known is None else holder.known.answer.transaction
    if explained is not None and explained.client is not None and holder.verdict is Verdict.OPEN:
        return f"{text}; {client_text(explained.client)}"
    if first.is_writer_hidden:
        return f"{text}; this user may not see its client"
    if first.writer is None:
        return f"{text}; its client is not known: another broker led the partition when it wrote"
    return (
        f"{text}; {client_text(first.writer.client)}, which wrote with transactional id"
        f" '{shown(first.writer.transactional_id)}'"
    )


def _ends(holder: Holder, explained: TransactionExplanation | None, now_wall_ms: int) -> str:
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


def _behind(holder: Holder) -> Iterator[str]:
    partition = holder.partition
    later = [each for each in partition.open if each is not holder.first]
    count = len(later) + partition.open_left_off
    if not count:
        return
    offsets = [str(each.first_offset) for each in later[:_MORE_SHOWN]]
    more = f", and {count - len(offsets):,} more" if count > len(offsets) else ""
    verb = "begins" if count == 1 else "begin"
    yield from labelled(
        "behind it",
        f"{count_text(count, 'more open transaction')} {verb} at offset"
        f"{'' if count == 1 else 's'} {', '.join(offsets)}{more}",
    )
