"""What `transactions explain --transactional-id` prints: its state and last transactions. Pure."""

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from cluster.coordinator.transactions.explanation import (
    ExplainedStep,
    ExplainedTransaction,
    TransactionExplanation,
)
from cluster.coordinator.transactions.history import Asker, ProducerStart, Refusal, StepKind
from cluster.coordinator.transactions.requests import NOBODY, ProducerIdentity
from cluster.coordinator.transactions.states import TransactionState
from cluster.views.explained_lines import wrapped
from cluster.views.holder_words import OUTCOMES, being_stored, deadline
from cluster.views.known_holders import KnownId
from cluster.views.quantities import duration
from cluster.views.transaction_words import (
    client_text,
    count_text,
    partitions_text,
    shown,
    terminate_command,
    time_text,
)
from cluster.views.transactions.words import labelled

_AFTER: Final = 12
"""The width of the times of steps."""
_LAST: Final = {
    TransactionState.EMPTY: "none since its producer started",
    TransactionState.COMPLETE_COMMIT: "the last one was committed",
    TransactionState.COMPLETE_ABORT: "the last one was aborted",
}
_COMPLETE: Final = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
_ABORTED_BY: Final = {
    Asker.CLIENT: "aborted by its client",
    Asker.NEW_PRODUCER: "aborted because another producer started with the transactional id",
    Asker.TIMEOUT: "aborted because it timed out",
    Asker.COORDINATOR: "aborted",
}


def id_text(known: KnownId, address: str | None, last: int, program: str | None = None) -> str:
    """The whole answer; of the transactions the `last` ones.

    `program` is the launcher, quoted for a shell, if commands are to name a data directory.
    """
    return "\n".join([*sentence_lines(known), *details(known, address, last, program)]) + "\n"


def sentence_lines(known: KnownId) -> Iterator[str]:
    """How the answer begins."""
    yield from wrapped("", f"{sentence(known)}.", indent=2)


def sentence(known: KnownId) -> str:
    """The present state in one sentence."""
    found, now_ms = _explained(known), known.answer.now_wall_ms
    name = shown(known.transactional_id)
    if found.storing in OUTCOMES:
        return f"'{name}': a transaction ends when its {being_stored(found, now_ms)}"
    if found.state is TransactionState.ONGOING:
        open_ms = max(0, now_ms - found.start_wall_ms)
        return (
            f"'{name}': a transaction has been open for {duration(open_ms)}, in"
            f" {count_text(len(found.partitions) + found.partitions_left_off, 'partition')}; unless"
            f" its client ends it, its coordinator aborts it {deadline(found, now_ms)}"
        )
    if found.state.is_preparing:
        since_ms = max(0, now_ms - found.last_update_wall_ms)
        names = [str(each) for each in found.unmarked]
        missing = partitions_text(names, found.unmarked_left_off)
        what = (
            f"its marker is missing in {missing}" if missing else "every partition has its marker"
        )
        return (
            f"'{name}': the {OUTCOMES[found.state]} of a transaction was stored"
            f" {duration(since_ms)} ago; {what}"
        )
    return f"'{name}': no transaction is open; {_last(found, now_ms)}"


def _last(found: TransactionExplanation, now_ms: int) -> str:
    text = _LAST.get(found.state, found.state.label)
    ended = _end(found.transactions[-1]) if found.transactions else None
    if ended is not None and ended.kind is StepKind.ABORT and not _is_after(found):
        text = f"the last one was {_ABORTED_BY[ended.asker]}"
    if found.state is TransactionState.EMPTY:
        return text
    return f"{text}, {duration(max(0, now_ms - found.last_update_wall_ms))} ago"


def _is_after(found: TransactionExplanation) -> bool:
    """Whether a producer has started since the last transaction."""
    last = found.transactions[-1]
    return any(each.wall_ms > last.began_wall_ms for each in found.starts)


def _explained(known: KnownId) -> TransactionExplanation:
    found = known.answer.transaction
    assert found is not None, "only ids that a coordinator knows are explained"
    return found


def details(known: KnownId, address: str | None, last: int, program: str | None) -> Iterator[str]:
    """The lines beneath the sentence."""
    found = _explained(known)
    yield from _facts(known, found, address)
    if found.state is TransactionState.ONGOING:
        yield f"  to end it now {terminate_command(known.transactional_id, program)}"
    yield ""
    yield from _history(found, last)


def _facts(known: KnownId, found: TransactionExplanation, address: str | None) -> Iterator[str]:
    at = "" if address is None else f" ({address})"
    yield from labelled("coordinator", f"broker {known.answer.broker}{at}")
    yield from labelled("producer", f"{_producer(found.producer)}; {_present_client(found)}")
    if found.partitions:
        names = [str(each) for each in found.partitions]
        yield from labelled("partitions", partitions_text(names, found.partitions_left_off))
    if found.storing is not None and found.storing not in _COMPLETE:
        yield from labelled("being stored", found.storing.label)


def _present_client(found: TransactionExplanation) -> str:
    """Who has the present epoch: nobody if the last transaction timed out."""
    ended = _end(found.transactions[-1]) if found.transactions else None
    if ended is None or ended.asker is not Asker.TIMEOUT or _is_after(found):
        return client_text(found.client)
    who = "the client before" if found.client is None else client_text(found.client)
    return f"nobody has this epoch, {who} is fenced"


def _producer(producer: ProducerIdentity) -> str:
    return f"id {producer.producer_id}, epoch {producer.epoch}"


# -- the past --------------------------------------------------------------------------------------


def _history(found: TransactionExplanation, last: int) -> Iterator[str]:
    transactions = found.transactions[-last:]
    count = len(found.transactions) + found.transactions_left_off
    since = f"since {time_text(found.remembers_since_wall_ms)} UTC"
    which = f", the last {len(transactions)} shown" if count > len(transactions) else ""
    yield f"{count_text(count, 'transaction')} known {since}{which}"
    first_ms = transactions[0].began_wall_ms if count > len(transactions) else None
    paragraphs: list[tuple[int, list[str]]] = [
        *((each.wall_ms, list(_start(each))) for each in found.starts),
        *((each.began_wall_ms, list(_transaction(each))) for each in transactions),
        *((each.first_wall_ms, list(_refusal(each))) for each in found.refusals),
    ]
    for at_ms, lines in sorted(paragraphs, key=lambda each: each[0]):
        if first_ms is None or at_ms >= first_ms:
            yield from lines


def _start(start: ProducerStart) -> Iterator[str]:
    text = f"producer started: {_producer(start.producer)}; {client_text(start.client)}"
    if start.fenced != NOBODY and start.fenced_client not in (None, start.client):
        text += f", which fences {client_text(start.fenced_client)}"
    yield from wrapped(f"{time_text(start.wall_ms)}  ", text, indent=4)


def _refusal(refusal: Refusal) -> Iterator[str]:
    text = (
        f"fenced: {refusal.request} of {_producer(refusal.producer)} was refused"
        f" (PRODUCER_FENCED); {client_text(refusal.client)}"
    )
    if refusal.count > 1:
        until = time_text(refusal.last_wall_ms, with_day=False)
        text += f"; {refusal.count:,} times until {until}"
    yield from wrapped(f"{time_text(refusal.first_wall_ms)}  ", text, indent=4)


def _transaction(transaction: ExplainedTransaction) -> Iterator[str]:
    text = f"transaction of {_producer(transaction.producer)}: {outcome(transaction)}"
    if transaction.is_partial:
        text += "; the steps before this broker coordinated it are not known"
    yield from wrapped(f"{time_text(transaction.began_wall_ms)}  ", text, indent=4)
    for number, (_, steps) in enumerate(groupby(transaction.steps, key=_kind_of_markers)):
        yield from _step(list(steps), is_first=not number and not transaction.is_partial)
    if transaction.steps_left_off:
        yield f"    ... and {count_text(transaction.steps_left_off, 'more step')}"


def _kind_of_markers(step: ExplainedStep) -> tuple[int, int]:
    """The same for markers of one moment, which are printed on one line."""
    return (1, step.after_ms) if step.kind is StepKind.MARKED else (0, id(step))


def outcome(transaction: ExplainedTransaction) -> str:
    """What became of a transaction."""
    end = _end(transaction)
    complete = [each for each in transaction.steps if each.kind is StepKind.COMPLETE]
    if end is None:
        return "complete" if complete else "open"
    text = "committed" if end.kind is StepKind.COMMIT else _ABORTED_BY[end.asker]
    if not complete:
        return f"{text}, markers are being written"
    return f"{text}, in {duration(complete[-1].after_ms)}"


def _end(transaction: ExplainedTransaction) -> ExplainedStep | None:
    """The step that decided its outcome, if that is known."""
    ends = [each for each in transaction.steps if each.kind in (StepKind.COMMIT, StepKind.ABORT)]
    return ends[-1] if ends else None


def _step(steps: list[ExplainedStep], *, is_first: bool) -> Iterator[str]:
    step = steps[0]
    yield from wrapped(
        f"    {_after(step.after_ms):<{_AFTER}}", _step_text(steps, is_first=is_first)
    )


def _after(after_ms: int) -> str:
    """`+0`, `+12 ms`, `+2.712 s`, `+1:02.712`: the steps of one end are milliseconds apart."""
    seconds, rest_ms = divmod(after_ms, 1000)
    if not seconds:
        return f"+{rest_ms} ms" if rest_ms else "+0"
    minutes, seconds = divmod(seconds, 60)
    return f"+{minutes}:{seconds:02}.{rest_ms:03}" if minutes else f"+{seconds}.{rest_ms:03} s"


def _step_text(steps: list[ExplainedStep], *, is_first: bool) -> str:
    step = steps[0]
    names = [str(each) for one in steps for each in one.partitions]
    left_off = sum(each.partitions_left_off for each in steps)
    partitions = partitions_text(names, left_off)
    stored = f"; stored in {duration(step.took_ms)}"
    by = "" if step.client is None else f" by {client_text(step.client)}"
    if step.kind is StepKind.ADDED:
        what = partitions
        if step.group is not None:
            what = f"offsets of group {shown(step.group)} ({partitions})"
        return f"{'began with ' if is_first else ''}{what}{'' if is_first else ' added'}{stored}"
    if step.kind is StepKind.COMMIT:
        return f"commit asked for{by}{stored}"
    if step.kind is StepKind.ABORT:
        if step.asker is Asker.TIMEOUT:
            return f"timed out: aborted by its coordinator in a higher epoch{stored}"
        if step.asker is Asker.NEW_PRODUCER:
            return f"fenced{by}, which started with the transactional id{stored}"
        return f"abort asked for{by}{stored}"
    if step.kind is StepKind.MARKED:
        return f"marker in {partitions}"
    if step.kind is StepKind.NOT_STORED:
        return f"a transition could not be stored, after {duration(step.took_ms)}"
    return "complete"  # when its record is stored concerns nobody: it follows from the others
