"""Transactional ids as requests describe them. Pure."""

from collections.abc import Callable
from typing import Any

from cluster.coordinator.shards.requests import AnswerQuery
from cluster.coordinator.transactions.parts import ShardParts
from cluster.coordinator.transactions.requests import (
    DescribedTransaction,
    DescribeTransaction,
    ListTransactions,
    ProducerIdentity,
)
from cluster.coordinator.transactions.states import TransactionState
from cluster.coordinator.transactions.transaction import Transaction
from cluster.model.clocks import Moment


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
            ]
        )

    def _describe(self, query: DescribeTransaction, _now: Moment) -> DescribedTransaction | None:
        transaction = self._parts.transactions.get(query.transactional_id)
        return None if transaction is None else _described(transaction)

    def _list(self, query: ListTransactions, now: Moment) -> list[DescribedTransaction]:
        if query.states == {TransactionState.ONGOING}:
            known = self._parts.transactions
            looked_at = [known[each] for each in self._parts.ongoing]
        else:
            looked_at = list(self._parts.transactions.values())
        is_wanted = _filter(query, now)
        return [_described(each) for each in looked_at if is_wanted(each)]


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
        stored.partitions,
    )
