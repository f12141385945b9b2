"""One `log.dirs` entry: its owner, whether its last shutdown was clean, and its checkpoints.

One process at a time: the directory is locked while this object is open.
"""

import fcntl
import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from cluster.log import checkpoints
from cluster.log.directories import (
    DELETE_SUFFIX,
    parse_directory_name,
    parse_future_name,
)
from cluster.log.directory_mark import DirectoryMark, read_mark
from cluster.log.directory_room import DirectoryRoom
from cluster.log.directory_state import concerns_a_name, has_failed
from cluster.log.files import LogFiles, files_of, place_files
from cluster.log.segment_paths import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    create_segment_file,
)
from cluster.model.errors import StorageFailed
from cluster.model.ids import Offset, TopicPartition, encode_uuid, new_uuid

log = logging.getLogger(__name__)

_LOCK: Final = ".lock"
_CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
_VERSION: Final = "0"

Offsets = dict[TopicPartition, Offset]


class LogDirectory:
    """A locked log directory of one broker, or one that has failed.

    Lifecycle: `open`, then logs, then `mark_clean_shutdown` if all of them closed, then `close`.
    Invariant: nothing is written into a failed directory.
    """

    def __init__(
        self,
        path: Path,
        lock_descriptor: int,
        leftovers: list[Path],
        files: LogFiles,
        *,
        was_clean_shutdown: bool,
        lacks_unsynced: bool = False,
    ) -> None:
        self.path = path
        self.files = files
        """Reaches all files of the directory, and of the logs in it."""
        self.leftovers = leftovers
        """Renamed directories of deleted partitions that were not removed before the last stop."""
        self.was_clean_shutdown = was_clean_shutdown
        self.lacks_unsynced = lacks_unsynced
        """Whether the machine went down while it was in use: what was not synced may be lost."""
        self.failure: str | None = None
        """Why it is not used any more, in one line; None while it works."""
        self.directory_id = ""
        """Kafka's `directory.id` (KIP-858), made with the directory."""
        self.mark: DirectoryMark | None = None
        """What its own file said when it was opened."""
        self.repaired: set[TopicPartition] = set()
        """Logs that are since the start as a clean stop would have left them."""
        self.room = DirectoryRoom(path)
        self._lock_descriptor = lock_descriptor
        self._cleaner_offsets: Offsets = {}

    @classmethod
    def open(
        cls,
        path: Path,
        cluster_id: str,
        broker_id: int,
        files: LogFiles | None = None,
        boot_id: str = "",
    ) -> "LogDirectory":
        """Lock a directory (created when absent) and claim it for this broker.

        `files` reaches its files, by default by the system's calls. `boot_id` is the present one of
        the machine; empty if it has none.

        The clean-shutdown marker is consumed: from here on a crash means recovery. Raises
        StorageFailed if the directory is locked or belongs to another cluster or broker.
        """
        files = LogFiles() if files is None else files
        place_files(path, files)
        try:
            path.mkdir(parents=True, exist_ok=True)
            descriptor = _lock(path)
        except OSError as error:
            raise StorageFailed(f"cannot open log directory {path}: {error.strerror}") from error
        try:
            directory_id = _claim(path, cluster_id, broker_id)
            mark = read_mark(path)
            marker = path / _CLEAN_SHUTDOWN
            was_clean = marker.exists()
            files.unlink_if_there(marker)
            leftovers = list(path.glob(f"*{DELETE_SUFFIX}"))
        except OSError as error:
            os.close(descriptor)
            raise StorageFailed(f"cannot open log directory {path}: {error.strerror}") from error
        except StorageFailed:
            os.close(descriptor)
            raise
        has_rebooted = mark is not None and mark.boot_id != boot_id != ""
        directory = cls(
            *(path, descriptor, leftovers, files),
            was_clean_shutdown=was_clean,
            lacks_unsynced=has_rebooted and not was_clean,
        )
        directory.directory_id, directory.mark = directory_id, mark
        return directory

    @classmethod
    def failed(cls, path: Path, reason: str) -> "LogDirectory":
        """A directory that could not be opened."""
        directory = cls(path, -1, [], LogFiles(), was_clean_shutdown=False)
        directory.failure = reason
        return directory

    def is_lost_with(self, failure: StorageFailed) -> bool:
        """Whether a failure means that the whole directory cannot be used any more.

        If only the files of one partition are missing or in the way, the others stay in use.
        """
        if not has_failed(failure):
            return False
        return not (concerns_a_name(failure) and (self.path / checkpoints.META_PROPERTIES).exists())

    def fail(self, reason: str) -> None:
        """Take the directory offline until the next start."""
        self.failure = reason
        self.close()

    def partition_path(self, partition: TopicPartition) -> Path:
        """The path of a partition's log, whether it exists or not."""
        return self.path / str(partition)

    def partition_directories(self) -> dict[TopicPartition, Path]:
        """The partitions that have a directory here."""
        with os.scandir(self.path) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir())
        partitions = {parse_directory_name(name): self.path / name for name in names}
        return {partition: path for partition, path in partitions.items() if partition is not None}

    def future_directories(self) -> list[tuple[TopicPartition, Path]]:
        """The future copies of partitions that an earlier run began. Raises OSError."""
        with os.scandir(self.path) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir())
        found = [(parse_future_name(name), self.path / name) for name in names]
        return [(partition, path) for partition, path in found if partition is not None]

    def create_partition(self, partition: TopicPartition, topic_id: str) -> None:
        """Create a partition's directory with its topic id and its first segment, as Kafka does.

        May run on any thread, and again after a failed attempt. Raises StorageFailed.
        """
        path = self.partition_path(partition)
        try:
            self.files.mkdir(path)
        except OSError as error:
            if not path.is_dir():
                raise StorageFailed(f"cannot create {path}: {error.strerror}") from error
        checkpoints.create_topic_id(path, topic_id)
        for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            create_segment_file(path, 0, suffix)

    def read_high_watermarks(self) -> Offsets:
        """The high watermarks in the checkpoint; a missing one counts as 0."""
        return self._read(checkpoints.HIGH_WATERMARKS)

    def write_high_watermarks(self, offsets: Offsets) -> None:
        """Replace the file of high watermarks. Raises StorageFailed."""
        self._write(checkpoints.HIGH_WATERMARKS, offsets)

    def read_recovery_points(self) -> Offsets:
        """Offsets below which each log is on disk; a missing one counts as 0."""
        return self._read(checkpoints.RECOVERY_POINTS)

    def write_recovery_points(self, offsets: Offsets) -> None:
        self._write(checkpoints.RECOVERY_POINTS, offsets)

    def read_log_start_offsets(self) -> Offsets:
        """The log start offsets in the checkpoint; a missing one counts as 0."""
        return self._read(checkpoints.LOG_START_OFFSETS)

    def write_log_start_offsets(self, offsets: Offsets) -> None:
        """Replace the file of log start offsets. Raises StorageFailed."""
        self._write(checkpoints.LOG_START_OFFSETS, offsets)

    def read_cleaner_offsets(self) -> Offsets:
        """The offset up to which each compacted log was cleaned; a missing one counts as 0."""
        self._cleaner_offsets = self._read(checkpoints.CLEANER_OFFSETS)
        return self._cleaner_offsets

    def write_cleaner_offsets(self, offsets: Offsets) -> None:
        """Replace the file of cleaner offsets, if they have changed. Raises StorageFailed."""
        if offsets != self._cleaner_offsets:
            self._write(checkpoints.CLEANER_OFFSETS, offsets)
            self._cleaner_offsets = offsets

    def mark_clean_shutdown(self) -> None:
        """Record that every log was closed, so the next start skips recovery. Raises
        StorageFailed."""
        checkpoints.replace_file(self.path / _CLEAN_SHUTDOWN, b"", sync=True)

    def close(self) -> None:
        """Unlock the directory. May be called twice."""
        if self._lock_descriptor >= 0:
            os.close(self._lock_descriptor)
            self._lock_descriptor = -1

    def _read(self, name: str) -> Offsets:
        try:
            return checkpoints.read_offsets(self.path / name)
        except checkpoints.DamagedCheckpoint:
            return {}  # every reader starts from a lower offset and catches up

    def _write(self, name: str, offsets: Offsets) -> None:
        checkpoints.write_offsets(self.path / name, offsets)


def open_all(
    paths: Iterable[Path], cluster_id: str, broker_id: int, boot_id: str = ""
) -> list[LogDirectory]:
    """Open the log directories of a broker; some of them may have failed (see `failure`).

    Raises StorageFailed if every directory has failed, or one belongs to another broker.
    """
    directories: list[LogDirectory] = []
    for path in paths:
        try:
            directory = LogDirectory.open(path, cluster_id, broker_id, boot_id=boot_id)
        except StorageFailed as failure:
            if not has_failed(failure):
                for opened in directories:
                    opened.close()
                raise
            log.error("%s; its partitions are offline", failure)  # noqa: TRY400 - one line
            directory = LogDirectory.failed(path, str(failure))
        directories.append(directory)
    check_any_works(directories)
    return directories


def check_any_works(directories: Iterable[LogDirectory]) -> None:
    """Raise StorageFailed if every directory has failed: no broker runs without one."""
    reasons = [directory.failure for directory in directories]
    if None not in reasons:
        raise StorageFailed(
            f"all log directories have failed: {'; '.join(str(reason) for reason in reasons)}"
        )


def _lock(path: Path) -> int:
    descriptor = files_of(path).open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        # flock also excludes other openers in this process; lockf is the lock that Kafka uses.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # lockf may answer EACCES
        os.close(descriptor)
        raise StorageFailed(
            f"log directory {path} is in use by another process; stop that broker first"
        ) from None
    return descriptor


def _claim(path: Path, cluster_id: str, broker_id: int) -> str:
    """Create or check `meta.properties`, which names the owner; returns the directory id."""
    file = path / checkpoints.META_PROPERTIES
    found = checkpoints.read_properties(file)
    if found is None:
        found = {"version": _VERSION, "broker.id": str(broker_id), "cluster.id": cluster_id}
        return _give_id(file, found)
    owner, owner_cluster = found.get("broker.id", "?"), found.get("cluster.id", "?")
    if owner != str(broker_id) or owner_cluster != cluster_id:
        raise StorageFailed(
            f"log directory {path} belongs to broker {owner} of cluster {owner_cluster}, not to "
            f"broker {broker_id} of cluster {cluster_id}; give this broker another directory, or "
            "delete this one if its data is not needed"
        )
    known = found.get("directory.id")
    return known if known else _give_id(file, found)


def _give_id(file: Path, properties: Mapping[str, str]) -> str:
    directory_id = encode_uuid(new_uuid())
    checkpoints.write_properties(file, {**properties, "directory.id": directory_id})
    return directory_id
