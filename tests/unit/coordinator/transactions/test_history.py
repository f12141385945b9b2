"""What is remembered of the last transactions of each id, by the shard and by its limit."""

from typing import Any

import pytest

from cluster.coordinator.transactions.explanation import (
    ANSWER,
    QUESTION,
    STEP_PARTITIONS_MAX,
    ExplainedTransaction,
    ExplainTransaction,
    ExplainTransactionAnswer,
    TransactionExplanation,
)
from cluster.coordinator.transactions.history import (
    REFUSALS_KEPT,
    STEPS_KEPT,
    TRANSACTIONS_KEPT,
    Asker,
    StepKind,
    TransactionHistories,
    Why,
)
from cluster.coordinator.transactions.requests import (
    NOBODY,
    AddPartitions,
    ClientName,
    EndTransaction,
    InitProducer,
    ProducerIdentity,
)
from cluster.coordinator.transactions.states import TransactionState
from cluster.coordinator.transactions.transaction import StoredTransaction
from cluster.model.clocks import Moment, MonotonicMs, WallMs
from cluster.model.errors import ErrorCode, PeerError
from cluster.model.ids import TopicPartition
from tests.support.transaction_stage import (
    ID,
    NONE,
    P0,
    P1,
    P2,
    TIMEOUT_MS,
    V2,
    WALL_MS,
    TransactionStage,
)

BILLING, AUDIT = ClientName("billing", "10.0.0.7"), ClientName("audit", "10.0.0.8")
LOADED_MS = WALL_MS + 500
COMMIT, ABORT = StepKind.COMMIT, StepKind.ABORT


class Told:
    """A shard whose clients have names."""

    def __init__(self, **options: Any) -> None:
        self.stage = TransactionStage(**options).loaded()

    def init(self, client: ClientName = BILLING, expected: ProducerIdentity | None = None) -> int:
        return self.stage.submit(InitProducer(ID, TIMEOUT_MS, expected, client=client))

    def start(self, client: ClientName = BILLING) -> ProducerIdentity:
        return self.stage.producer_in(self.init(client))

    def add(
        self, producer: ProducerIdentity, *partitions: TopicPartition, group: str | None = None
    ) -> int:
        wanted = frozenset(partitions)
        return self.stage.submit(AddPartitions(ID, producer, wanted, V2, BILLING, group))

    def end(
        self,
        producer: ProducerIdentity,
        *,
        is_commit: bool = True,
        client: ClientName = BILLING,
    ) -> int:
        return self.stage.submit(EndTransaction(ID, producer, is_commit, V2, client=client))

    def explained(self) -> TransactionExplanation:
        found = self.stage.ask(ExplainTransaction(ID, LOADED_MS))
        assert found is not None
        return found

    def last(self) -> ExplainedTransaction:
        return self.explained().transactions[-1]


def kinds(transaction: ExplainedTransaction) -> list[StepKind]:
    return [each.kind for each in transaction.steps]


def test_a_transaction_is_remembered_step_by_step() -> None:
    told = Told()
    producer = told.start()
    told.stage.pass_time(1_000)
    told.add(producer, P0, P1)
    told.stage.pass_time(30)
    told.add(producer, P2, group="readers")
    told.stage.pass_time(5)
    told.stage.holds_appends = True
    told.end(producer)
    told.stage.pass_time(4)
    told.stage.settle()
    told.stage.pass_time(2)
    told.stage.mark(P0, P2)
    told.stage.pass_time(1)
    told.stage.mark(P1)
    told.stage.write_ends()
    told.stage.settle()

    found = told.last()
    assert (found.producer, found.is_complete, found.is_partial) == (producer, True, False)
    assert (found.began_wall_ms, found.timeout_ms) == (WALL_MS + 2_000, TIMEOUT_MS)
    assert [(each.kind, each.after_ms, each.took_ms, each.partitions) for each in found.steps] == [
        (StepKind.ADDED, 0, 0, (P0, P1)),
        (StepKind.ADDED, 30, 0, (P2,)),
        (COMMIT, 35, 4, ()),
        (StepKind.MARKED, 41, 0, (P0, P2)),
        (StepKind.MARKED, 42, 0, (P1,)),
        (StepKind.COMPLETE, 42, 0, ()),
    ]
    assert [(each.client, each.group) for each in found.steps[:3]] == [
        (BILLING, None),
        (BILLING, "readers"),
        (BILLING, None),
    ]
    (start,) = told.explained().starts
    assert (start.producer, start.client, start.fenced) == (producer, BILLING, NOBODY)


def test_an_open_transaction_is_explained_with_what_is_being_stored() -> None:
    told = Told()
    told.add(told.start(), P1, P0)
    producer = told.explained().producer
    assert told.explained().storing is None
    told.stage.holds_appends = True
    told.end(producer, is_commit=False)
    told.stage.pass_time(70)

    found = told.explained()

    assert (found.state, found.storing) == (
        TransactionState.ONGOING,
        TransactionState.PREPARE_ABORT,
    )
    assert found.storing_since_wall_ms == WALL_MS + 1_000
    assert (found.client, found.partitions) == (BILLING, (P0, P1))
    assert found.timeout_check_interval_ms == 10_000
    told.stage.settle()
    told.stage.mark(P1)
    assert told.explained().unmarked == (P0,)
    assert told.explained().partitions == (P0, P1)
    assert kinds(told.last()) == [StepKind.ADDED, ABORT, StepKind.MARKED]


def test_another_producer_and_the_refusals_of_the_first_are_remembered() -> None:
    told = Told(marks=True)
    old = told.start()
    told.add(old, P0)
    told.stage.pass_time(10)
    new = told.start(AUDIT)
    for _ in range(3):
        told.stage.pass_time(100)
        assert told.stage.error(told.end(old)) is ErrorCode.producer_fenced
    assert told.stage.error(told.init(BILLING, old)) is ErrorCode.producer_fenced

    found = told.explained()
    (transaction,) = found.transactions
    end = transaction.steps[1]
    assert (end.kind, end.asker, end.client) == (ABORT, Asker.NEW_PRODUCER, AUDIT)
    assert found.client == AUDIT
    last = found.starts[-1]
    assert (last.producer, last.client, last.fenced_client) == (new, AUDIT, BILLING)
    ends, starts = found.refusals
    assert (ends.request, ends.producer, ends.client, ends.count) == ("EndTxn", old, BILLING, 3)
    assert ends.last_wall_ms - ends.first_wall_ms == 200
    assert (starts.request, starts.count) == ("InitProducerId", 1)


def test_a_timeout_is_remembered_as_what_aborted() -> None:
    told = Told(marks=True)
    told.add(told.start(), P0)
    told.stage.pass_time(TIMEOUT_MS + 20_000)
    (_, end, *_) = told.last().steps
    assert (end.kind, end.asker, end.client) == (ABORT, Asker.TIMEOUT, None)
    assert told.last().is_complete


def test_a_transition_that_is_not_stored_is_remembered() -> None:
    told = Told()
    producer = told.start()
    told.add(producer, P0)
    told.stage.holds_appends = True
    token = told.end(producer)
    told.stage.pass_time(40)
    told.stage.settle(ErrorCode.not_enough_replicas)
    assert told.stage.error(token) is not NONE
    assert kinds(told.last()) == [StepKind.ADDED, StepKind.NOT_STORED]
    assert told.last().steps[-1].took_ms == 40


def test_after_a_reload_the_beginning_is_missing_and_said_to_be() -> None:
    told = Told()
    producer = told.start()
    told.add(producer, P0)
    told.stage.pass_time(5_000)
    told.stage = told.stage.reloaded(marks=True)
    assert told.explained().transactions == ()
    assert told.explained().remembers_since_wall_ms == LOADED_MS
    assert told.explained().client is None
    told.end(producer)

    found = told.last()
    assert (found.is_partial, found.is_complete) == (True, True)
    assert (found.began_wall_ms, found.producer) == (WALL_MS + 1_000, producer)
    assert kinds(found) == [COMMIT, StepKind.MARKED, StepKind.COMPLETE]
    assert found.steps[0].after_ms == 5_000
    assert told.explained().client == BILLING


def test_the_numbers_of_everything_remembered_are_bounded() -> None:
    told = Told(marks=True)
    producer = told.start()
    for _ in range(TRANSACTIONS_KEPT + 3):
        told.add(producer, P0)
        producer = told.stage.producer_in(told.end(producer))
    found = told.explained()
    assert len(found.transactions) == TRANSACTIONS_KEPT
    assert found.transactions_left_off == 3
    told.stage.marks = False
    for number in range(STEPS_KEPT + 7):
        told.add(producer, TopicPartition("many", number))
    told.end(producer)
    assert told.last().steps_left_off == 7
    assert kinds(told.last())[-1] is COMMIT
    told.stage.mark_all()
    for number in range(REFUSALS_KEPT + 5):
        told.end(ProducerIdentity(producer.producer_id, 0), client=ClientName(str(number), ""))
    assert len(told.explained().refusals) == REFUSALS_KEPT
    marks = [each for each in told.last().steps if each.kind is StepKind.MARKED]
    assert not marks
    assert kinds(told.last())[-1] is StepKind.COMPLETE


def test_many_partitions_of_one_step_are_shown_in_part() -> None:
    told = Told()
    told.add(told.start(), *(TopicPartition("many", number) for number in range(500)))
    (step,) = told.last().steps
    assert len(step.partitions) == STEP_PARTITIONS_MAX
    assert step.partitions_left_off == 500 - STEP_PARTITIONS_MAX


# -- the limit of bytes ----------------------------------------------------------------------------

EMPTY = StoredTransaction(7, 3, TIMEOUT_MS)
ONGOING = EMPTY._replace(state=TransactionState.ONGOING, partitions=frozenset({P0}))


def now(ms: int) -> Moment:
    return Moment(MonotonicMs(ms), WallMs(WALL_MS + ms))


def test_ids_that_were_unused_for_longest_are_forgotten_first() -> None:
    histories = TransactionHistories(bytes_max=10_000)
    for number in range(40):
        at = now(number)
        histories.on_stored(f"id-{number}", EMPTY, ONGOING, Why(Asker.CLIENT, at), at)
        if number % 4 == 0:
            histories.on_marked("id-0", ONGOING, (P0,), at)
        assert histories.cost_bytes <= 10_000
    assert histories.of("id-0") is not None
    assert histories.of("id-1") is None
    assert histories.of("id-39") is not None
    assert histories.forgot_at is not None
    histories.take_those_in({f"id-{number}": None for number in range(40)})
    assert histories.cost_bytes == 0


def test_an_explanation_says_since_when_it_remembers_after_something_was_forgotten() -> None:
    stage = TransactionStage().loaded_with(known=ONGOING, unknown=ONGOING)
    histories = stage.shard._parts.histories  # noqa: SLF001
    histories.forgot_at = WallMs(WALL_MS + 700)
    stage.end((7, 3), transactional_id="known", version=0)
    for name, since_ms in (("known", WALL_MS + 1_000), ("unknown", WALL_MS + 700)):
        found = stage.ask(ExplainTransaction(name, WALL_MS))
        assert found is not None
        assert found.remembers_since_wall_ms == since_ms


def test_an_id_that_expires_or_moves_is_forgotten() -> None:
    told = Told()
    histories = told.stage.shard._parts.histories  # noqa: SLF001
    told.start()
    assert histories.of(ID) is not None
    told.stage.unload()
    assert histories.of(ID) is None
    assert histories.cost_bytes == 0


def test_an_unknown_id_has_no_explanation() -> None:
    assert TransactionStage().loaded().ask(ExplainTransaction("other", LOADED_MS)) is None


# -- the wire --------------------------------------------------------------------------------------


def test_an_answer_survives_the_wire() -> None:
    told = Told(marks=True)
    old = told.start()
    told.add(old, P0, P1, group="readers")
    producer = told.start(AUDIT)
    told.end(old)
    told.add(producer, P2)
    for found in (told.explained(), None):
        answer = ExplainTransactionAnswer(ErrorCode.none, 1, WALL_MS, found)
        assert ANSWER.read(ANSWER.pack(answer)) == answer
    assert QUESTION.read(QUESTION.pack("payments")) == "payments"


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x93\x01\x02\x03", b"\x94\x00\x00\xa1x\xc0"])
def test_a_malformed_answer_is_refused(body: bytes) -> None:
    with pytest.raises(PeerError, match=r"malformed|not msgpack"):
        ANSWER.read(body)
