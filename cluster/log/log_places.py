"""Where a new replica of a broker goes: the log directory with room and the fewest. Pure."""

from pathlib import Path
from typing import Final

from cluster.log.log_directory import LogDirectory
from cluster.model.errors import StorageFailed
from cluster.model.ids import TopicPartition

_PREFERRED_MAX: Final = 10_000


class LogPlaces:
    """The log directories of one broker, in the order of the settings, and what each holds.

    Owned by the broker's thread.
    """

    def __init__(self, directories: list[LogDirectory]) -> None:
        self.directories = directories
        self._counts = dict.fromkeys(directories, 0)
        self._of_partition: dict[TopicPartition, LogDirectory] = {}
        self._preferred: dict[TopicPartition, LogDirectory] = {}

    @property
    def working(self) -> list[LogDirectory]:
        """Those that have not failed."""
        return [directory for directory in self.directories if directory.failure is None]

    @property
    def has_failed_one(self) -> bool:
        """Whether a replica that is not found may be in a directory that cannot be read."""
        return any(directory.failure is not None for directory in self.directories)

    def by_path(self, path: Path) -> LogDirectory | None:
        """The log directory at a path, working or not."""
        return next((d for d in self.directories if d.path.absolute() == path), None)

    def of(self, partition: TopicPartition) -> LogDirectory | None:
        """Where a replica is; None where there is none."""
        return self._of_partition.get(partition)

    def choose(self, partition: TopicPartition) -> LogDirectory:
        """Where to make a replica. Raises StorageFailed where no directory is left."""
        wanted = self._preferred.get(partition)
        if wanted is not None and wanted.failure is None:
            return wanted
        working = self.working
        if not working:
            raise StorageFailed("all log directories have failed")
        return min(working, key=lambda each: (each.room.is_full, self._counts[each]))

    def prefer(self, partition: TopicPartition, directory: LogDirectory) -> None:
        """Remember where a replica is to be made that is not here yet (KIP-113).

        For so many partitions: clients may name any.
        """
        self._preferred.pop(partition, None)
        self._preferred[partition] = directory
        if len(self._preferred) > _PREFERRED_MAX:
            del self._preferred[next(iter(self._preferred))]

    def put(self, partition: TopicPartition, directory: LogDirectory) -> None:
        """The replica is in this directory now, and nowhere else."""
        self.take(partition)
        self._preferred.pop(partition, None)
        self._of_partition[partition] = directory
        self._counts[directory] += 1

    def take(self, partition: TopicPartition) -> LogDirectory | None:
        """The replica is nowhere any more; where it was."""
        directory = self._of_partition.pop(partition, None)
        if directory is not None:
            self._counts[directory] -= 1
        return directory
