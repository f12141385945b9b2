"""What `dump-log` gathers while it reads files and prints on stderr at the end. Pure."""

from dataclasses import dataclass, field
from pathlib import Path

Pairs = dict[Path, list[tuple[int, int]]]
"""By absolute path of a file."""


@dataclass(slots=True)
class Report:
    """Contradictions between files or within one, each with the words that Kafka's tool has."""

    index_mismatches: Pairs = field(default_factory=dict)
    """Offset in the index, last offset of the batch at its position."""
    timestamp_mismatches: Pairs = field(default_factory=dict)
    """Timestamp in the index, largest one of the batch with its offset."""
    timestamps_out_of_order: Pairs = field(default_factory=dict)
    """Timestamp in the index, the one before it."""
    offsets_not_found: Pairs = field(default_factory=dict)
    """Offset in the time index, last offset of the batch that is there instead; -1 for none."""
    gaps: Pairs = field(default_factory=dict)
    """Offset of a record, that of the next one."""

    def lines(self) -> list[str]:
        """All of it; empty where nothing contradicts."""
        found: list[str] = []
        for path, pairs in self.index_mismatches.items():
            found.append(f"Mismatches in :{path}")
            found += (f"  Index offset: {a}, log offset: {b}" for a, b in reversed(pairs))
        for path, pairs in self.timestamp_mismatches.items():
            found.append(f"Found timestamp mismatch in :{path}")
            found += (f"  Index timestamp: {a}, log timestamp: {b}" for a, b in pairs)
        for path, pairs in self.timestamps_out_of_order.items():
            found.append(f"Found out of order timestamp in :{path}")
            found += (
                f"  Index timestamp: {a}, Previously indexed timestamp: {b}" for a, b in pairs
            )
        for pairs in self.offsets_not_found.values():
            found.append("The following indexed offsets are not found in the log.")
            found += (f"Indexed offset: {a}, found log offset: {b}" for a, b in pairs)
        for path, pairs in self.gaps.items():
            found.append(f"Non-consecutive offsets in {path}")
            found += (f"  {a} is followed by {b}" for a, b in reversed(pairs))
        return found


def note(pairs: Pairs, path: Path, first: int, second: int) -> None:
    """Add a pair to those of a file."""
    pairs.setdefault(path.absolute(), []).append((first, second))
