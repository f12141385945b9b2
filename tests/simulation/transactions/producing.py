"""A transactional producer of the old protocol or of the new one (KIP-890, part 2).

The old one adds partitions explicitly, and a client bumps the epoch itself after an error. With the
new one, writing adds a partition, and each end of a transaction bumps the epoch.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from cluster.brokers.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    init_producer_id,
    produce,
    txn_offset_commit,
)
from cluster.model.errors import ErrorCode
from cluster.model.ids import TopicPartition
from cluster.model.topics import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from cluster.protocol.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from cluster.protocol.produce_codec import ProducedTopic, ProduceRequest
from cluster.records.builder import NewRecord, ProducerIdentity, build_batch
from tests.simulation.transactions.client_process import (
    BACKOFF_MS,
    Ask,
    ClientProcess,
    Pause,
    Script,
)
from tests.simulation.transactions.ledger import Ledger, Outcome, Transaction

GIVE_UP_MS = 12_000
"""How long a request is repeated: `max.block.ms`."""
_DELIVERY_MS = (500, 3_000, 12_000)
"""How long a batch is repeated: `delivery.timeout.ms`."""
_REPEATED = frozenset(
    {
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.not_coordinator,
        ErrorCode.concurrent_transactions,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.request_timed_out,
        ErrorCode.not_leader_or_follower,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.kafka_storage_error,
        ErrorCode.network_exception,
    }
)
_MAY_BE_STORED = frozenset({None, ErrorCode.coordinator_not_available, ErrorCode.not_coordinator})
"""The answers to EndTxn after which its outcome may be stored nevertheless; None: no answer."""
_OVER = frozenset(
    {
        ErrorCode.producer_fenced,
        ErrorCode.invalid_producer_epoch,
        ErrorCode.invalid_producer_id_mapping,
        ErrorCode.invalid_txn_state,
    }
)


class Over(Exception):
    """This producer is over: fenced, or without an answer for too long."""

    def __init__(self, text: str, *, is_fenced: bool) -> None:
        super().__init__(text)
        self.is_fenced = is_fenced


class Abortable(Exception):
    """The transaction is to be aborted."""


class Member(NamedTuple):
    """The place in a group of the one who commits offsets."""

    generation: int = -1
    member_id: str = ""


NO_MEMBER = Member()


class TransactionalProducer:
    """The producer of one process; its methods are parts of the process's script."""

    def __init__(
        self,
        process: ClientProcess,
        ledger: Ledger,
        transactional_id: str,
        *,
        is_new: bool,
        timeout_ms: int,
    ) -> None:
        """`is_new`: of the new protocol."""
        self.process = process
        self.ledger = ledger
        self.transactional_id = transactional_id
        self.is_new = is_new
        self._timeout_ms = timeout_ms
        self._identity = (-1, -1)
        self._sequences: dict[TopicPartition, int] = {}
        self._added: set[TopicPartition | str] = set()
        """Partitions and groups that the coordinator has added, of the old protocol."""
        self._is_started = False
        """Whether something was added to the transaction."""
        self.begun_ms = 0
        """When the last transaction began."""
        self.doubtful_ms: int | None = None
        """When an InitProducerId was not answered the last time: it may still arrive."""

    def initialize(self) -> Script[None]:
        """InitProducerId: fence all earlier producers, or continue after an error."""
        response = yield from self._repeat(
            init_producer_id.HANDLER,
            5 if self.is_new else 4,
            lambda: InitProducerIdRequest(
                transactional_id=self.transactional_id,
                transaction_timeout=timedelta(milliseconds=self._timeout_ms),
                producer_id=self._identity[0],
                producer_epoch=self._identity[1],
            ),
            note=self._note_doubt,
        )
        self._take_identity(response)

    def _note_doubt(self, code: ErrorCode | None) -> None:
        if code is None:
            self.doubtful_ms = self.process.cluster.world.now_ms

    def begin(self) -> Transaction:
        """Begin a transaction."""
        self._added.clear()
        self._is_started = False
        self.begun_ms = self.process.cluster.world.now_ms
        return self.ledger.begin(self.transactional_id, self.process.name)

    def _take_identity(self, response: Any) -> None:
        identity = response.producer_id, response.producer_epoch
        if identity != self._identity:
            self._identity = identity
            self._sequences.clear()

    # Writing

    def write(
        self, transaction: Transaction, values: Mapping[TopicPartition, list[bytes]]
    ) -> Script[None]:
        """Write a batch to each of some partitions, until all are acknowledged.

        Raises Abortable and Over.
        """
        if self.is_new:
            self._is_started = True
        else:
            yield from self._add_partitions(values)
        left: dict[TopicPartition, bytes] = {}
        for partition, some in values.items():
            for value in some:
                self.ledger.send(transaction, partition, value)
            left[partition] = self._batch(partition, some)
        yield from self._write_all(left)
        for partition, some in values.items():
            self._sequences[partition] = self._sequences.get(partition, 0) + len(some)

    def _batch(self, partition: TopicPartition, values: Iterable[bytes]) -> bytes:
        wall_ms = self.process.cluster.world.wall_ms()
        batch = build_batch(
            [NewRecord(value, None, wall_ms) for value in values],
            producer=ProducerIdentity(*self._identity, self._sequences.get(partition, 0)),
            is_transactional=True,
        )
        return bytes(batch)

    def _write_all(self, left: dict[TopicPartition, bytes]) -> Script[None]:
        world = self.process.cluster.world
        end_ms = world.now_ms + self.process.random.choice(_DELIVERY_MS)
        while left:
            requests = self._requests(left)
            for response in (yield requests):
                if response is None:
                    continue
                for name, _, results in response[0]:
                    for result in results:
                        partition = TopicPartition(name, result.index)
                        if _is_written(ErrorCode(result.error_code)):
                            del left[partition]
            if left:
                if world.now_ms >= end_ms:
                    raise Abortable(f"{sorted(left)} not written in time")
                yield Pause(BACKOFF_MS)

    def _requests(self, left: Mapping[TopicPartition, bytes]) -> list[Ask]:
        cluster = self.process.cluster
        by_leader: dict[int, dict[str, ProducedTopic]] = {}
        for partition, batch in left.items():
            leader = cluster.believed_leader(partition)
            if leader is not None:
                topics = by_leader.setdefault(leader, {})
                topic = topics.setdefault(partition.topic, ProducedTopic(partition.topic, None, []))
                topic.partitions.append((partition.partition, memoryview(batch)))
        return [
            Ask(
                leader,
                produce.HANDLER,
                12 if self.is_new else 11,
                ProduceRequest(self.transactional_id, -1, 1_500, list(topics.values())),
            )
            for leader, topics in by_leader.items()
        ]

    def _add_partitions(self, partitions: Iterable[TopicPartition]) -> Script[None]:
        absent = [each for each in partitions if each not in self._added]
        if not absent:
            return
        yield from self._repeat(
            add_partitions_to_txn.HANDLER,
            3,
            lambda: AddPartitionsToTxnRequest(
                transactions=(),
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=self._identity[0],
                v3_and_below_producer_epoch=self._identity[1],
                v3_and_below_topics=tuple(
                    AddPartitionsToTxnTopic(name=topic, partitions=(number,))
                    for topic, number in absent
                ),
            ),
            _error_of_added,
        )
        self._added.update(absent)
        self._is_started = True

    # Offsets

    def commit_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int], member: Member = NO_MEMBER
    ) -> Script[None]:
        """Make offsets of a group part of the transaction.

        Raises Abortable and Over.
        """
        if self.is_new:
            self._is_started = True
        elif group not in self._added:
            yield from self._repeat(
                add_offsets_to_txn.HANDLER,
                3,
                lambda: AddOffsetsToTxnRequest(
                    transactional_id=self.transactional_id,
                    producer_id=self._identity[0],
                    producer_epoch=self._identity[1],
                    group_id=group,
                ),
            )
            self._added.add(group)
            self._is_started = True
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self._identity[0],
            producer_epoch=self._identity[1],
            generation_id=member.generation,
            member_id=member.member_id,
            topics=tuple(
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=(
                        TxnOffsetCommitRequestPartition(
                            partition_index=number,
                            committed_offset=offset,
                            committed_metadata="",
                        ),
                    ),
                )
                for (topic, number), offset in offsets.items()
            ),
        )
        yield from self._repeat(
            txn_offset_commit.HANDLER,
            5 if self.is_new else 3,
            lambda: request,
            _error_of_commit,
            key=group,
            topic=CONSUMER_OFFSETS_TOPIC,
        )

    # The end

    def end(self, transaction: Transaction, *, is_commit: bool) -> Script[None]:
        """Commit or abort. Raises Abortable (a commit only) and Over."""
        if not self._is_started:
            transaction.outcome = Outcome.COMMITTED if is_commit else Outcome.ABORTED
            assert not is_commit or not transaction.sent
            return
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._identity[0],
            producer_epoch=self._identity[1],
            committed=is_commit,
        )
        if is_commit:
            transaction.outcome = Outcome.UNKNOWN
        may_be_stored = False

        def note(code: ErrorCode | None) -> None:
            nonlocal may_be_stored
            may_be_stored |= code in _MAY_BE_STORED

        try:
            response = yield from self._repeat(
                end_txn.HANDLER, 5 if self.is_new else 4, lambda: request, note=note
            )
        except (Abortable, Over):
            if is_commit and not may_be_stored:
                transaction.outcome = Outcome.ABORTED
            raise
        transaction.outcome = Outcome.COMMITTED if is_commit else Outcome.ABORTED
        if self.is_new:
            self._take_identity(response)

    def abort(self, transaction: Transaction, *, is_broken: bool) -> Script[None]:
        """Abort; after an error, a producer of the old protocol also gets a new epoch, since what
        it has sent may still arrive. Raises Over.
        """
        yield from self.end(transaction, is_commit=False)
        if is_broken and not self.is_new:
            yield from self.initialize()

    def _repeat(
        self,
        handler: Any,
        version: int,
        new_request: Callable[[], Any],
        error_of: Callable[[Any], ErrorCode] = lambda response: response.error_code,
        *,
        key: str | None = None,
        topic: str = TRANSACTION_STATE_TOPIC,
        note: Callable[[ErrorCode | None], None] = lambda _code: None,
    ) -> Script[Any]:
        """Ask a coordinator until it answers with something that need not be repeated."""
        process = self.process
        end_ms = process.cluster.world.now_ms + GIVE_UP_MS
        while True:
            response = yield from process.ask_coordinator(
                topic,
                key or self.transactional_id,
                handler,
                version,
                new_request(),
                may_be_late=self.is_new,
            )
            code = None if response is None else error_of(response)
            note(code)
            if code is ErrorCode.none:
                return response
            if code in _OVER:
                raise Over(f"{handler.api.key.name}: {code.name}", is_fenced=True)
            if code is not None and code not in _REPEATED:
                raise Abortable(f"{handler.api.key.name}: {code.name}")
            if process.cluster.world.now_ms >= end_ms:
                raise Over(f"{handler.api.key.name}: not answered in time", is_fenced=False)
            yield Pause(BACKOFF_MS)


def _is_written(code: ErrorCode) -> bool:
    if code in (ErrorCode.none, ErrorCode.duplicate_sequence_number):
        return True
    if code not in _REPEATED:
        raise Abortable(f"PRODUCE: {code.name}")
    return False


def _error_of_added(response: Any) -> ErrorCode:
    codes = [
        each.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for each in topic.results_by_partition
    ]
    return next((code for code in codes if code is not ErrorCode.none), ErrorCode.none)


def _error_of_commit(response: Any) -> ErrorCode:
    codes = [each.error_code for topic in response.topics for each in topic.partitions]
    return next((code for code in codes if code is not ErrorCode.none), ErrorCode.none)
