"""The messages between a broker and the helper that cleans a log. Pure.

The helper answers `cleaned` for each group of segments whose files are ready to swap in, then
`done`; or, with a reason, `failed` (a retry may succeed) or `damaged` (the log itself is damaged).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

from cluster.log.cleaner.batch_rules import LastRecord
from cluster.model.ids import Offset

CLEANED: Final = "cleaned"
DONE: Final = "done"
FAILED: Final = "failed"
DAMAGED: Final = "damaged"


class SourceSegment(NamedTuple):
    """A closed segment: its base offset and the sizes of its files."""

    base_offset: Offset
    size_bytes: int
    index_bytes: int = 0
    """Looked up by the helper, like the next."""
    time_index_bytes: int = 0


@dataclass(frozen=True, slots=True)
class CleaningOrder:
    """One cleaning of one log; sizes in bytes, times in milliseconds since the epoch."""

    directory: str
    segments: Sequence[SourceSegment]
    """From the first one on, all of which lie below `upper_offset`."""
    later_segments: Sequence[int]
    """Base offsets of the others: their transaction indexes count as well."""
    first_dirty_offset: Offset
    upper_offset: Offset
    """Base offset of the first segment that is not to be cleaned."""
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    map_bytes: int
    load_factor: float
    io_buffer_bytes: int
    io_bytes_per_second: float
    producers: Mapping[int, LastRecord]

    def to_message(self) -> dict[str, Any]:
        return asdict(self) | {
            "segments": list(self.segments),
            "producers": [(number, *last) for number, last in self.producers.items()],
        }

    @classmethod
    def of_message(cls, message: Mapping[str, Any]) -> "CleaningOrder":
        fields = dict(message)
        fields["segments"] = [SourceSegment(*row) for row in message["segments"]]
        fields["producers"] = {
            number: LastRecord(offset, epoch) for number, offset, epoch in message["producers"]
        }
        return cls(**fields)


@dataclass(frozen=True, slots=True)
class CleanedGroup:
    """Segments to be replaced by one new segment with the first one's base offset."""

    sources: Sequence[int]
    """Their base offsets."""

    def to_message(self) -> dict[str, Any]:
        return {"kind": CLEANED, "sources": list(self.sources)}


@dataclass(slots=True)
class CleaningStats:
    """The statistics of one cleaning, for its log line."""

    map_slots: int = 0
    map_keys: int = 0
    indexed_bytes: int = 0
    index_ms: int = 0
    read_bytes: int = 0
    read_records: int = 0
    kept_bytes: int = 0
    kept_records: int = 0
    clean_ms: int = 0
    waited_ms: int = 0
    """For `log.cleaner.io.max.bytes.per.second`."""
    groups: int = 0


@dataclass(frozen=True, slots=True)
class CleaningDone:
    """The log is clean up to an offset once every group is swapped in."""

    next_dirty_offset: Offset
    stats: CleaningStats

    def to_message(self) -> dict[str, Any]:
        return {
            "kind": DONE,
            "next_dirty_offset": self.next_dirty_offset,
            "stats": asdict(self.stats),
        }

    @classmethod
    def of_message(cls, message: Mapping[str, Any]) -> "CleaningDone":
        return cls(message["next_dirty_offset"], CleaningStats(**message["stats"]))
