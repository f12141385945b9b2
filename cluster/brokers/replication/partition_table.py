"""All replicas of one broker: which exist, in which log directory, and their checkpoints.

Roles are given by `replica_roles`; this module knows logs and directories only.
"""

import logging
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from cluster.brokers.log.checkpoints import read_topic_id, write_topic_id
from cluster.brokers.log.directory_work import DirectoryWork
from cluster.brokers.log.log_directory import LogDirectory
from cluster.brokers.log.options import LogOptions
from cluster.brokers.log.partition_log import PartitionLog
from cluster.brokers.replication.partition import Partition
from cluster.model.clocks import WallMs
from cluster.model.ids import BrokerId, Offset, TopicPartition, decode_uuid, encode_uuid

log = logging.getLogger(__name__)

_NO_TOPIC_ID: Final = uuid.UUID(int=0)

OptionsOf = Callable[[Mapping[str, str]], tuple[LogOptions, int]]
"""From a topic's overrides to its log's options and its min.insync.replicas."""


@dataclass(slots=True)
class Checkpoints:
    """What one log directory's checkpoint files are to say."""

    high_watermarks: dict[TopicPartition, Offset] = field(default_factory=dict)
    recovery_points: dict[TopicPartition, Offset] = field(default_factory=dict)
    log_starts: dict[TopicPartition, Offset] = field(default_factory=dict)
    cleaned: dict[TopicPartition, Offset] = field(default_factory=dict)
    """Of the logs that were compacted at all."""

    def add(self, partition: Partition) -> None:
        """A replica of the directory, as it is now."""
        self.high_watermarks[partition.id] = partition.high_watermark
        self.recovery_points[partition.id] = partition.log.recovery_point
        self.log_starts[partition.id] = partition.log.log_start_offset
        if partition.log.cleaned_to:
            self.cleaned[partition.id] = partition.log.cleaned_to

    def write(self, directory: LogDirectory) -> None:
        """Replace the files, on any thread. Raises StorageFailed."""
        directory.write_high_watermarks(self.high_watermarks)
        directory.write_recovery_points(self.recovery_points)
        directory.write_log_start_offsets(self.log_starts)
        directory.write_cleaner_offsets(self.cleaned)


class PartitionTable:
    """Owned by the broker's thread.

    Invariant: a partition of the table has its directory in exactly one log directory.
    """

    def __init__(
        self,
        directories: list[LogDirectory],
        local_id: BrokerId,
        options_of: OptionsOf,
        work: DirectoryWork | None = None,
    ) -> None:
        """`work` makes and removes directories, in the background or, by default, at once."""
        self._directories = directories
        self._local_id = local_id
        self._options_of = options_of
        self._work = DirectoryWork() if work is None else work
        self._partitions: dict[TopicPartition, Partition] = {}
        self.find: Callable[[tuple[str, int]], Partition | None] = self._partitions.get  # type: ignore[assignment]  # the pair is equal to its named tuple
        """The replica here, or None. A plain attribute: every request looks its partitions up."""
        self._of_topic: dict[str, dict[TopicPartition, Partition]] = {}
        """The same replicas by topic; a topic without any has no entry."""
        self._directory_of: dict[TopicPartition, LogDirectory] = {}
        self._counts = dict.fromkeys(range(len(directories)), 0)
        """Replicas by the slot of their directory."""
        self._latest_options: tuple[Mapping[str, str], tuple[LogOptions, int]] | None = None

    def load(self, wall_ms: WallMs) -> None:
        """Open the logs that are on disk; recovery happens here. Raises StorageFailed."""
        for slot, directory in enumerate(self._directories):
            for leftover in directory.leftovers:
                self._work.remove_later(leftover)
            high_watermarks = directory.read_high_watermarks()
            recovery_points = directory.read_recovery_points()
            log_starts = directory.read_log_start_offsets()
            cleaned = directory.read_cleaner_offsets()
            options, min_insync_replicas = self._options_of({})
            for partition_id, path in directory.partition_directories().items():
                partition_log = PartitionLog.open(
                    path,
                    partition_id,
                    options,
                    wall_ms,
                    clean_shutdown=directory.was_clean_shutdown,
                    recovery_point=recovery_points.get(partition_id, Offset(0)),
                    log_start_offset=log_starts.get(partition_id, Offset(0)),
                    deleted_files=self._work.deleted_files,
                )
                partition_log.cleaned_to = cleaned.get(partition_id, Offset(0))
                self._add(
                    Partition(
                        partition_id,
                        _topic_id_of(path),
                        partition_log,
                        high_watermarks.get(partition_id, Offset(0)),
                        self._local_id,
                        min_insync_replicas,
                    )
                )
                self._directory_of[partition_id] = directory
                self._counts[slot] += 1

    def __iter__(self) -> Iterator[Partition]:
        """Every replica, in no order."""
        return iter(list(self._partitions.values()))

    def __len__(self) -> int:
        """How many replicas there are."""
        return len(self._partitions)

    def find_or_create(
        self,
        partition_id: TopicPartition,
        topic_id: uuid.UUID,
        configs: Mapping[str, str],
        wall_ms: WallMs,
    ) -> Partition:
        """The replica, created in the log directory with the fewest if it is not here yet.

        A replica without a topic id on disk (Kafka before 2.8 wrote none) is given this one, as
        Kafka does; one with another id must be deleted first. The files of a new one are made in
        the background. Raises StorageFailed.
        """
        partition = self._partitions.get(partition_id)
        if partition is not None and partition.topic_id == _NO_TOPIC_ID:
            write_topic_id(partition.log.directory, encode_uuid(topic_id))
            partition.topic_id = topic_id
        if partition is None:
            options, min_insync_replicas = self._options(configs)
            slot = min(self._counts, key=self._counts.__getitem__)
            directory = self._directories[slot]
            path = directory.partition_path(partition_id)
            make = self._work.create(
                path, partial(directory.create_partition, partition_id, encode_uuid(topic_id))
            )
            partition_log = PartitionLog.create(
                path, partition_id, options, wall_ms, make, self._work.deleted_files
            )
            partition = Partition(
                partition_id,
                topic_id,
                partition_log,
                Offset(0),
                self._local_id,
                min_insync_replicas,
            )
            self._add(partition)
            self._directory_of[partition_id] = directory
            self._counts[slot] += 1
        else:
            self.take_options(partition, configs)
        return partition

    def take_options(self, partition: Partition, configs: Mapping[str, str]) -> None:
        """Give a replica the options that its topic's configs and the broker's settings make."""
        options, min_insync_replicas = self._options(configs)
        if partition.log.options is not options:
            partition.log.update_options(options)
            partition.min_insync_replicas = min_insync_replicas

    def forget_options(self) -> None:
        """The broker's settings have changed: the same configs make other options now."""
        self._latest_options = None

    def _options(self, configs: Mapping[str, str]) -> tuple[LogOptions, int]:
        """Cached for the latest configs: partitions of a topic come one after the other."""
        latest = self._latest_options
        if latest is None or latest[0] != configs:
            latest = self._latest_options = dict(configs), self._options_of(configs)
        return latest[1]

    def is_of_earlier_topic(self, partition: Partition, topic_id: uuid.UUID) -> bool:
        """Whether a replica belongs to a topic of the same name that was deleted, perhaps while
        this broker was away.
        """
        return partition.topic_id not in (topic_id, _NO_TOPIC_ID)

    def delete(self, partition_id: TopicPartition) -> Partition | None:
        """Remove a replica and its files; returns it, or None. Raises StorageFailed: files stay.

        The directory is renamed first and removed later, in the background. The replica resigns, so
        that requests which wait for its high watermark are answered.
        """
        partition = self._partitions.pop(partition_id, None)
        if partition is not None:
            of_topic = self._of_topic[partition_id.topic]
            del of_topic[partition_id]
            if not of_topic:
                del self._of_topic[partition_id.topic]
            directory = self._directory_of.pop(partition_id)
            self._counts[self._directories.index(directory)] -= 1
            partition.resign()
            self._work.delete(partition.log.directory, partition.log.options.file_delete_delay_ms)
        return partition

    @property
    def directories(self) -> list[LogDirectory]:
        """Every log directory, in the order of the settings."""
        return self._directories

    def directory_of(self, partition_id: TopicPartition) -> LogDirectory | None:
        """Where a replica is; None where there is none."""
        return self._directory_of.get(partition_id)

    def write_checkpoints(self) -> None:
        """Write the checkpoints of every directory, waiting for the disk. Raises StorageFailed."""
        for directory in self._directories:
            checkpoints = Checkpoints()
            for partition in self._partitions.values():
                if self._directory_of[partition.id] is directory:
                    checkpoints.add(partition)
            checkpoints.write(directory)

    def close(self) -> None:
        """Flush and close every log, and mark the directories as cleanly shut down."""
        for partition in self._partitions.values():
            partition.log.flush()
        self.write_checkpoints()
        for partition in self._partitions.values():
            partition.log.close(flush=True)
        for directory in self._directories:
            directory.mark_clean_shutdown()
            directory.close()

    def of_topics(self, names: Iterable[str]) -> list[Partition]:
        """The replicas of these topics."""
        return [p for name in names for p in self._of_topic.get(name, {}).values()]

    def _add(self, partition: Partition) -> None:
        self._partitions[partition.id] = partition
        self._of_topic.setdefault(partition.id.topic, {})[partition.id] = partition


def _topic_id_of(directory: Path) -> uuid.UUID:
    """The topic id that a partition's directory names; zero where it names none."""
    text = read_topic_id(directory)
    if text is None:
        return _NO_TOPIC_ID
    try:
        return decode_uuid(text)
    except ValueError:
        log.warning("%s: %r is no topic id", directory, text)
        return _NO_TOPIC_ID
