"""One shard of the transaction coordinator; the stage does the runtime's part: time, appends,
answers, new producer ids, and the markers if a test asks for them.
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import count
from typing import Any, get_args

from cluster.coordinator.shards.effects import Append, CoordinatorRecord, Effects
from cluster.coordinator.shards.requests import Query, ReplyT, Request
from cluster.coordinator.transactions.counts import TransactionCounts
from cluster.coordinator.transactions.options import TransactionOptions
from cluster.coordinator.transactions.records import (
    read_transaction_key,
    read_transaction_value,
    transaction_key,
    transaction_value,
)
from cluster.coordinator.transactions.requests import (
    AbortIfLate,
    AddPartitions,
    DescribedTransaction,
    DescribeTransaction,
    EndMarkers,
    EndTransaction,
    InitProducer,
    PartitionsMarked,
    ProducerIdentity,
    ProducerReply,
    VerifyPartitions,
    WantsProducerId,
)
from cluster.coordinator.transactions.shard import TransactionShard
from cluster.coordinator.transactions.states import TransactionState
from cluster.coordinator.transactions.transaction import StoredTransaction
from cluster.coordinator.transactions.unwritten_ends import DELAY_MS
from cluster.model.clocks import Moment, MonotonicMs, WallMs
from cluster.model.error_codes import ErrorCode
from cluster.model.ids import NO_PRODUCER_ID, LeaderEpoch, TopicPartition

ID = "payments-1"
TIMEOUT_MS = 60_000
WALL_MS = 1_700_000_000_000
V1, V2 = 0, 2
"""The transaction versions of clients: before KIP-890, and with it."""
P0, P1, P2 = (TopicPartition("orders", number) for number in range(3))
NONE = ErrorCode.none


def reply_type(request: Request[Any]) -> type:
    """The type in the brackets of the request's base class."""
    (base,) = type(request).__orig_bases__  # type: ignore[attr-defined]
    (found,) = get_args(base)
    return type(None) if found is None else found


class TransactionStage:
    """Appends succeed at once, unless `holds_appends` is set: then `settle` decides. Partitions get
    their markers from `mark`, or at once if `marks` is set.

    Answers are by token; a request's token is a number. A token that is answered twice fails.
    """

    def __init__(
        self,
        options: TransactionOptions | None = None,
        coordinator_epoch: int = 3,
        *,
        marks: bool = False,
        holds_appends: bool = False,
    ) -> None:
        self.options = options or TransactionOptions()
        self.counts = TransactionCounts()
        self.shard = TransactionShard(
            lambda: self.options, LeaderEpoch(coordinator_epoch), counts=self.counts
        )
        self.coordinator_epoch = coordinator_epoch
        self.now_ms = 1_000
        self.marks = marks
        self.holds_appends = holds_appends
        self.in_flight: list[Append] = []
        self.log: list[CoordinatorRecord] = []
        self.answers: dict[int, Any] = {}
        self.asked: dict[int, Request[Any]] = {}
        self.sent: list[EndMarkers] = []
        """Markers that were asked for and not reported as written."""
        self.tokens = count(1)
        self.fresh_ids = count(1_000)

    @property
    def now(self) -> Moment:
        return Moment(MonotonicMs(self.now_ms), WallMs(WALL_MS + self.now_ms))

    # ------------------------------------------------------------------ the runtime's part

    def loaded(
        self, records: Iterable[tuple[bytes | None, bytes | None]] = ()
    ) -> "TransactionStage":
        for key, value in records:
            self.shard.replay(key, value)
            if key is not None:
                self.log.append(CoordinatorRecord(key, value))
        self.finish_loading()
        return self

    def finish_loading(self) -> None:
        """All records were replayed."""
        for _ in self.shard.finishing_steps():
            pass
        self.perform(self.shard.on_loaded(self.now))
        for effects in self.shard.resuming_steps(lambda: self.now):
            self.perform(effects)

    def loaded_with(self, **stored: StoredTransaction) -> "TransactionStage":
        """Begin with stored transactions, by the ending of the transactional id."""
        return self.loaded(
            (transaction_key(name), transaction_value(each)) for name, each in stored.items()
        )

    def reloaded(self, **options: Any) -> "TransactionStage":
        """The shard of the next leader, loaded from the same log."""
        successor = TransactionStage(self.options, self.coordinator_epoch + 1, **options)
        successor.now_ms = self.now_ms
        successor.tokens, successor.fresh_ids = self.tokens, self.fresh_ids
        return successor.loaded(self.log)

    def perform(self, effects: Effects) -> None:
        for token, reply in effects.answers:
            assert isinstance(token, int)
            assert token not in self.answers, f"token {token} is answered twice"
            assert isinstance(reply, reply_type(self.asked[token]))
            self.answers[token] = reply
        self.in_flight += effects.appends
        self.sent += [each for each in effects.messages if isinstance(each, EndMarkers)]
        if not self.holds_appends:
            self.settle()
        if self.marks:
            self.mark_all()
        for token, reply in effects.answers:
            if isinstance(reply, ProducerReply) and reply.needs_producer_id:
                assert isinstance(token, int)
                self._ask_again(token)
        for message in effects.messages:
            if isinstance(message, WantsProducerId):
                self.submit(AbortIfLate(message.transactional_id, next(self.fresh_ids)))

    def _ask_again(self, token: int) -> None:
        """What the handler does: fetch a producer id, and submit the request with it."""
        del self.answers[token]
        request: Any = self.asked[token]
        assert request.fresh_producer_id == NO_PRODUCER_ID
        self.asked[token] = replace(request, fresh_producer_id=next(self.fresh_ids))
        self.perform(self.shard.submit(self.asked[token], token, self.now))

    def settle(self, error: ErrorCode = NONE, *, is_in_log: bool | None = None) -> None:
        """All appends in flight succeed, or fail."""
        while self.in_flight:
            self.settle_one(error, is_in_log=is_in_log)

    def settle_one(self, error: ErrorCode = NONE, *, is_in_log: bool | None = None) -> None:
        append = self.in_flight.pop(0)
        if error is NONE or is_in_log:
            self.log += append.records
        held, self.holds_appends = self.holds_appends, True
        effects = self.shard.on_appended(append.append_id, error, self.now, is_in_log=is_in_log)
        self.perform(effects)
        self.holds_appends = held

    def be_late(self) -> None:
        """The oldest append is not confirmed in time."""
        self.perform(self.shard.on_append_late(self.in_flight[0].append_id, self.now))

    def pass_time(self, duration_ms: int) -> None:
        """Call the shard at its deadlines until so much time has passed."""
        until_ms = self.now_ms + duration_ms
        while True:
            deadline_ms = self.shard.next_deadline_ms()
            if deadline_ms is None or deadline_ms > until_ms:
                break
            self.now_ms = max(self.now_ms, deadline_ms)
            self.perform(self.shard.on_tick(self.now))
        self.now_ms = until_ms

    def unload(self) -> None:
        self.holds_appends = True
        self.perform(self.shard.unload(self.now))

    # ------------------------------------------------------------------ markers

    def mark(self, *partitions: TopicPartition, message: EndMarkers | None = None) -> None:
        """Some partitions have the marker of the oldest transaction that waits for them."""
        message = message or self.sent[0]
        if message in self.sent:
            left = message.partitions.difference(partitions)
            index = self.sent.index(message)
            self.sent[index : index + 1] = [message._replace(partitions=left)] if left else []
        self.submit(PartitionsMarked(message.transactional_id, message.producer, partitions))

    def mark_all(self) -> None:
        while self.sent:
            self.mark(*self.sent[0].partitions)

    def write_ends(self) -> None:
        """The transactions that are complete get their last record."""
        self.pass_time(DELAY_MS)

    # ------------------------------------------------------------------ requests

    def submit(self, request: Request[Any]) -> int:
        """The token by which the reply is found in `answers`, now or later."""
        token = next(self.tokens)
        self.asked[token] = request
        self.perform(self.shard.submit(request, token, self.now))
        return token

    def ask(self, query: Query[ReplyT]) -> ReplyT:
        return self.shard.ask(query, self.now)

    def init(
        self,
        transactional_id: str = ID,
        expected: tuple[int, int] | None = None,
        timeout_ms: int = TIMEOUT_MS,
    ) -> int:
        identity = None if expected is None else ProducerIdentity(*expected)
        return self.submit(InitProducer(transactional_id, timeout_ms, identity))

    def producer(self, transactional_id: str = ID, **options: Any) -> ProducerIdentity:
        """The producer of a new InitProducerId that is answered at once."""
        return self.producer_in(self.init(transactional_id, **options))

    def add(
        self,
        producer: tuple[int, int],
        *partitions: TopicPartition,
        transactional_id: str = ID,
        version: int = V2,
    ) -> int:
        identity = ProducerIdentity(*producer)
        wanted = frozenset(partitions or (P0,))
        return self.submit(AddPartitions(transactional_id, identity, wanted, version))

    def end(
        self,
        producer: tuple[int, int],
        *,
        is_commit: bool = True,
        transactional_id: str = ID,
        version: int = V2,
    ) -> int:
        identity = ProducerIdentity(*producer)
        return self.submit(EndTransaction(transactional_id, identity, is_commit, version))

    def verify(
        self, producer: tuple[int, int], *partitions: TopicPartition, transactional_id: str = ID
    ) -> list[ErrorCode]:
        asked = partitions or (P0,)
        query = VerifyPartitions(transactional_id, ProducerIdentity(*producer), frozenset(asked))
        found = self.ask(query)
        return [found[each] for each in asked]

    # ------------------------------------------------------------------ what tests look at

    def error(self, token: int) -> ErrorCode | None:
        """The error in an answer; None while there is no answer."""
        reply = self.answers.get(token)
        found = reply.error if isinstance(reply, ProducerReply) else reply
        assert found is None or isinstance(found, ErrorCode)
        return found

    def producer_in(self, token: int) -> ProducerIdentity:
        """The producer in an answer without an error."""
        reply = self.answers[token]
        assert reply.error is NONE
        assert isinstance(reply.producer, ProducerIdentity)
        return reply.producer

    def described(self, transactional_id: str = ID) -> DescribedTransaction | None:
        return self.ask(DescribeTransaction(transactional_id))

    def state(self, transactional_id: str = ID) -> TransactionState:
        found = self.described(transactional_id)
        assert found is not None
        return found.state

    def stored(self, transactional_id: str = ID) -> StoredTransaction:
        """What the newest record of the id says; the shard must say the same."""
        key = transaction_key(transactional_id)
        values = [record.value for record in self.log if record.key == key]
        assert values[-1] is not None
        return read_transaction_value(values[-1])

    def history(self, transactional_id: str = ID) -> list[str]:
        """The states that records of the id have had."""
        return [
            "tombstone"
            if record.value is None
            else read_transaction_value(record.value).state.label
            for record in self.log
            if read_transaction_key(record.key) == transactional_id
        ]
