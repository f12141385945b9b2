"""Counts what a shard found in the records of its partition. Pure."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

KINDS_MAX: Final = 100
"""Different problems that a report names; further ones are counted as `others`."""


@dataclass(slots=True)
class LoadReport:
    """Records by kind. The texts contain nothing from the records, so they can be logged."""

    loaded: Counter[str] = field(default_factory=Counter)
    """Records that were replayed, such as `offsets` or `tombstones`."""
    unknown: Counter[str] = field(default_factory=Counter)
    """Records of a kind or version that newer brokers write, by kind; they are ignored."""
    corrupt: Counter[str] = field(default_factory=Counter)
    """Records that could not be decoded, by problem; they are ignored."""

    @property
    def records(self) -> int:
        """All records, including those that were ignored."""
        return self.loaded.total() + self.unknown.total() + self.corrupt.total()

    def note_unknown(self, kind: str) -> None:
        """Count a record of an unknown kind or version."""
        _note(self.unknown, kind)

    def note_corrupt(self, problem: str) -> None:
        """Count a record that could not be decoded."""
        _note(self.corrupt, problem)


def _note(counter: Counter[str], text: str) -> None:
    if text not in counter and len(counter) >= KINDS_MAX:
        text = "others"
    counter[text] += 1
