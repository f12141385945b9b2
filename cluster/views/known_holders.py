"""What holds the last stable offset of a partition back, by its leader and by coordinators. Pure.

`find_holders` asks for it; `holder_text` and `explanation_json` print it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from cluster.client.explanation_requests import ExplainedPartitions
from cluster.client.topic_requests import Place
from cluster.coordinator.transactions.explanation import ExplainTransactionAnswer
from cluster.coordinator.transactions.held_back import HeldPartition, OpenTransaction
from cluster.coordinator.transactions.states import TransactionState
from cluster.model.ids import TopicPartition

LASTING_MS: Final = 1_000
"""Shorter waits are not shown: under load, some transaction is always open."""
NOT_DESCRIBED: Final = "this user may not describe its transactional id"


class Verdict(Enum):
    """What will end a transaction that holds a last stable offset back."""

    OPEN = "open"
    """Its client or its timeout."""
    ENDING = "ending"
    """Its outcome is stored; its coordinator is writing the markers."""
    HANGING = "hanging"
    """Nothing: no coordinator knows it."""
    UNCOMMITTED = "uncommitted"
    """It has ended; in-sync replicas lack the marker."""
    DAMAGED = "damaged"
    """The index of aborted transactions cannot be read."""
    UNKNOWN = "unknown"
    """A coordinator does not answer, or may not be asked."""


@dataclass(frozen=True, slots=True)
class KnownId:
    """What a coordinator knows of a transactional id."""

    transactional_id: str
    answer: ExplainTransactionAnswer


@dataclass(frozen=True, slots=True)
class Holder:
    """A partition whose last stable offset is held back, and by what."""

    place: Place
    leader: int
    partition: HeldPartition
    verdict: Verdict
    first: OpenTransaction | None
    """The transaction that is open at the last stable offset."""
    known: KnownId | None
    """Its transactional id, if a coordinator knows it."""
    problem: str = ""
    """Why it is not known who coordinates it."""


Find = Callable[[int], tuple[KnownId | None, str]]
"""Finds what coordinators know of a producer id, or why that is unknown."""


def holder_of(place: Place, leader: int, partition: HeldPartition, find: Find) -> Holder:
    """What holds one partition back."""
    stable = partition.last_stable_offset
    first = next((each for each in partition.open if each.first_offset == stable), None)
    if partition.is_index_damaged:
        return Holder(place, leader, partition, Verdict.DAMAGED, first, None)
    if first is None:
        return Holder(place, leader, partition, Verdict.UNCOMMITTED, None, None)
    known, problem = find(first.producer.producer_id)
    if known is None and not problem and first.is_writer_hidden:
        problem = NOT_DESCRIBED
    return Holder(place, leader, partition, _verdict(place, known, problem), first, known, problem)


def _verdict(place: Place, known: KnownId | None, problem: str) -> Verdict:
    if known is None or known.answer.transaction is None:
        return Verdict.UNKNOWN if problem else Verdict.HANGING
    found = known.answer.transaction
    is_part = bool(found.partitions_left_off) or TopicPartition(*place) in found.partitions
    if not is_part or found.state.is_idle:
        return Verdict.HANGING
    return Verdict.OPEN if found.state is TransactionState.ONGOING else Verdict.ENDING


def still_held(holders: Iterable[Holder], now: ExplainedPartitions) -> list[Holder]:
    """The holders that a later answer confirms: the same transactions are still open."""
    found = []
    for each in holders:
        later = now.held.get(each.place)
        if later is not None and each.first is not None and _has(later, each.first):
            found.append(each)
    return found


def _has(partition: HeldPartition, transaction: OpenTransaction) -> bool:
    return any(
        (each.producer, each.first_offset) == (transaction.producer, transaction.first_offset)
        for each in partition.open
    )
