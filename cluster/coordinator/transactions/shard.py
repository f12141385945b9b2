"""The transactions of one partition of `__transaction_state`: one object for every event. Pure.

Kafka: `TransactionCoordinator` and `TransactionStateManager`.
"""

from collections.abc import Callable, Iterator
from typing import Any

from cluster.coordinator.shards.effects import Effects
from cluster.coordinator.shards.load_report import LoadReport
from cluster.coordinator.shards.requests import AnswerQuery, Query, ReplyT, Request, TakeRequest
from cluster.coordinator.transactions.counts import TransactionCounts
from cluster.coordinator.transactions.history import TransactionHistories
from cluster.coordinator.transactions.loading import Loading
from cluster.coordinator.transactions.machine import TransactionMachine
from cluster.coordinator.transactions.options import TransactionOptions
from cluster.coordinator.transactions.parts import ShardParts
from cluster.coordinator.transactions.requests import (
    AbortIfLate,
    AddPartitions,
    CountRetried,
    EndTransaction,
    InitProducer,
    PartitionsMarked,
    VerifyPartitions,
)
from cluster.coordinator.transactions.storing import Storing
from cluster.coordinator.transactions.sweeps import Sweep
from cluster.coordinator.transactions.views import TransactionViews
from cluster.model.clocks import Moment, MonotonicMs
from cluster.model.error_codes import ErrorCode
from cluster.model.ids import NO_PRODUCER_ID, LeaderEpoch

ALARMS_PER_TICK = 200
_FORGOTTEN_PER_STEP = 500


class TransactionShard:
    """Implements `Shard`.

    Handlers check the form of transactional ids and timeouts.
    """

    def __init__(
        self,
        options: Callable[[], TransactionOptions],
        coordinator_epoch: LeaderEpoch,
        histories: TransactionHistories | None = None,
        counts: TransactionCounts | None = None,
    ) -> None:
        """`coordinator_epoch` is the leader epoch of the partition; `histories` and `counts` are
        those of all shards of the broker."""
        self._parts = ShardParts(
            *(options, coordinator_epoch),
            *(histories or TransactionHistories(), counts or TransactionCounts()),
        )
        storing = Storing(self._parts)
        machine = TransactionMachine(self._parts, storing)
        self._loading = Loading(self._parts, storing)
        self._timeouts = Sweep(
            lambda: self._parts.ongoing,
            machine.on_timeout,
            lambda: options().timeout_check_interval_ms,
        )
        self._expiry = Sweep(
            lambda: self._parts.transactions,
            machine.on_expiry,
            lambda: options().expiry_check_interval_ms,
        )
        self._requests: dict[type, TakeRequest] = dict(
            [
                InitProducer.taken_by(machine.init),
                AddPartitions.taken_by(machine.add),
                EndTransaction.taken_by(machine.end),
                PartitionsMarked.taken_by(machine.marked),
                AbortIfLate.taken_by(machine.with_producer_id),
            ]
        )
        self._queries: dict[type, AnswerQuery] = (
            dict(
                [
                    VerifyPartitions.answered_by(machine.verify),
                    CountRetried.answered_by(storing.count_retried),
                ]
            )
            | TransactionViews(self._parts).table()
        )

    def submit(self, request: Request[Any], token: object, now: Moment) -> Effects:
        self._requests[type(request)](request, token, now)
        return self._parts.outbox.take()

    def ask(self, query: Query[ReplyT], now: Moment) -> ReplyT:
        reply: ReplyT = self._queries[type(query)](query, now)
        return reply

    @property
    def load_report(self) -> LoadReport:
        return self._loading.report

    def replay(
        self,
        key: bytes | None,
        value: bytes | None,
        producer_id: int = NO_PRODUCER_ID,  # noqa: ARG002 - of batches that this topic lacks
    ) -> None:
        self._loading.replay(key, value)

    def replay_marker(self, producer_id: int, *, is_commit: bool) -> None:
        """The topic has no markers."""

    def finishing_steps(self) -> Iterator[None]:
        return self._loading.finishing_steps()

    def resuming_steps(self, now: Callable[[], Moment]) -> Iterator[Effects]:
        """The markers of transactions whose outcome is stored are written again."""
        for _ in self._loading.resuming_steps(now):
            yield self._parts.outbox.take()

    def on_loaded(self, now: Moment) -> Effects:
        self._timeouts.start(now)
        self._expiry.start(now)
        return self._parts.outbox.take()

    def unload(self, now: Moment) -> Effects:
        self._parts.waits.abandon()
        self._parts.outbox.abandon(now)
        self._parts.ongoing.clear()
        self._parts.alarms.clear()
        self._histories_left = self._parts.histories.take_those_in(self._parts.transactions)
        effects = self._parts.outbox.take()
        self._left_over = self._parts.transactions
        self._parts.transactions = {}
        return effects

    def forgetting_steps(self) -> Iterator[None]:
        left, histories = self._left_over, self._histories_left
        while left:
            for _ in range(min(_FORGOTTEN_PER_STEP, len(left))):
                left.popitem()
            del histories[-_FORGOTTEN_PER_STEP:]
            yield

    def on_appended(
        self, append_id: int, error: ErrorCode, now: Moment, *, is_in_log: bool | None = None
    ) -> Effects:
        """A record that is in the log with an error may still get lost with this leader, so nothing
        may follow from it, such as markers: it counts as not stored. If it stays, a later record of
        the transactional id replaces it, or the next leader continues with it.
        """
        del is_in_log
        self._parts.outbox.on_appended(append_id, error, now, is_in_log=None)
        return self._parts.outbox.take()

    def on_append_late(self, append_id: int, now: Moment) -> Effects:
        self._parts.outbox.on_late(append_id, now)
        return self._parts.outbox.take()

    def next_deadline_ms(self) -> MonotonicMs | None:
        earliest_ms = self._parts.alarms.next_ms()
        for due_ms in (self._timeouts.due_ms, self._expiry.due_ms):
            if earliest_ms is None or (due_ms is not None and due_ms < earliest_ms):
                earliest_ms = due_ms
        return earliest_ms

    def on_tick(self, now: Moment) -> Effects:
        """Answer requests that have waited for too long; a part of the checks for timeouts and
        expired ids."""
        self._parts.alarms.ring(now, ALARMS_PER_TICK)
        self._timeouts.work(now)
        self._expiry.work(now)
        return self._parts.outbox.take()
