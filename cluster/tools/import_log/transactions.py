"""Which transactions of a log were committed, by the markers in it. Pure.

A compaction keeps a marker as long as records of its transaction are there, so a record without a
marker after it is one of a transaction that had not ended.
"""

import enum
from bisect import bisect_left


class Outcome(enum.Enum):
    """How a transaction ended."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "not ended"


class Transactions:
    """The ends of all transactions, by producer."""

    def __init__(self) -> None:
        self._ends: dict[int, list[int]] = {}
        self._are_commits: dict[int, list[bool]] = {}

    def ended(self, producer_id: int, offset: int, *, is_commit: bool) -> None:
        """A marker of this producer stands at an offset; to be called in order of offsets."""
        self._ends.setdefault(producer_id, []).append(offset)
        self._are_commits.setdefault(producer_id, []).append(is_commit)

    def outcome(self, producer_id: int, offset: int) -> Outcome:
        """How the transaction ended to which this producer's record at an offset belongs."""
        ends = self._ends.get(producer_id, [])
        slot = bisect_left(ends, offset)
        if slot == len(ends):
            return Outcome.OPEN
        return Outcome.COMMITTED if self._are_commits[producer_id][slot] else Outcome.ABORTED
