"""What the clients of transactions have done and seen: the outside of a history. Pure.

Every value is written by one transaction only, so that a value names its transaction.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from cluster.model.ids import TopicPartition


class Outcome(Enum):
    """How a transaction ended, as far as its client knows."""

    OPEN = auto()
    """A commit was not asked for, so it must never take place."""
    COMMITTED = auto()
    ABORTED = auto()
    UNKNOWN = auto()
    """A commit was asked for, and not answered or not with certainty."""


@dataclass(slots=True, eq=False)
class Transaction:
    """One transaction of one client."""

    transactional_id: str
    client: str
    number: int
    """Ascending among the transactions of this client."""
    outcome: Outcome = Outcome.OPEN
    sent: dict[TopicPartition, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    """The values in the order in which they were sent; all of them were acknowledged if a commit
    was asked for."""
    sources: dict[bytes, bytes] = field(default_factory=dict)
    """The value that was read, by the value that was made of it."""
    read: dict[TopicPartition, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    """The values that it has read, and whose offsets are committed in it."""

    def __str__(self) -> str:
        return f"transaction {self.number} of {self.client} ({self.outcome.name})"


class Delivery(NamedTuple):
    """A record that a consumer with `read_committed` was given."""

    offset: int
    value: bytes
    high_watermark: int
    """That of the answer which contained it."""


class Seen(NamedTuple):
    """What an answer to a consumer says of a partition."""

    leader_epoch: int
    high_watermark: int
    stable_offset: int


class Ledger:
    """All of a history's transactions and deliveries."""

    def __init__(self) -> None:
        self.transactions: list[Transaction] = []
        self.writers: dict[bytes, Transaction] = {}
        """By value."""
        self.delivered: dict[tuple[str, TopicPartition], list[Delivery]] = defaultdict(list)
        """By consumer with `read_committed` and partition."""
        self._seen: dict[tuple[str, TopicPartition], Seen] = {}

    def begin(self, transactional_id: str, client: str) -> Transaction:
        """A client begins a transaction."""
        number = sum(each.client == client for each in self.transactions)
        transaction = Transaction(transactional_id, client, number)
        self.transactions.append(transaction)
        return transaction

    def send(self, transaction: Transaction, partition: TopicPartition, value: bytes) -> None:
        """A client sends a value for the first time."""
        transaction.sent[partition].append(value)
        self.writers[value] = transaction

    def see(self, consumer: str, partition: TopicPartition, seen: Seen) -> None:
        """A consumer gets an answer of a leader. Its last stable offset never moves back; that of
        the next leader may be behind only as long as its high watermark is.
        """
        key = consumer, partition
        before = self._seen.get(key)
        if before is not None:
            is_comparable = (
                seen.leader_epoch == before.leader_epoch
                or seen.high_watermark >= before.high_watermark
            )
            assert not is_comparable or seen.stable_offset >= before.stable_offset, (
                f"{partition}: the last stable offset moved back for {consumer}: {before}, {seen}"
            )
            if not is_comparable:
                return  # compared again with what was there before
        self._seen[key] = seen
