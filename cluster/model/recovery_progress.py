"""The progress of a starting broker with its logs, for its report and its supervisor."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RecoveryProgress:
    """The counts of one broker's recovery, over all of its log directories.

    Without bytes while logs are only opened.
    """

    bytes_done: int
    bytes_total: int
    partitions_done: int
    partitions_total: int

    @property
    def text(self) -> str:
        """The text behind the broker's name."""
        partitions = f"{self.partitions_done} of {self.partitions_total} partitions"
        if not self.bytes_total:
            return f"loading logs, {partitions}"
        unit, divisor = _unit(self.bytes_total)
        done, total = self.bytes_done / divisor, self.bytes_total / divisor
        return f"recovering logs, {done:.1f} of {total:.1f} {unit}, {partitions}"

    def to_json(self) -> dict[str, int]:
        """The fields of a report and of `status --json`."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "RecoveryProgress":
        """Parse the fields of another process's report. Raises TypeError and ValueError."""
        return cls(**{name: int(value) for name, value in fields.items()})


def _unit(total_bytes: int) -> tuple[str, int]:
    """A decimal unit in which the total is at least 0.1."""
    return ("GB", 10**9) if total_bytes >= 10**8 else ("MB", 10**6)
