"""Checks that every record arrived once and in order, per producer and partition. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

MISSING_MAX: Final = 1_000_000
"""The missing sequences that are remembered one by one; more are only counted."""


@dataclass(slots=True)
class SequenceCheck:
    """The records that arrived from one producer in one partition. Sequences begin with 0.

    Invariant: every sequence below `next_sequence` has arrived, is in `missing`, or was one of
    `forgotten`.
    """

    next_sequence: int = 0
    missing: set[int] = field(default_factory=set)
    forgotten: int = 0
    received: int = 0
    duplicates: int = 0
    out_of_order: int = 0

    def on_sequence(self, sequence: int) -> None:
        """The next record of this partition has this sequence."""
        if sequence == self.next_sequence:
            self.next_sequence += 1
            self.received += 1
        elif sequence > self.next_sequence:
            hole = range(self.next_sequence, sequence)
            if len(self.missing) + len(hole) <= MISSING_MAX:
                self.missing.update(hole)
            else:
                self.forgotten += len(hole)
            self.next_sequence = sequence + 1
            self.received += 1
        elif sequence in self.missing:
            self.missing.remove(sequence)
            self.received += 1
            self.out_of_order += 1
        else:
            self.duplicates += 1

    def on_run(self, first: int, last: int) -> None:
        """The next records have the sequences from first to last."""
        if first == self.next_sequence:
            self.next_sequence = last + 1
            self.received += last + 1 - first
        else:
            for sequence in range(first, last + 1):
                self.on_sequence(sequence)

    def lost(self, sent: int, unsure: Iterable[int]) -> int:
        """The `sent` records that did not arrive, apart from the unacknowledged `unsure`."""
        not_promised = set(unsure)
        behind = range(min(self.next_sequence, sent), sent)
        gone = sum(sequence not in not_promised for sequence in self.missing)
        return gone + self.forgotten + sum(sequence not in not_promised for sequence in behind)

    def to_json(self) -> dict[str, Any]:
        """What `from_json` reads."""
        return {
            "next_sequence": self.next_sequence,
            "missing": sorted(self.missing),
            "forgotten": self.forgotten,
            "received": self.received,
            "duplicates": self.duplicates,
            "out_of_order": self.out_of_order,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """The check that another process has made."""
        return cls(**{**document, "missing": set(document["missing"])})


@dataclass(frozen=True, slots=True)
class Verified:
    """The check of all producers and partitions of a run, or of one partition."""

    sent: int
    received: int
    lost: int
    duplicates: int
    out_of_order: int

    @property
    def is_perfect(self) -> bool:
        """Whether every acknowledged record arrived once and in order."""
        return not (self.lost or self.duplicates or self.out_of_order)

    @property
    def is_at_least_once(self) -> bool:
        """Whether every acknowledged record arrived, in order the first time: the guarantee of
        consumers in a group that commit what they have read.
        """
        return not (self.lost or self.out_of_order)


@dataclass(frozen=True, slots=True)
class Promised:
    """The records that one producer sent to one partition, and the sequences not acknowledged."""

    sent: int
    unsure: tuple[int, ...] = ()


Place = tuple[int, int]
"""Producer and partition."""


def verify(promised: Mapping[Place, Promised], checks: Mapping[Place, SequenceCheck]) -> Verified:
    """Compare the records sent with those that arrived."""
    pairs = [
        (promised.get(place, Promised(0)), checks.get(place, SequenceCheck()))
        for place in promised.keys() | checks.keys()
    ]
    return Verified(
        sent=sum(sent.sent for sent, _ in pairs),
        received=sum(check.received for _, check in pairs),
        lost=sum(check.lost(sent.sent, sent.unsure) for sent, check in pairs),
        duplicates=sum(check.duplicates for _, check in pairs),
        out_of_order=sum(check.out_of_order for _, check in pairs),
    )


def by_partition(
    promised: Mapping[Place, Promised], checks: Mapping[Place, SequenceCheck]
) -> dict[int, Verified]:
    """Call `verify` for each partition."""
    partitions = sorted({partition for _, partition in promised.keys() | checks.keys()})
    return {
        partition: verify(
            {place: one for place, one in promised.items() if place[1] == partition},
            {place: one for place, one in checks.items() if place[1] == partition},
        )
        for partition in partitions
    }
