"""Transactional ids as requests describe them. Pure."""

from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

from cluster.coordinator.shards.requests import AnswerQuery
from cluster.coordinator.transactions.explanation import (
    PARTITIONS_MAX,
    ExplainTransaction,
    TransactionExplanation,
    explained,
)
from cluster.coordinator.transactions.history import IdHistory
from cluster.coordinator.transactions.parts import ShardParts
from cluster.coordinator.transactions.requests import (
    CountOpen,
    DescribedTransaction,
    DescribeTransaction,
    ListTransactions,
    OpenCount,
    ProducerIdentity,
)
from cluster.coordinator.transactions.states import TransactionState
from cluster.coordinator.transactions.transaction import Transaction
from cluster.model.clocks import Moment, WallMs
from cluster.model.ids import TopicPartition

IDS_PER_PIECE: Final = 100


class TransactionViews:
    """Answers queries; changes nothing."""

    def __init__(self, parts: ShardParts) -> None:
        self._parts = parts

    def table(self) -> dict[type, AnswerQuery]:
        """The method for each type of query."""
        return dict(
            [
                DescribeTransaction.answered_by(self._describe),
                ListTransactions.answered_by(self._list),
                ExplainTransaction.answered_by(self._explain),
                CountOpen.answered_by(self._count_open),
            ]
        )

    def _describe(self, query: DescribeTransaction, _now: Moment) -> DescribedTransaction | None:
        transaction = self._parts.transactions.get(query.transactional_id)
        return None if transaction is None else _described(transaction)

    def _explain(self, query: ExplainTransaction, _now: Moment) -> TransactionExplanation | None:
        parts, transactional_id = self._parts, query.transactional_id
        transaction = parts.transactions.get(transactional_id)
        if transaction is None:
            return None
        stored, pending = transaction.stored, transaction.pending
        known = parts.histories.of(transactional_id)
        since_ms = query.loaded_wall_ms
        if parts.histories.forgot_at is not None:
            since_ms = parts.histories.forgot_at if known is None else known.since_wall_ms
        history = known or IdHistory(WallMs(since_ms))
        partitions, unmarked = _shown(stored.partitions), _shown(transaction.unmarked)
        return TransactionExplanation(
            stored.state,
            ProducerIdentity(stored.producer_id, stored.producer_epoch),
            history.client,
            stored.timeout_ms,
            parts.options().timeout_check_interval_ms,
            stored.start_ms,
            stored.last_update_ms,
            partitions,
            len(stored.partitions) - len(partitions),
            unmarked,
            len(transaction.unmarked) - len(unmarked),
            None if pending is None else pending.state,
            -1 if pending is None else pending.last_update_ms,
            tuple(map(explained, history.transactions)),
            history.transactions_left_off,
            tuple(history.starts),
            tuple(history.refusals),
            max(query.loaded_wall_ms, since_ms),
        )

    def _count_open(self, _query: CountOpen, _now: Moment) -> OpenCount:
        ongoing = self._parts.ongoing
        for first in ongoing:  # in the order in which they began
            return OpenCount(len(ongoing), self._parts.transactions[first].stored.start_ms)
        return OpenCount(0, None)

    def _list(self, query: ListTransactions, now: Moment) -> Iterator[list[DescribedTransaction]]:
        is_ongoing = query.states == {TransactionState.ONGOING}
        ids = list(self._parts.ongoing if is_ongoing else self._parts.transactions)
        is_wanted = _filter(query, now)
        for begin in range(0, len(ids), IDS_PER_PIECE):
            known = self._parts.transactions
            some = [known[each] for each in ids[begin : begin + IDS_PER_PIECE] if each in known]
            yield [_described(each) for each in some if is_wanted(each)]


def _shown(partitions: Collection[TopicPartition]) -> tuple[TopicPartition, ...]:
    return tuple(sorted(partitions)[:PARTITIONS_MAX])


def _filter(query: ListTransactions, now: Moment) -> Callable[[Transaction], Any]:
    states, producer_ids, matches = query.states, query.producer_ids, query.matches
    began_before_ms = now.wall_ms - query.longer_than_ms if query.longer_than_ms >= 0 else None

    def is_wanted(transaction: Transaction) -> bool:
        stored = transaction.stored
        return (
            (not states or stored.state in states)
            and (not producer_ids or stored.producer_id in producer_ids)
            and (began_before_ms is None or stored.start_ms < began_before_ms)
            and (matches is None or matches(transaction.transactional_id))
        )

    return is_wanted


def _described(transaction: Transaction) -> DescribedTransaction:
    stored = transaction.stored
    return DescribedTransaction(
        transaction.transactional_id,
        stored.state,
        ProducerIdentity(stored.producer_id, stored.producer_epoch),
        stored.timeout_ms,
        stored.start_ms,
        stored.last_update_ms,
        # While a transaction ends, those that are left, as in Kafka.
        frozenset(transaction.unmarked) if stored.state.is_preparing else stored.partitions,
    )
