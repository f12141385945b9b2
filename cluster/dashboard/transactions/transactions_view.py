"""Transactional ids as the page lists them: those with an open transaction, then others. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from cluster.client.transaction_requests import ListedTransaction
from cluster.coordinator.transactions.explanation import TransactionExplanation
from cluster.coordinator.transactions.states import TransactionState
from cluster.dashboard.sources import Json
from cluster.views.known_holders import KnownId
from cluster.views.transaction_words import client_text, shown, terminate_command

OPEN_MAX: Final = 50
"""Open transactions in one response; if there are more, the oldest."""
OTHERS_MAX: Final = 30
"""Ids without one; if there are more, those whose producers have the highest ids: they started
last.
"""
_PARTITIONS_MAX: Final = 4
"""Names of partitions in a row."""
_IDLE: Final = frozenset(state.label for state in TransactionState if state.is_idle)


class Choice(NamedTuple):
    """The ids that are shown, and how many are left out."""

    open: Sequence[ListedTransaction]
    open_left_out: int
    others: Sequence[ListedTransaction]
    others_left_out: int

    @property
    def shown(self) -> list[ListedTransaction]:
        return [*self.open, *self.others]


def chosen(
    listed: Iterable[ListedTransaction],
    search: str,
    starts_ms: Callable[[Sequence[ListedTransaction]], Mapping[str, float]],
) -> Choice:
    """Those to show of all ids that contain the text, ignoring case.

    `starts_ms` tells when open transactions began; it is called only if there are too many.
    """
    wanted = search.lower()
    by_id = {each.transactional_id: each for each in listed}  # one may just be moving
    found = [each for name, each in sorted(by_id.items()) if wanted in name.lower()]
    is_open = [each for each in found if each.state not in _IDLE]
    others = sorted((each for each in found if each.state in _IDLE), key=_newest_producer)
    if len(is_open) > OPEN_MAX:
        starts = starts_ms(is_open)
        is_open.sort(key=lambda each: starts.get(each.transactional_id, float("inf")))
    return Choice(
        is_open[:OPEN_MAX],
        max(0, len(is_open) - OPEN_MAX),
        others[:OTHERS_MAX],
        max(0, len(others) - OTHERS_MAX),
    )


def _newest_producer(listed: ListedTransaction) -> tuple[int, str]:
    return (-listed.producer_id, listed.transactional_id)


def transactions_view(
    choice: Choice, known: Mapping[str, KnownId], problems: Sequence[str], program: str
) -> Json:
    """`open`, the oldest first, and `others`, those that changed last first.

    An id that its coordinator did not explain is left out. `problems`: why brokers did not answer.
    `program` is the launcher with its data directory, quoted for a shell.
    """
    rows = [
        _row(known[each.transactional_id], program)
        for each in choice.shown
        if each.transactional_id in known
    ]
    is_open = [row for row in rows if row["since_ms"] is not None]
    others = [row for row in rows if row["since_ms"] is None]
    return {
        "open": sorted(is_open, key=lambda row: row["since_ms"]),
        "open_left_out": choice.open_left_out,
        "others": sorted(others, key=lambda row: -row["updated_ms"]),
        "others_left_out": choice.others_left_out,
        "problems": [*problems],
    }


def _row(known: KnownId, program: str) -> dict[str, Any]:
    found, now_ms = known.answer.transaction, known.answer.now_wall_ms
    assert found is not None, "only ids that a coordinator knows are explained"
    since_ms = None if found.state.is_idle else found.start_wall_ms
    return {
        "transactional_id": known.transactional_id,
        "state": found.state.label,
        "coordinator": known.answer.broker,
        "producer_id": found.producer.producer_id,
        "epoch": found.producer.epoch,
        "client": None
        if found.client is None
        else client_text(found.client).removeprefix("client "),
        "since_ms": since_ms,
        "age_ms": None if since_ms is None else max(0, now_ms - since_ms),
        "updated_ms": found.last_update_wall_ms,
        "timeout_ms": found.timeout_ms,
        "partitions": [str(each) for each in found.partitions[:_PARTITIONS_MAX]],
        "partition_count": len(found.partitions) + found.partitions_left_off,
        "command": terminate_command(known.transactional_id, program),
    }


def terminate_question(transactional_id: str, found: TransactionExplanation) -> str:
    """What terminating will do."""
    name = shown(transactional_id)
    client = (
        "its producer" if found.client is None else f"its producer ({client_text(found.client)})"
    )
    fenced = (
        f"{client}, epoch {found.producer.epoch}, is fenced: each further request of it fails, and"
        " it has to be started again."
    )
    if found.state.is_idle:
        return f"'{name}' has no open transaction now. {fenced[0].upper()}{fenced[1:]}"
    count = len(found.partitions) + found.partitions_left_off
    where = "1 partition" if count == 1 else f"{count:,} partitions"
    return (
        f"Abort the open transaction of '{name}'? Its coordinator writes abort markers"
        f" in {where}: read_committed consumers never get its records, and offsets that it was to"
        f" commit are dropped. {fenced[0].upper()}{fenced[1:]}"
    )


def abort_question(topic: str, partition: int, offset: int, producer: str) -> str:
    """What aborting will do."""
    name = shown(topic)
    return (
        f"Abort the hanging transaction of {producer} that begins at offset {offset} of"
        f" {name}-{partition}? Its leader writes an abort marker in this partition:"
        " read_committed consumers skip its records and go on behind them. Make sure that its"
        " client has stopped: what it writes afterwards would hang again."
    )
