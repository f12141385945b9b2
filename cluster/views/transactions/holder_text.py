"""What `transactions explain --topic` prints of each partition that is held back. Pure."""

from collections.abc import Iterator, Sequence
from typing import Final

from cluster.coordinator.transactions.held_back import OpenTransaction
from cluster.model.ids import TopicPartition
from cluster.views.explained_lines import wrapped
from cluster.views.holder_words import ending_command, ends
from cluster.views.known_holders import Holder, Verdict
from cluster.views.quantities import duration, usage
from cluster.views.transaction_words import client_text, count_text, shown, time_text
from cluster.views.transactions.words import LABEL, labelled

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
    first = holder.first
    if first is not None:
        yield from labelled("producer", _producer(holder, first))
        if first.first_timestamp_ms >= 0:
            yield from labelled("since", f"{time_text(first.first_timestamp_ms)} UTC")
    yield from labelled("ends", ends(holder, now_wall_ms))
    command = ending_command(holder)
    if command is not None:
        label = "to end it now" if holder.verdict is Verdict.OPEN else "to end it"
        yield f"  {label:<{LABEL}}{command}"
    yield from _behind(holder)


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
