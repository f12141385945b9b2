"""Chooses the log directory of a new replica: the one with room and the fewest replicas. Pure."""

from pathlib import Path
from typing import Final

from cluster.log.log_directory import LogDirectory
from cluster.model.errors import StorageFailed
from cluster.model.ids import TopicPartition

_PREFERRED_MAX: Final = 10_000


class LogPlaces:
    """The log directories of one broker, in the order of the settings, and their replicas.

    Owned by the broker's thread.
    """

    def __init__(self, directories: list[LogDirectory]) -> None:
        self.directories = directories
        self._counts = dict.fromkeys(directories, 0)
        self._of_partition: dict[TopicPartition, LogDirectory] = {}
        self._preferred: dict[TopicPartition, LogDirectory] = {}

    @property
    def working(self) -> list[LogDirectory]:
        """The directories that have not failed."""
        return [directory for directory in self.directories if directory.failure is None]

    @property
    def has_failed_one(self) -> bool:
        """Whether a missing replica may be in a failed directory."""
        return any(directory.failure is not None for directory in self.directories)

    def by_path(self, path: Path) -> LogDirectory | None:
        """The log directory at a path, working or failed."""
        return next((d for d in self.directories if d.path.absolute() == path), None)

    def of(self, partition: TopicPartition) -> LogDirectory | None:
        """The directory of a replica, or None."""
        return self._of_partition.get(partition)

    def choose(self, partition: TopicPartition) -> LogDirectory:
        """Choose a directory for a new replica. Raises StorageFailed if no directory works."""
        wanted = self._preferred.get(partition)
        if wanted is not None and wanted.failure is None:
            return wanted
        working = self.working
        if not working:
            raise StorageFailed("all log directories have failed")
        return min(working, key=lambda each: (each.room.is_full, self._counts[each]))

    def prefer(self, partition: TopicPartition, directory: LogDirectory) -> None:
        """Remember the chosen directory of a replica that does not exist here yet (KIP-113).

        The number of entries is bounded, because clients may name any partition.
        """
        self._preferred.pop(partition, None)
        self._preferred[partition] = directory
        if len(self._preferred) > _PREFERRED_MAX:
            del self._preferred[next(iter(self._preferred))]

    def put(self, partition: TopicPartition, directory: LogDirectory) -> None:
        """Record the directory of a replica, which replaces any earlier one."""
        self.take(partition)
        self._preferred.pop(partition, None)
        self._of_partition[partition] = directory
        self._counts[directory] += 1

    def take(self, partition: TopicPartition) -> LogDirectory | None:
        """Forget a replica; returns the directory that held it."""
        directory = self._of_partition.pop(partition, None)
        if directory is not None:
            self._counts[directory] -= 1
        return directory
