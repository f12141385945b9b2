"""The files to sync for a log to be durable up to an offset; any thread may sync them."""

from dataclasses import dataclass
from pathlib import Path

from cluster.log.files import files_of
from cluster.log.mmap_segment import MmapSegment
from cluster.model.errors import StorageFailed
from cluster.model.ids import Offset


@dataclass(frozen=True, slots=True)
class FlushTarget:
    """The files of a log when its end was `offset`, after `cuts` truncations.

    It keeps the segment files open, so a concurrent roll, truncation or deletion does no harm.
    """

    offset: Offset
    segments: tuple[MmapSegment, ...]
    paths: tuple[Path, ...]
    cuts: int

    def sync(self) -> None:
        """Sync all files without touching the log's state. Raises StorageFailed."""
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
