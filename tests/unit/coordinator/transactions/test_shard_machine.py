"""Any sequence of requests of old and new clients, appends, markers, time, and other coordinators.

Two clients share each transactional id, and newer ones also repeat requests late. Invariants: a
request is answered once; a transaction ends once and in one way, and its markers are those of the
stored outcome; what was acknowledged as committed contains every acknowledged partition; a
producer that was replaced gets nothing more; the shard's state is that of the log. In the end every
request was answered and every transaction has ended.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from cluster.coordinator.shards.effects import CoordinatorRecord, Effects
from cluster.coordinator.transactions.options import DAY_MS
from cluster.coordinator.transactions.records import (
    read_transaction_key,
    read_transaction_value,
    transaction_key,
    transaction_value,
)
from cluster.coordinator.transactions.requests import (
    AddPartitions,
    EndMarkers,
    EndTransaction,
    InitProducer,
    ProducerIdentity,
    ProducerReply,
)
from cluster.coordinator.transactions.states import TransactionState
from cluster.coordinator.transactions.transaction import LAST_EPOCH, StoredTransaction
from cluster.model.clocks import WallMs
from cluster.model.error_codes import ErrorCode
from cluster.model.ids import NO_PRODUCER_ID, TopicPartition
from tests.support.examples import examples
from tests.support.transaction_stage import NONE, P0, P1, P2, V1, V2, WALL_MS, TransactionStage

FRESH, WORN = "fresh", "worn"
"""Transactional ids: a new one, and one whose epochs are soon exhausted."""
STATE = TransactionState
EXPECTED_ERRORS = {
    ErrorCode.invalid_producer_id_mapping,
    ErrorCode.producer_fenced,
    ErrorCode.concurrent_transactions,
    ErrorCode.invalid_txn_state,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
}
FOLLOWS = {
    None: {STATE.EMPTY, STATE.DEAD},
    STATE.EMPTY: {STATE.EMPTY, STATE.ONGOING, STATE.PREPARE_ABORT, STATE.DEAD},
    STATE.ONGOING: {STATE.ONGOING, STATE.PREPARE_COMMIT, STATE.PREPARE_ABORT},
    STATE.PREPARE_COMMIT: set(),  # until every partition has its marker
    STATE.PREPARE_ABORT: set(),
    STATE.COMPLETE_COMMIT: {STATE.EMPTY, STATE.ONGOING, STATE.PREPARE_ABORT, STATE.DEAD},
    STATE.COMPLETE_ABORT: {STATE.EMPTY, STATE.ONGOING, STATE.PREPARE_ABORT, STATE.DEAD},
}
PICK = st.integers(0, 50)
PARTITIONS = st.sets(st.sampled_from([P0, P1, P2]), min_size=1)
WAITS = st.sampled_from([0, 1, 50, 100, 500, 20_000, 70_000, 8 * DAY_MS])


@dataclass(frozen=True)
class Outcome:
    """The stored end of a transaction."""

    producer: tuple[int, int]
    """As markers have it."""
    is_commit: bool
    partitions: frozenset[TopicPartition]


@dataclass
class Client:
    """It sends a request when the one before is answered."""

    transactional_id: str
    version: int
    identity: ProducerIdentity | None = None
    acked: set[TopicPartition] = field(default_factory=set)
    """Partitions of its transaction."""
    token: int | None = None
    ending: bool | None = None
    """The outcome that it has asked for, and whose answer left it in doubt."""


@dataclass
class Known:
    """What the model knows of one transactional id."""

    stored: StoredTransaction | None = None
    is_certain: bool = True
    """Its newest record is that of the shard's state: no failed append follows it in the log."""
    decided: Outcome | None = None
    """The outcome whose markers are being written."""
    marked: set[TopicPartition] = field(default_factory=set)
    last: Outcome | None = None
    ends: dict[tuple[int, int], Outcome] = field(default_factory=dict)
    """By the producer of the transaction, with clients that bump the epoch with each end."""
    granted: list[ProducerIdentity] = field(default_factory=list)
    replaced_before: int = 0
    """Producers that were granted before this index were replaced by a later InitProducerId."""

    @property
    def is_complete(self) -> bool:
        """Whether the transaction is complete, although no record says so yet."""
        return self.decided is not None and self.marked == self.decided.partitions

    @property
    def shown(self) -> StoredTransaction | None:
        """The state that the shard shows."""
        if self.stored is None or self.decided is None or not self.is_complete:
            return self.stored
        is_commit = self.decided.is_commit
        new = self.stored._replace(
            state=STATE.COMPLETE_COMMIT if is_commit else STATE.COMPLETE_ABORT,
            partitions=frozenset(),
        )
        if new.next_producer_id == NO_PRODUCER_ID:
            return new
        return new._replace(
            producer_id=new.next_producer_id,
            producer_epoch=0,
            previous_producer_id=self.stored.producer_id,
            next_producer_id=NO_PRODUCER_ID,
        )


class ObservedStage(TransactionStage):
    """Tells the machine of each effect in order, and of each record with its outcome."""

    machine: "TransactionsMachine"

    def perform(self, effects: Effects) -> None:
        self.machine.look(effects)
        super().perform(effects)

    def settle_one(self, error: ErrorCode = NONE, *, is_in_log: bool | None = None) -> None:
        for record in self.in_flight[0].records:
            if error is NONE:
                self.machine.on_committed(record)
            elif is_in_log:
                self.machine.known[read_transaction_key(record.key)].is_certain = False
        super().settle_one(error, is_in_log=is_in_log)


class TransactionsMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.known = {name: Known() for name in (FRESH, WORN)}
        self.clients = [Client(name, version) for name in (FRESH, WORN) for version in (V1, V2)]
        self.requests: list[AddPartitions | EndTransaction] = []
        self.must_fail: dict[int, bool] = {}
        worn = StoredTransaction(7, LAST_EPOCH - 3, 30_000, last_update_ms=WallMs(WALL_MS))
        first = CoordinatorRecord(transaction_key(WORN), transaction_value(worn))
        self.stage = self.new_stage(3)
        self.on_committed(first)
        self.stage.loaded([first])

    def new_stage(self, coordinator_epoch: int) -> ObservedStage:
        stage = ObservedStage(coordinator_epoch=coordinator_epoch, holds_appends=True)
        stage.machine = self
        return stage

    # ------------------------------------------------------------------ the model

    def on_committed(self, record: CoordinatorRecord) -> None:
        """A record that the shard will take as stored."""
        known = self.known[read_transaction_key(record.key)]
        shown = known.shown
        before = shown.state if shown is not None else None
        new = None if record.value is None else read_transaction_value(record.value)
        if before is not None or new is not None:
            known.is_certain = True
        state = STATE.DEAD if new is None else new.state
        if new is not None and shown is not None and known.is_complete and state is before:
            last_update_ms = new.last_update_ms
            assert new == shown._replace(last_update_ms=last_update_ms, last_producer_epoch=-1)
        else:
            assert state in FOLLOWS[before], (before, state)
        if new is not None and shown is not None:
            rises = new.producer_epoch >= shown.producer_epoch
            assert rises or new.producer_id != shown.producer_id
        self.take(known, new)

    def take(self, known: Known, new: StoredTransaction | None) -> None:
        """The record is the state of its id: of the shard, or of the next one that loads it."""
        known.stored = new
        if known.is_complete:
            known.decided = None
            known.marked = set()
        assert known.decided is None or new is not None
        if new is not None and new.state.is_preparing:
            outcome = self.outcome(new)
            assert known.decided in (None, outcome)
            known.decided = known.last = outcome
            if new.client_version == V2:
                ended = new.producer_id, new.producer_epoch - 1
                assert known.ends.setdefault(ended, outcome) == outcome
        else:
            assert known.decided is None

    def is_stored(self, new: StoredTransaction | None, decided: Outcome) -> bool:
        return new is not None and new.state.is_preparing and self.outcome(new) == decided

    def outcome(self, stored: StoredTransaction) -> Outcome:
        is_commit = stored.state is STATE.PREPARE_COMMIT
        producer = stored.producer_id, stored.producer_epoch
        return Outcome(producer, is_commit, stored.partitions)

    def look(self, effects: Effects) -> None:
        for message in effects.messages:
            if isinstance(message, EndMarkers):
                self.look_at_markers(message)
        for token, reply in effects.answers:
            assert isinstance(token, int)
            self.look_at_answer(token, reply)

    def look_at_markers(self, message: EndMarkers) -> None:
        known = self.known[message.transactional_id]
        assert known.decided == Outcome(
            (message.producer.producer_id, message.producer.epoch),
            message.is_commit,
            message.partitions,
        )
        assert message.coordinator_epoch == self.stage.coordinator_epoch

    def look_at_answer(self, token: int, reply: Any) -> None:
        request = self.stage.asked[token]
        if isinstance(reply, ProducerReply) and reply.needs_producer_id:
            return
        client = next((each for each in self.clients if each.token == token), None)
        if client is not None:
            client.token = None
        error = reply.error if isinstance(reply, ProducerReply) else reply
        if error is not NONE and error is not None:
            assert error in EXPECTED_ERRORS
            if client is not None:
                self.look_at_error(client, request, error)
            return
        assert not self.must_fail.get(token)
        if isinstance(request, InitProducer):
            self.look_at_init(client, request, reply.producer)
        elif isinstance(request, AddPartitions):
            self.look_at_addition(client, request)
        elif isinstance(request, EndTransaction):
            self.look_at_end(client, request, reply.producer)

    def look_at_error(self, client: Client, request: Any, error: ErrorCode) -> None:
        is_over = error in (
            ErrorCode.producer_fenced,
            ErrorCode.invalid_producer_id_mapping,
            ErrorCode.invalid_txn_state,
        )
        if is_over:
            client.acked.clear()
            client.ending = None
            client.identity = None
        elif isinstance(request, EndTransaction):
            client.ending = request.is_commit

    def grant(self, known: Known, producer: ProducerIdentity) -> None:
        if producer not in known.granted:
            known.granted.append(producer)

    def look_at_init(
        self, client: Client | None, request: InitProducer, producer: ProducerIdentity
    ) -> None:
        known = self.known[request.transactional_id]
        if request.expected is None:
            assert producer not in known.granted
            known.replaced_before = len(known.granted)
        self.grant(known, producer)
        assert client is not None
        client.identity = producer
        client.acked.clear()
        client.ending = None

    def look_at_addition(self, client: Client | None, request: AddPartitions) -> None:
        stored = self.known[request.transactional_id].stored
        assert stored is not None
        assert stored.state is STATE.ONGOING
        assert (stored.producer_id, stored.producer_epoch) == request.producer
        assert request.partitions <= stored.partitions
        if client is not None:
            client.acked |= request.partitions

    def look_at_end(
        self, client: Client | None, request: EndTransaction, producer: ProducerIdentity
    ) -> None:
        known = self.known[request.transactional_id]
        assert known.last is not None
        assert known.last.is_commit is request.is_commit
        if request.client_version == V2:
            assert known.ends[request.producer] == known.last
            self.grant(known, producer)
        else:
            assert producer == request.producer
        if client is None:
            return
        if client.acked:
            assert client.acked <= known.last.partitions
            assert client.version == V2 or known.last.producer == request.producer
        client.acked.clear()
        client.ending = None
        client.identity = producer

    # ------------------------------------------------------------------ clients

    def submit(self, request: Any, client: Client | None = None) -> None:
        token = next(self.stage.tokens)
        self.stage.tokens = count(token)  # the stage takes it, too
        if client is not None:
            client.token = token
        if isinstance(request, AddPartitions | EndTransaction):
            known = self.known[request.transactional_id]
            replaced = known.granted[: known.replaced_before]
            self.must_fail[token] = request.producer in replaced
            self.requests.append(request)
        assert self.stage.submit(request) == token

    def is_free(self, client: Client) -> bool:
        return client.token is None

    def is_rare(self, pick: int) -> bool:
        """For events after which much begins anew; few transactions would end otherwise."""
        return pick % 4 == 0

    @rule(pick=PICK, continues=st.booleans(), timeout_ms=st.sampled_from([5_000, 60_000]))
    def start_again(self, pick: int, continues: bool, timeout_ms: int) -> None:
        if self.is_rare(pick):
            self.init(pick, continues=continues, timeout_ms=timeout_ms)

    def init(self, pick: int, *, continues: bool, timeout_ms: int) -> None:
        client = self.clients[pick // 4 % len(self.clients)]
        if self.is_free(client):
            expected = client.identity if continues else None
            self.submit(InitProducer(client.transactional_id, timeout_ms, expected), client)

    @rule(pick=PICK, partitions=PARTITIONS)
    def add(self, pick: int, partitions: set[TopicPartition]) -> None:
        client = self.clients[pick % len(self.clients)]
        if self.is_free(client) and client.identity is not None and client.ending is None:
            wanted = frozenset(partitions)
            request = AddPartitions(
                client.transactional_id, client.identity, wanted, client.version
            )
            self.submit(request, client)

    @rule(pick=PICK, is_commit=st.booleans())
    def end(self, pick: int, is_commit: bool) -> None:
        client = self.clients[pick % len(self.clients)]
        if self.is_free(client) and client.identity is not None:
            outcome = is_commit if client.ending is None else client.ending
            request = EndTransaction(
                client.transactional_id, client.identity, outcome, client.version
            )
            self.submit(request, client)

    @rule(pick=PICK, is_commit=st.booleans(), partitions=PARTITIONS, settles=st.booleans())
    def go_on(
        self, pick: int, is_commit: bool, partitions: set[TopicPartition], settles: bool
    ) -> None:
        """What clients do next if nothing goes wrong."""
        for _ in range(2):
            self.go_on_once(pick, is_commit, partitions)
            if settles:
                self.stage.settle()

    def go_on_once(self, pick: int, is_commit: bool, partitions: set[TopicPartition]) -> None:
        client = self.clients[pick % len(self.clients)]
        if client.identity is None:
            self.init(4 * pick, continues=False, timeout_ms=60_000)
        elif len(client.acked) <= pick % 3:
            self.add(pick, partitions)
        else:
            self.end(pick, is_commit)

    @precondition(lambda self: self.requests)
    @rule(pick=PICK, is_other_outcome=st.booleans())
    def repeat_late(self, pick: int, is_other_outcome: bool) -> None:
        """A request arrives on an old connection. Older clients are protected only from requests
        of producers that were replaced."""
        request = self.requests[-1 - pick % len(self.requests)]
        known = self.known[request.transactional_id]
        is_replaced = request.producer in known.granted[: known.replaced_before]
        if request.client_version == V2 or is_replaced:
            if isinstance(request, EndTransaction):
                request = replace(request, fresh_producer_id=NO_PRODUCER_ID)
                if is_other_outcome and is_replaced:
                    request = replace(request, is_commit=not request.is_commit)
            self.submit(request)

    # ------------------------------------------------------------------ the world

    @rule()
    def appends_succeed(self) -> None:
        self.stage.settle()

    @precondition(lambda self: self.stage.in_flight)
    @rule(how=st.sampled_from(["succeeds", "fails", "fails but is in the log", "is late"]))
    def one_append(self, how: str) -> None:
        if how == "is late":
            self.stage.be_late()
        elif how == "succeeds":
            self.stage.settle_one()
        else:
            is_in_log = how != "fails"
            error = ErrorCode.not_enough_replicas
            if is_in_log:
                error = ErrorCode.not_enough_replicas_after_append
            self.stage.settle_one(error, is_in_log=is_in_log)

    @precondition(lambda self: self.stage.sent)
    @rule(pick=PICK, number=st.integers(1, 3), is_twice=st.booleans())
    def write_markers(self, pick: int, number: int, is_twice: bool) -> None:
        message = self.stage.sent[pick % len(self.stage.sent)]
        written = sorted(message.partitions)[:number]
        for _ in range(2 if is_twice else 1):
            self.mark(message, written)

    def mark(self, message: EndMarkers, written: Iterable[TopicPartition]) -> None:
        known = self.known[message.transactional_id]
        if known.decided is not None and known.decided.producer == message.producer:
            known.marked.update(written)
        self.stage.mark(*written, message=message)

    @rule(pick=PICK, wait_ms=WAITS)
    def pass_time(self, pick: int, wait_ms: int) -> None:
        if wait_ms >= DAY_MS and self.is_rare(pick):
            self.stage.now_ms += wait_ms - 20_000  # the checks in between would find nothing else
        self.stage.pass_time(min(wait_ms, 20_000 if self.is_rare(pick) else 100))

    @rule(pick=PICK)
    def another_leader(self, pick: int) -> None:
        """It has a part of the records that were on their way."""
        if not self.is_rare(pick):
            return
        stage, before = self.stage, {name: self.stage.described(name) for name in self.known}
        in_flight = list(stage.in_flight)
        stage.unload()
        stage.in_flight.clear()
        assert all(token in stage.answers for token in stage.asked)
        kept = in_flight[: pick // 4 % (len(in_flight) + 1)]
        records = [*stage.log, *(record for append in kept for record in append.records)]
        pending = {read_transaction_key(append.records[0].key) for append in in_flight}
        successor = self.new_stage(stage.coordinator_epoch + 1)
        successor.now_ms, successor.fresh_ids = stage.now_ms, stage.fresh_ids
        successor.tokens = stage.tokens
        unwritten: set[str] = set()
        self.stage = successor
        for name, known in self.known.items():
            values = [r.value for r in records if r.key == transaction_key(name)]
            new = read_transaction_value(values[-1]) if values and values[-1] else None
            if known.decided is not None and not self.is_stored(new, known.decided):
                # A later record has survived, although it has failed.
                assert known.is_complete
                known.decided = None
            elif known.is_complete:
                unwritten.add(name)
            known.marked = set()
            self.take(known, new)
        successor.loaded(records)
        for name, known in self.known.items():
            if known.is_certain and name not in pending:
                after, expected = successor.described(name), before[name]
                if name in unwritten and known.decided is not None and known.decided.partitions:
                    assert after is not None
                    assert after.state.is_preparing, "its markers are written again"
                    continue
                if expected is not None and expected.state.is_preparing:
                    assert known.stored is not None
                    expected = replace(expected, partitions=known.stored.partitions)
                if name in unwritten and after is not None and expected is not None:
                    # It had no partition left to mark, and is completed anew.
                    assert after.last_update_ms >= expected.last_update_ms
                    expected = replace(expected, last_update_ms=after.last_update_ms)
                # An id whose first record could not be stored is known to nobody any more.
                assert after == expected or (after is None and known.stored is None)
            known.is_certain = True

    # ------------------------------------------------------------------ invariants

    @invariant()
    def the_state_is_that_of_the_log(self) -> None:
        for name, known in self.known.items():
            found, stored = self.stage.described(name), known.shown
            if stored is None:
                assert found is None or found.producer.epoch == -1
                continue
            assert found is not None
            assert found.state is stored.state
            assert found.producer == (stored.producer_id, stored.producer_epoch)
            is_ending = stored.state.is_preparing
            left = stored.partitions - (known.marked if is_ending else set())
            assert found.partitions == left
            assert (found.start_ms, found.timeout_ms) == (stored.start_ms, stored.timeout_ms)

    @invariant()
    def the_partitions_of_open_transactions_alone_are_confirmed(self) -> None:
        for name, known in self.known.items():
            stored = known.stored
            producers = {*known.granted[-3:], ProducerIdentity(7, 1)}
            for producer in producers:
                for place in (P0, P1):
                    (code,) = self.stage.verify(producer, place, transactional_id=name)
                    is_part = (
                        stored is not None
                        and stored.state is STATE.ONGOING
                        and producer == (stored.producer_id, stored.producer_epoch)
                        and place in stored.partitions
                    )
                    assert (code is NONE) is is_part

    def teardown(self) -> None:
        stage = self.stage
        for _ in range(40):
            stage.settle()
            while stage.sent:
                self.mark(stage.sent[0], sorted(stage.sent[0].partitions))
            stage.settle()
            stage.pass_time(20_000)
        assert all(token in stage.answers for token in stage.asked)
        for name in self.known:
            found = stage.described(name)
            assert found is None or found.state.is_idle
        super().teardown()


@pytest.mark.no_cover
def test_any_sequence_of_events_keeps_the_invariants() -> None:
    run_state_machine_as_test(TransactionsMachine, settings=examples(800, stateful_step_count=60))
