"""All replicas of one broker: which exist, in which log directory, and their checkpoints.

Roles are given by `replica_roles`; this module knows logs and directories only.
"""

import logging
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from cluster.brokers.log.checkpoints import read_topic_id, write_topic_id
from cluster.brokers.log.log_directory import LogDirectory
from cluster.brokers.log.options import LogOptions
from cluster.brokers.log.partition_log import PartitionLog
from cluster.brokers.replication.partition import Partition
from cluster.model.ids import BrokerId, Offset, TopicPartition, decode_uuid, encode_uuid

log = logging.getLogger(__name__)

_NO_TOPIC_ID: Final = uuid.UUID(int=0)

OptionsOf = Callable[[Mapping[str, str]], tuple[LogOptions, int]]
"""From a topic's overrides to its log's options and its min.insync.replicas."""


class PartitionTable:
    """Owned by the broker's thread.

    Invariant: a partition of the table has its directory in exactly one log directory.
    """

    def __init__(
        self, directories: list[LogDirectory], local_id: BrokerId, options_of: OptionsOf
    ) -> None:
        self._directories = directories
        self._local_id = local_id
        self._options_of = options_of
        self._partitions: dict[TopicPartition, Partition] = {}
        self.find: Callable[[tuple[str, int]], Partition | None] = self._partitions.get  # type: ignore[assignment]  # the pair is equal to its named tuple
        """The replica here, or None. A plain attribute: every request looks its partitions up."""
        self._directory_of: dict[TopicPartition, LogDirectory] = {}

    def load(self, now_ms: int) -> None:
        """Open the logs that are on disk; recovery happens here. Raises StorageFailed."""
        for directory in self._directories:
            high_watermarks = directory.read_high_watermarks()
            recovery_points = directory.read_recovery_points()
            log_starts = directory.read_log_start_offsets()
            options, min_insync_replicas = self._options_of({})
            for partition_id, path in directory.partition_directories().items():
                partition_log = PartitionLog.open(
                    path,
                    partition_id,
                    options,
                    now_ms,
                    clean_shutdown=directory.was_clean_shutdown,
                    recovery_point=recovery_points.get(partition_id, Offset(0)),
                    log_start_offset=log_starts.get(partition_id, Offset(0)),
                )
                self._partitions[partition_id] = Partition(
                    partition_id,
                    _topic_id_of(path),
                    partition_log,
                    high_watermarks.get(partition_id, Offset(0)),
                    self._local_id,
                    min_insync_replicas,
                )
                self._directory_of[partition_id] = directory

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
        now_ms: int,
    ) -> Partition:
        """The replica, created in the log directory with the fewest if it is not here yet.

        What is here under the same name but another topic id belonged to a topic that was deleted
        while this broker was away, and is removed first. What does not say its topic id (Kafka
        before 2.8 wrote none) is given this one, as Kafka does. Raises StorageFailed.
        """
        options, min_insync_replicas = self._options_of(configs)
        partition = self._partitions.get(partition_id)
        if partition is not None and partition.topic_id == _NO_TOPIC_ID:
            write_topic_id(partition.log.directory, encode_uuid(topic_id))
            partition.topic_id = topic_id
        if partition is not None and partition.topic_id != topic_id:
            log.info("%s: removing the log of a deleted topic of the same name", partition_id)
            self.delete(partition_id)
            partition = None
        if partition is None:
            directory = min(
                self._directories,
                key=lambda d: sum(1 for used in self._directory_of.values() if used is d),
            )
            path = directory.create_partition(partition_id, encode_uuid(topic_id))
            partition_log = PartitionLog.open(
                path,
                partition_id,
                options,
                now_ms,
                clean_shutdown=True,
                recovery_point=Offset(0),
                log_start_offset=Offset(0),
            )
            partition = Partition(
                partition_id,
                topic_id,
                partition_log,
                Offset(0),
                self._local_id,
                min_insync_replicas,
            )
            self._partitions[partition_id] = partition
            self._directory_of[partition_id] = directory
        else:
            partition.log.update_options(options)
            partition.min_insync_replicas = min_insync_replicas
        return partition

    def delete(self, partition_id: TopicPartition) -> Partition | None:
        """Remove a replica and its files; what it was, or None. Raises StorageFailed: files stay.

        It leads no more, so whoever waits for a high watermark of it does not wait in vain.
        """
        partition = self._partitions.pop(partition_id, None)
        if partition is not None:
            self._directory_of.pop(partition_id)
            partition.resign()
            partition.log.delete()
        return partition

    def write_checkpoints(self) -> None:
        """Write high watermarks, recovery points and log starts of every directory (atomically)."""
        for directory in self._directories:
            here = [p for p in self._partitions.values() if self._directory_of[p.id] is directory]
            directory.write_high_watermarks({p.id: p.high_watermark for p in here})
            directory.write_recovery_points({p.id: p.log.recovery_point for p in here})
            directory.write_log_start_offsets({p.id: p.log.log_start_offset for p in here})

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
        wanted = set(names)
        return [p for p in self._partitions.values() if p.id.topic in wanted]


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
