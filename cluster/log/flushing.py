"""What must reach the disk for a log to be durable up to an offset; may be synced on any thread."""

from dataclasses import dataclass
from pathlib import Path

from cluster.log.files import files_of
from cluster.log.mmap_segment import MmapSegment
from cluster.model.errors import StorageFailed
from cluster.model.ids import Offset


@dataclass(frozen=True, slots=True)
class FlushTarget:
    """Files as they stood when the log end was `offset`, after the log was cut `cuts` times.

    It keeps the segment files open, so a roll, truncation or deletion meanwhile does no harm.
    """

    offset: Offset
    segments: tuple[MmapSegment, ...]
    paths: tuple[Path, ...]
    cuts: int

    def sync(self) -> None:
        """Wait until all of it is on disk. Touches no state of the log. Raises StorageFailed."""
        files = files_of(self.segments[-1].path)
        try:
            for segment in self.segments:
                files.sync_data(segment.fileno())
            for path in self.paths:
                files.sync_path(path)
        except OSError as error:
            raise StorageFailed(
                f"cannot flush {self.segments[-1].path}: {error.strerror}"
            ) from error
