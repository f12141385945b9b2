"""A partition's producer state against a small model, through random histories: batches, markers,
epochs, verifications of transactions and their expiry.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cluster.log.producer_state import BATCHES_KEPT, EndedTransaction, ProducerState, Verification
from cluster.model.clocks import WallMs
from cluster.model.errors import ErrorCode, Refused
from cluster.records.batch import BatchHeader, read_header
from cluster.records.builder import NewRecord, ProducerIdentity, build_batch
from cluster.records.markers import EndMarker, build_marker
from tests.support.examples import examples
from tests.unit.log.log_builder import NOW_MS

EXPIRATION_MS = 1_000
ORDER = ErrorCode.out_of_order_sequence_number
EPOCH = ErrorCode.invalid_producer_epoch
STATE = ErrorCode.invalid_txn_state
FENCED = ErrorCode.transaction_coordinator_fenced

T = TypeVar("T")
producers = st.integers(1, 2)
epoch_changes = st.sampled_from([0, 0, 0, 0, 1, 1, -1])
"""From the last epoch of the producer."""
sequences = st.sampled_from([None, None, None, 0, 1, 3])
"""None: the next one."""


@dataclass(slots=True)
class Known:
    """What the partition should know of a producer."""

    epoch: int
    coordinator_epoch: int = -1
    open_since: int | None = None
    timestamp_ms: int = 0
    batches: list[tuple[int, int, int]] = field(default_factory=list)
    """First sequence number, last one, and first offset."""

    @property
    def next_sequence(self) -> int:
        return self.batches[-1][1] + 1 if self.batches else 0

    def enter(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch, self.batches = epoch, []


@dataclass(slots=True)
class Asked:
    """A verification that was begun."""

    guard: Verification
    producer: int
    epoch: int
    began_ms: int
    lowest: int
    is_added: bool
    has_ended: bool = False
    is_late: bool = False
    """Whether a marker has ended its transaction, by the marker's epoch."""


def header(
    producer: int, epoch: int, sequence: int, count: int, now_ms: int, *, in_txn: bool
) -> BatchHeader:
    return read_header(
        build_batch(
            [NewRecord(b"", None, now_ms)] * count,
            producer=ProducerIdentity(producer, epoch, sequence),
            is_transactional=in_txn,
        )
    )


def outcome(call: Callable[[], T]) -> T | ErrorCode:
    """What a call returns, or the code with which it refuses."""
    try:
        return call()
    except Refused as refused:
        return refused.code


class ProducersOfAPartition(RuleBasedStateMachine):
    @initialize()
    def create(self) -> None:
        self.state = ProducerState(EXPIRATION_MS)
        self.known: dict[int, Known] = {}
        self.asked: list[Asked] = []
        self.ended: list[EndedTransaction] = []
        self.last_epochs = {1: 1, 2: 1}
        self.end = 0
        self.now_ms = int(NOW_MS)

    def epoch(self, producer: int, change: int) -> int:
        """The epoch of the next request of a producer."""
        last = self.last_epochs[producer]
        self.last_epochs[producer] = max(last, last + change)
        return max(0, last + change)

    # -- what should happen ------------------------------------------------------------------------

    def refusal(
        self,
        producer: int,
        epoch: int,
        sequence: int,
        count: int,
        asked: Asked | None,
        in_txn: bool,
    ) -> ErrorCode | int:
        """The code that refuses a batch, else the offset of its duplicate, else -1."""
        known = self.known.get(producer)
        is_open = known is not None and known.open_since is not None
        if asked is not None and not (is_open and known is not None and known.epoch == epoch):
            if asked.has_ended:
                return STATE
            is_first = known is None or not known.batches
            if sequence > asked.lowest or (asked.is_added and sequence and is_first):
                return ORDER
        if known is None:
            return -1
        if epoch < known.epoch:
            return EPOCH
        if epoch > known.epoch and sequence:
            return ORDER
        if epoch == known.epoch and sequence != known.next_sequence:
            for first, last, offset in known.batches[-BATCHES_KEPT:]:
                if (first, last) == (sequence, sequence + count - 1):
                    return offset
            return ORDER
        return STATE if is_open and not in_txn else -1

    def end_verifications(self, producer: int, epoch: int, *, is_marker: bool) -> None:
        for each in self.asked:
            is_next = is_marker and each.epoch == epoch and each.is_added
            if each.producer == producer and each.epoch <= epoch and not is_next:
                each.has_ended = True

    def next_sequence(self, producer: int, epoch: int) -> int:
        known = self.known.get(producer)
        return 0 if known is None or known.epoch != epoch else known.next_sequence

    def first_open(self) -> int | None:
        return min(
            (each.open_since for each in self.known.values() if each.open_since is not None),
            default=None,
        )

    # -- what happens ------------------------------------------------------------------------------

    @rule(producer=producers, change=epoch_changes, sequence=sequences, is_added=st.booleans())
    def verify(self, producer: int, change: int, sequence: int | None, is_added: bool) -> None:
        self.ask(producer, self.epoch(producer, change), sequence, is_added=is_added)

    @precondition(lambda self: self.asked)
    @rule(sequence=st.sampled_from([0, 1, 3]), is_added=st.booleans())
    def verify_also(self, sequence: int, is_added: bool) -> None:
        """Another batch of the same transaction."""
        last = self.asked[-1]
        self.ask(last.producer, last.epoch, sequence, is_added=is_added)

    def ask(self, producer: int, epoch: int, sequence: int | None, *, is_added: bool) -> None:
        known = self.known.get(producer)
        if sequence is None:
            sequence = self.next_sequence(producer, epoch)
        begin = partial(self.state.begin_verification, producer, epoch, sequence)
        guard = outcome(partial(begin, WallMs(self.now_ms), is_added=is_added))
        is_late = known is not None and epoch < known.epoch
        assert (guard is EPOCH) == is_late
        if isinstance(guard, ErrorCode):
            return
        for each in self.asked:
            if (each.producer, each.epoch, each.has_ended) == (producer, epoch, False):
                assert each.guard is guard, "requests of one epoch share it"
                each.lowest = min(each.lowest, sequence)
                each.is_added = each.is_added and is_added
                return
        assert all(each.guard is not guard for each in self.asked)
        self.asked.append(Asked(guard, producer, epoch, self.now_ms, sequence, is_added))

    @rule(
        producer=producers,
        change=epoch_changes,
        sequence=sequences,
        count=st.integers(1, 2),
        in_txn=st.booleans(),
    )
    def append(
        self, producer: int, change: int, sequence: int | None, count: int, in_txn: bool
    ) -> None:
        epoch = self.epoch(producer, change)
        self.write(producer, epoch, sequence, count, None, in_txn=in_txn)

    @precondition(lambda self: self.asked)
    @rule(number=st.sampled_from([0, 0, 1, 2]), sequence=sequences, count=st.integers(1, 2))
    def append_verified(self, number: int, sequence: int | None, count: int) -> None:
        """Perhaps long after the question, and not the first one that was verified with it."""
        asked = self.asked[-1 - number % len(self.asked)]
        opened = self.write(asked.producer, asked.epoch, sequence, count, asked, in_txn=True)
        if opened:
            assert not asked.is_late, "a late batch began a transaction that nobody ends"

    def write(
        self,
        producer: int,
        epoch: int,
        sequence: int | None,
        count: int,
        asked: Asked | None,
        *,
        in_txn: bool,
    ) -> bool:
        """Check and record a batch; whether it began a transaction."""
        if sequence is None:
            sequence = self.next_sequence(producer, epoch)
        batch = header(producer, epoch, sequence, count, self.now_ms, in_txn=in_txn)
        expected = self.refusal(producer, epoch, sequence, count, asked, in_txn)
        guard = None if asked is None else asked.guard
        repeated = outcome(lambda: self.state.check(batch, guard))
        if repeated is not None:
            found = repeated if isinstance(repeated, ErrorCode) else repeated.base_offset
            assert found == expected
            return False
        assert expected == -1
        self.state.record(batch, self.end, self.now_ms)
        known = self.known.setdefault(producer, Known(epoch))
        known.enter(epoch)
        known.batches.append((sequence, sequence + count - 1, self.end))
        known.timestamp_ms = self.now_ms
        begins = in_txn and known.open_since is None
        if begins:
            known.open_since = self.end
            self.end_verifications(producer, epoch, is_marker=False)
        self.end += count
        return begins

    @rule(
        producer=producers,
        change=epoch_changes,
        coordinator_epoch=st.sampled_from([1, 1, 1, 1, 0, 2]),
        is_commit=st.booleans(),
    )
    def mark(self, producer: int, change: int, coordinator_epoch: int, is_commit: bool) -> None:
        epoch = self.epoch(producer, change)
        known = self.known.get(producer)
        marker = EndMarker(producer, epoch, coordinator_epoch, is_commit)
        expected = None
        if known is not None and coordinator_epoch < known.coordinator_epoch:
            expected = FENCED
        if known is not None and epoch < known.epoch:
            expected = EPOCH
        assert outcome(lambda: self.state.check_marker(marker)) is expected
        if expected is not None:
            return
        batch = read_header(build_marker(marker, WallMs(self.now_ms)))
        self.state.record_marker(
            batch.producer_id, batch.producer_epoch, self.end, batch.max_timestamp, marker
        )
        for each in self.asked:
            ended_in = each.epoch + 1 if each.is_added else each.epoch
            if each.producer == producer and epoch >= ended_in:
                each.is_late = True
        known = self.known.setdefault(producer, Known(epoch))
        known.enter(epoch)
        known.coordinator_epoch = coordinator_epoch
        known.timestamp_ms = self.now_ms
        first, known.open_since = known.open_since, None
        self.end_verifications(producer, epoch, is_marker=True)
        if first is not None:
            undecided = self.first_open()
            stable = self.end + 1 if undecided is None else undecided
            self.ended.append(EndedTransaction(producer, first, self.end, stable, not is_commit))
        self.end += 1

    @rule(duration_ms=st.sampled_from([1, 400, EXPIRATION_MS]))
    def expire(self, duration_ms: int) -> None:
        self.now_ms += duration_ms
        self.state.expire(WallMs(self.now_ms))
        for producer, known in list(self.known.items()):
            is_idle = self.now_ms - known.timestamp_ms >= EXPIRATION_MS
            if is_idle and known.open_since is None:
                del self.known[producer]
        for each in self.asked:
            if self.now_ms - each.began_ms >= EXPIRATION_MS:
                each.has_ended = True

    @precondition(lambda self: self.end > 10)
    @rule(is_truncated=st.booleans())
    def begin_anew(self, is_truncated: bool) -> None:
        """Restore a snapshot, which has no verifications, or begin with nothing."""
        self.ended.clear()
        if is_truncated:
            self.state.clear()
            self.known.clear()
            for each in self.asked:
                each.has_ended = True
        else:
            restored = ProducerState(EXPIRATION_MS)
            restored.restore(self.state.entries, 0)
            self.state = restored
            self.asked.clear()

    # -- what always holds -------------------------------------------------------------------------

    @invariant()
    def verifications_last_as_long_as_they_should(self) -> None:
        assert [each.guard.is_valid for each in self.asked] == [
            not each.has_ended for each in self.asked
        ]

    @invariant()
    def transactions_are_open_and_ended(self) -> None:
        opened = {
            producer: known.open_since
            for producer, known in self.known.items()
            if known.open_since is not None
        }
        in_order = sorted(opened.items(), key=lambda each: each[1])
        assert list(self.state.open_transactions()) == in_order
        assert self.state.first_undecided_offset == self.first_open()
        assert list(self.state.ended) == self.ended

    @invariant()
    def producers_are_known(self) -> None:
        assert {
            producer: (
                entry.epoch,
                entry.coordinator_epoch,
                self.state.next_sequence(producer, entry.epoch),
                self.state.has_open_transaction(producer, entry.epoch),
                self.state.has_open_transaction(producer, entry.epoch + 1),
            )
            for producer, entry in self.state.entries.items()
        } == {
            producer: (
                known.epoch,
                known.coordinator_epoch,
                known.next_sequence,
                known.open_since is not None,
                False,
            )
            for producer, known in self.known.items()
        }


TestProducersOfAPartition = ProducersOfAPartition.TestCase
TestProducersOfAPartition.settings = examples(300, stateful_step_count=40)
