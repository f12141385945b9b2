"""The judge of transactional histories: each anomaly is found, and a sound history has none."""

from collections.abc import Callable

import pytest

from cluster.model.ids import TopicPartition
from tests.simulation.transactions.ledger import Delivery, Ledger, Outcome, Seen, Transaction
from tests.simulation.transactions.reading import LogRecord
from tests.simulation.transactions.verdict import Anomaly, Copied, Observed, check, deliverable

P, Q = TopicPartition("t", 0), TopicPartition("t", 1)


class Story:
    """Two producers, `a` with producer id 1 and `b` with 2, and two partitions."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.logs: dict[TopicPartition, list[LogRecord]] = {P: [], Q: []}
        self.copied: list[Copied] = []

    def begin(self, name: str) -> Transaction:
        return self.ledger.begin(name, name)

    def write(self, transaction: Transaction, partition: TopicPartition, value: bytes) -> int:
        if value not in self.ledger.writers:
            self.ledger.send(transaction, partition, value)
        return self._append(partition, transaction.transactional_id, value, None)

    def end(
        self,
        transaction: Transaction,
        *partitions: TopicPartition,
        is_commit: bool = True,
        outcome: Outcome | None = None,
    ) -> None:
        transaction.outcome = outcome or (Outcome.COMMITTED if is_commit else Outcome.ABORTED)
        for partition in partitions:
            self._append(partition, transaction.transactional_id, b"", is_commit)

    def _append(
        self, partition: TopicPartition, name: str, value: bytes, is_commit: bool | None
    ) -> int:
        log = self.logs[partition]
        log.append(LogRecord(len(log), {"a": 1, "b": 2}[name], 0, True, value, is_commit))
        return len(log) - 1

    def deliver(self, partition: TopicPartition, *offsets: int, high_watermark: int = 99) -> None:
        self.ledger.delivered["consumer", partition] += [
            Delivery(offset, self.logs[partition][offset].value, high_watermark)
            for offset in offsets
        ]

    def check(self) -> None:
        check(Observed(self.ledger, self.logs, self.copied))


def sound() -> Story:
    """Two transactions that write to both partitions, in a different order in each."""
    story = Story()
    first, second = story.begin("a"), story.begin("b")
    story.write(first, P, b"1")
    story.write(second, P, b"2")
    story.write(second, Q, b"3")
    story.write(first, Q, b"4")
    story.end(first, P, Q)
    story.end(second, P, Q, is_commit=False)
    story.deliver(P, 0)
    story.deliver(Q, 1)
    return story


def test_interleaved_transactions_of_different_ids_are_sound() -> None:
    sound().check()


def lost(story: Story) -> None:
    transaction = story.begin("a")
    story.write(transaction, P, b"5")
    story.end(transaction, P, is_commit=False, outcome=Outcome.COMMITTED)


def torn(story: Story) -> None:
    transaction = story.begin("a")
    story.write(transaction, P, b"5")
    story.write(transaction, Q, b"6")
    story.end(transaction, P)
    story.end(transaction, Q, is_commit=False, outcome=Outcome.UNKNOWN)


def incomplete(story: Story) -> None:
    transaction = story.begin("a")
    story.write(transaction, P, b"5")
    story.ledger.send(transaction, Q, b"6")
    story.end(transaction, P)


def committed_although_aborted(story: Story) -> None:
    transaction = story.begin("a")
    story.write(transaction, P, b"5")
    story.end(transaction, P, outcome=Outcome.ABORTED)


def left_open(story: Story) -> None:
    story.write(story.begin("a"), P, b"5")


def written_twice(story: Story) -> None:
    transaction = story.begin("a")
    story.write(transaction, P, b"5")
    story.write(transaction, P, b"5")
    story.end(transaction, P)


def late(story: Story) -> None:
    """A batch comes after the marker, and the next transaction's marker ends it."""
    first, second = story.begin("a"), story.begin("a")
    story.write(first, P, b"5")
    story.end(first, P)
    story.write(first, P, b"6")
    story.write(second, P, b"7")
    story.end(second, P)


def aborted_read(story: Story) -> None:
    story.deliver(P, 1)


def early_read(story: Story) -> None:
    transaction = story.begin("a")
    offset = story.write(transaction, P, b"5")
    story.end(transaction, P)
    story.deliver(P, offset, high_watermark=offset + 1)


def skipped(story: Story) -> None:
    transaction = story.begin("a")
    story.write(transaction, P, b"5")
    second = story.write(transaction, P, b"6")
    story.end(transaction, P)
    story.deliver(P, second)


def interleaved_with_itself(story: Story) -> None:
    """Two processes of one transactional id write, the older one after the newer one."""
    old, new = story.begin("a"), story.begin("a")
    story.write(new, P, b"5")
    story.end(new, P)
    story.write(old, P, b"6")
    story.end(old, P)


def read_in_a_circle(story: Story) -> None:
    first, second = story.begin("a"), story.begin("b")
    story.write(first, P, b"5")
    story.write(second, Q, b"6")
    story.end(first, P)
    story.end(second, Q)
    first.read[Q].append(b"6")
    second.read[P].append(b"5")


def copied_without_effect(story: Story) -> None:
    story.copied.append(Copied(frozenset({"b"}), {P: 3}))


def copied_twice(story: Story) -> None:
    copy = story.begin("b")
    for value in (b"1 x < 1", b"1 y < 1"):
        story.write(copy, Q, value)
        copy.sources[value] = b"1"
    story.end(copy, Q)
    story.copied.append(Copied(frozenset({"b"}), {P: 1}))


@pytest.mark.parametrize(
    ("spoil", "found"),
    [
        (lost, "lost"),
        (torn, "torn"),
        (incomplete, "torn"),
        (committed_although_aborted, "G1a"),
        (left_open, "does not end"),
        (written_twice, "twice"),
        (late, "ends transaction"),
        (aborted_read, "G1a"),
        (early_read, "G1b"),
        (skipped, "comes next"),
        (interleaved_with_itself, "G0"),
        (read_in_a_circle, "G1c"),
        (copied_without_effect, "has the effects"),
        (copied_twice, "has the effects"),
    ],
)
def test_an_anomaly_is_found(spoil: Callable[[Story], None], found: str) -> None:
    story = sound()
    spoil(story)
    with pytest.raises(Anomaly, match=found):
        story.check()


def test_records_of_aborted_and_open_transactions_are_not_deliverable() -> None:
    story = sound()
    left_open(story)
    assert [each.value for each in deliverable(story.logs[P])] == [b"1"]


@pytest.mark.parametrize("seen", [Seen(1, 9, 5), Seen(2, 9, 5), Seen(2, 12, 6)])
def test_a_last_stable_offset_may_not_move_back(seen: Seen) -> None:
    ledger = Ledger()
    ledger.see("consumer", P, Seen(1, 9, 7))
    with pytest.raises(AssertionError, match="moved back"):
        ledger.see("consumer", P, seen)


def test_the_next_leader_may_be_behind() -> None:
    ledger = Ledger()
    ledger.see("consumer", P, Seen(1, 9, 7))
    ledger.see("consumer", P, Seen(2, 8, 2))
    with pytest.raises(AssertionError, match="moved back"):
        ledger.see("consumer", P, Seen(2, 9, 6))
