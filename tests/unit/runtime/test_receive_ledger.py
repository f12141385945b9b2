"""The memory of incomplete messages, checked against a model of the rules."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from cluster.model.clocks import MonotonicMs
from cluster.runtime.receive_ledger import PATIENCE_MS, SILENCE_MS, ReceiveLedger

LIMIT = 100
LARGEST = 60


class Receivers(RuleBasedStateMachine):
    """Receivers that ask for more and more, finish, or stay silent forever."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = ReceiveLedger[int](LIMIT)
        self.now_ms = MonotonicMs(0)
        self.last = 0
        self.held: dict[int, int] = {}
        self.waiting: dict[int, int] = {}

    @rule(size=st.integers(1, LARGEST))
    def begins(self, size: int) -> None:
        self.last += 1
        self._claim(self.last, size)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), more=st.integers(1, 30))
    def grows(self, data: st.DataObject, more: int) -> None:
        receiver = data.draw(st.sampled_from(sorted(self.held)))
        if receiver not in self.waiting:
            self._claim(receiver, min(LARGEST, self.held[receiver] + more))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def ends(self, data: st.DataObject) -> None:
        receiver = data.draw(st.sampled_from(sorted(self.held)))
        self.ledger.release(receiver)
        del self.held[receiver]
        self.waiting.pop(receiver, None)
        self._admit()

    @rule(ms=st.integers(1, PATIENCE_MS))
    def time_passes(self, ms: int) -> None:
        self.now_ms = MonotonicMs(self.now_ms + ms)
        overdue = self.ledger.overdue(self.now_ms, lambda _: 0)
        assert not overdue or self.waiting
        assert not set(overdue) & set(self.waiting)

    def _claim(self, receiver: int, size: int) -> None:
        self.held.setdefault(receiver, 0)
        if self.ledger.claim(receiver, size, self.now_ms):
            self.held[receiver] = size
        else:
            self.waiting[receiver] = size

    def _admit(self) -> None:
        for receiver in self.ledger.admit(self.now_ms):
            self.held[receiver] = self.waiting.pop(receiver)

    @invariant()
    def the_sum_is_bounded_and_the_oldest_goes_on(self) -> None:
        assert self.ledger.held_bytes == sum(self.held.values()) <= LIMIT + LARGEST
        assert self.ledger.waiting_count == len(self.waiting)
        if self.held:
            assert min(self.held) not in self.waiting


TestReceivers = Receivers.TestCase


def test_every_receiver_is_served_in_the_end_when_all_are_silent() -> None:
    ledger = ReceiveLedger[int](LIMIT)
    for receiver in range(20):
        ledger.claim(receiver, LARGEST, MonotonicMs(0))
    served: set[int] = set()
    now_ms = 0
    while len(served) < 20:
        now_ms += SILENCE_MS + 1
        silent = ledger.overdue(MonotonicMs(now_ms), lambda _: 0)
        if not silent:
            assert ledger.waiting_count == 0
            break
        served |= set(silent)
        for receiver in silent:
            ledger.release(receiver)
        ledger.admit(MonotonicMs(now_ms))
    assert now_ms <= 20 * (SILENCE_MS + 1)


def test_a_receiver_that_makes_progress_has_more_time_than_a_silent_one() -> None:
    ledger = ReceiveLedger[int](LIMIT)
    assert ledger.claim(1, 50, MonotonicMs(0))
    assert ledger.claim(2, 50, MonotonicMs(0))
    assert not ledger.claim(3, 50, MonotonicMs(1))
    received_ms = {1: 0, 2: SILENCE_MS}
    assert ledger.overdue(MonotonicMs(SILENCE_MS), received_ms.__getitem__) == []
    assert ledger.overdue(MonotonicMs(SILENCE_MS + 1), received_ms.__getitem__) == [1]
    assert ledger.overdue(MonotonicMs(PATIENCE_MS), lambda _: PATIENCE_MS) == []
    assert ledger.overdue(MonotonicMs(PATIENCE_MS + 1), lambda _: PATIENCE_MS) == [1, 2]


def test_ledger_grants_every_claim_without_a_limit() -> None:
    ledger = ReceiveLedger[int](None)
    assert all(ledger.claim(receiver, 1 << 40, MonotonicMs(0)) for receiver in range(10))


def test_its_own_waiting_is_not_counted_against_a_receiver() -> None:
    ledger = ReceiveLedger[int](LIMIT)
    assert ledger.claim(1, LIMIT, MonotonicMs(0))
    assert not ledger.claim(2, 10, MonotonicMs(0))
    assert not ledger.claim(3, 10, MonotonicMs(0))
    ledger.release(1)
    assert ledger.admit(MonotonicMs(PATIENCE_MS * 5)) == [2, 3]
    assert not ledger.claim(4, LIMIT, MonotonicMs(PATIENCE_MS * 5))
    assert ledger.overdue(MonotonicMs(PATIENCE_MS * 6), lambda _: PATIENCE_MS * 6) == []
    assert ledger.overdue(MonotonicMs(PATIENCE_MS * 6 + 1), lambda _: PATIENCE_MS * 6) == [2, 3]
