"""All replicas of one broker, their log directories, and their checkpoints.

`replica_roles` gives them their roles; this module knows logs and directories only.
"""

import logging
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

from cluster.brokers.replication.offline_replicas import OfflineReplicas
from cluster.brokers.replication.partition import Partition
from cluster.log.checkpoints import PARTITION_METADATA, read_topic_id, write_topic_id
from cluster.log.damage import Damage
from cluster.log.directories import parse_deleted_name, rename_to_stray
from cluster.log.directory_state import concerns_a_name
from cluster.log.directory_work import DirectoryWork
from cluster.log.log_directory import LogDirectory, check_any_works
from cluster.log.log_places import LogPlaces
from cluster.log.options import LogOptions
from cluster.log.partition_log import PartitionLog
from cluster.model.clocks import WallMs
from cluster.model.errors import StorageFailed
from cluster.model.ids import (
    BrokerId,
    LeaderEpoch,
    Offset,
    TopicPartition,
    decode_uuid,
    encode_uuid,
)

log = logging.getLogger(__name__)

NO_TOPIC_ID: Final = uuid.UUID(int=0)
"""Stands for the topic id of a replica whose directory names none."""

OptionsOf = Callable[[Mapping[str, str]], tuple[LogOptions, int]]
"""Maps a topic's overrides to its log's options and its min.insync.replicas."""


OnOpened = Callable[[int, int], None]
"""Takes the number of logs that were looked at so far, and the total."""


def nobody_waits(_opened: int, _total: int) -> None:
    """Ignores progress."""


def nobody_repairs(_partition: TopicPartition, _damage: Damage) -> None:
    """Ignores damage, which is logged anyway."""


@dataclass(slots=True)
class Checkpoints:
    """The content of one log directory's checkpoint files."""

    high_watermarks: dict[TopicPartition, Offset] = field(default_factory=dict)
    recovery_points: dict[TopicPartition, Offset] = field(default_factory=dict)
    log_starts: dict[TopicPartition, Offset] = field(default_factory=dict)
    cleaned: dict[TopicPartition, Offset] = field(default_factory=dict)
    """Offsets of the logs that were compacted at all."""

    def add(self, partition: Partition) -> None:
        """Add the present offsets of a replica."""
        self.high_watermarks[partition.id] = partition.high_watermark
        self.recovery_points[partition.id] = partition.log.durability.recovery_point
        self.log_starts[partition.id] = partition.log.log_start_offset
        if partition.log.cleaned_to:
            self.cleaned[partition.id] = partition.log.cleaned_to

    def keep(self, partition_id: TopicPartition, stored: "Checkpoints") -> None:
        """Keep the stored offsets of a replica that could not be opened."""
        for ours, theirs in (
            (self.high_watermarks, stored.high_watermarks),
            (self.recovery_points, stored.recovery_points),
            (self.log_starts, stored.log_starts),
            (self.cleaned, stored.cleaned),
        ):
            if partition_id in theirs:
                ours[partition_id] = theirs[partition_id]

    def with_records(self) -> set[TopicPartition]:
        """The replicas that had committed or synced records."""
        ends = [*self.high_watermarks.items(), *self.recovery_points.items()]
        return {name for name, end in ends if end > 0}

    def copy(self) -> "Checkpoints":
        """An independent copy."""
        return Checkpoints(
            dict(self.high_watermarks),
            dict(self.recovery_points),
            dict(self.log_starts),
            dict(self.cleaned),
        )

    @classmethod
    def read(cls, directory: LogDirectory) -> "Checkpoints":
        """Read the files; a missing or damaged one counts as empty."""
        return cls(
            directory.read_high_watermarks(),
            directory.read_recovery_points(),
            directory.read_log_start_offsets(),
            directory.read_cleaner_offsets(),
        )

    def write(self, directory: LogDirectory) -> None:
        """Replace the files, on any thread. Raises StorageFailed."""
        directory.write_high_watermarks(self.high_watermarks)
        directory.write_recovery_points(self.recovery_points)
        directory.write_log_start_offsets(self.log_starts)
        directory.write_cleaner_offsets(self.cleaned)


class PartitionTable:
    """Owned by the broker's thread.

    Invariant: a partition of the table has its directory in exactly one log directory, which works
    or failed in this turn of the loop. A partition is not both in the table and offline.
    """

    def __init__(
        self,
        directories: list[LogDirectory],
        local_id: BrokerId,
        options_of: OptionsOf,
        work: DirectoryWork | None = None,
    ) -> None:
        """`work` makes and removes directories, in the background or, by default, at once."""
        self.places = LogPlaces(directories)
        self.offline = OfflineReplicas()
        self._on_directory_failed: Callable[[LogDirectory], object] = self.take_offline
        self._on_replica_gone: Callable[[TopicPartition], object] = self.take_replica_offline
        self._on_damage: Callable[[TopicPartition, Damage], None] = nobody_repairs
        self._local_id = local_id
        self._options_of = options_of
        self._work = DirectoryWork() if work is None else work
        self._partitions: dict[TopicPartition, Partition] = {}
        self.find: Callable[[tuple[str, int]], Partition | None] = self._partitions.get  # type: ignore[assignment]  # the pair is equal to its named tuple
        """Returns the replica here, or None. An attribute, as every request looks up partitions."""
        self._of_topic: dict[str, dict[TopicPartition, Partition]] = {}
        """The same replicas by topic; a topic without any has no entry."""
        self._latest_options: (
            tuple[Mapping[str, str], tuple[LogOptions, int], dict[LogDirectory, LogOptions]] | None
        ) = None
        self.missing: set[TopicPartition] = set()
        """Replicas that had records at the last checkpoint, and were absent at the start."""
        self.short: set[TopicPartition] = set()
        """Replicas whose logs ended at the start before their committed or synced offsets."""
        self.is_judged = True
        """False after the start of a broker with lost logs, until the controller has taken them
        into account: before that, the next start must find the same."""
        self._unopened: dict[LogDirectory, Checkpoints] = {}
        """The checkpoints of logs that could not be opened."""

    def follow_failures(
        self,
        on_directory_failed: Callable[[LogDirectory], object],
        on_replica_gone: Callable[[TopicPartition], object],
    ) -> None:
        """Have functions called, instead of taking replicas offline at once.

        `on_directory_failed` is called once for a directory that is given up, and has to have
        `take_offline` called before the next turn of the loop. `on_replica_gone` is called for a
        replica whose directory somebody has removed, likewise for `take_replica_offline`.
        """
        self._on_directory_failed = on_directory_failed
        self._on_replica_gone = on_replica_gone

    def follow_damage(self, on_damage: Callable[[TopicPartition, Damage], None]) -> None:
        """Have a function called when bytes of a replica are found damaged."""
        self._on_damage = on_damage

    def load(self, wall_ms: WallMs, on_opened: OnOpened = nobody_waits) -> None:
        """Open the logs on disk, and recover those that are not repaired yet.

        A log that cannot be opened goes offline, and with a failed directory all of its logs do.
        Raises StorageFailed if every directory has failed.
        """
        found: dict[LogDirectory, dict[TopicPartition, Path]] = {}
        for directory in self.places.working:
            with self._noting_failures(directory):
                found[directory] = directory.partition_directories()
        total = sum(map(len, found.values()))
        opened = 0
        for directory, logs in found.items():
            deleted = set()
            for leftover in directory.leftovers:
                deleted.add(parse_deleted_name(leftover.name))
                self._work.remove_later(leftover)
            with self._noting_failures(directory):
                stored = Checkpoints.read(directory)
                self.missing |= stored.with_records() - deleted
                for partition_id, path in logs.items():
                    self._load_log(directory, partition_id, path, stored, wall_ms)
                    opened += 1
                    on_opened(opened, total)
        self.missing.difference_update(self._partitions, self.offline.partitions())
        check_any_works(self.places.directories)

    @contextmanager
    def _noting_failures(self, directory: LogDirectory) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = f"cannot read log directory {directory.path}: {error.strerror}"
            failure = StorageFailed(reason)
            failure.__cause__ = error
            self.note_directory_failure(directory, failure)

    def _load_log(
        self,
        directory: LogDirectory,
        partition_id: TopicPartition,
        path: Path,
        stored: Checkpoints,
        wall_ms: WallMs,
    ) -> None:
        if directory.failure is not None:
            self.offline.add(partition_id, NO_TOPIC_ID, directory.failure)
            return
        options, min_insync_replicas = self._options({}, directory)
        # The topics' retention is not known before the controller's first update.
        options = replace(options, is_deleted=False, is_compacted=False)
        try:
            partition_log = PartitionLog.open(
                path,
                partition_id,
                options,
                wall_ms,
                clean_shutdown=directory.was_clean_shutdown,
                recovery_point=stored.recovery_points.get(partition_id, Offset(0)),
                log_start_offset=stored.log_starts.get(partition_id, Offset(0)),
                high_watermark=stored.high_watermarks.get(partition_id, Offset(0)),
                deleted_files=self._work.deleted_files,
                was_repaired=partition_id in directory.repaired,
                lacks_unsynced=directory.lacks_unsynced,
                on_damage=self.note_damage,
            )
            partition_log.cleaned_to = stored.cleaned.get(partition_id, Offset(0))
            topic_id = _topic_id_of(path)
            twin = self._partitions.get(partition_id)
            if twin is not None and self._is_kept(twin, partition_log):
                return
        except StorageFailed as failure:
            self._on_unopened(directory, partition_id, stored, failure)
            return
        except OSError as error:
            failed = StorageFailed(f"cannot read {error.filename}: {error.strerror}")
            failed.__cause__ = error
            self._on_unopened(directory, partition_id, stored, failed)
            return
        high_watermark = stored.high_watermarks.get(partition_id, Offset(0))
        synced = stored.recovery_points.get(partition_id, Offset(0))
        if max(high_watermark, synced) > partition_log.log_end_offset:
            self.short.add(partition_id)
        else:
            self.short.discard(partition_id)
        partition = Partition(
            partition_id,
            topic_id,
            partition_log,
            high_watermark,
            self._local_id,
            min_insync_replicas,
        )
        self._add(partition, directory)

    def _is_kept(self, twin: Partition, found: PartitionLog) -> bool:
        """Decide between two directories of one partition; the other one is set aside.

        A crash during a move to another log directory leaves both, and the longer one is complete.
        A disk that is mounted again may have a log with an end that was cut since, or of an
        earlier topic. Kafka does not start then.
        """
        is_kept = _extent(twin.log) >= _extent(found)
        if _topic_id_of(twin.log.directory) != _topic_id_of(found.directory):
            is_kept = _made_ns(twin.log.directory) >= _made_ns(found.directory)
        kept, other = (twin.log, found) if is_kept else (found, twin.log)
        try:
            renamed: object = rename_to_stray(other.directory)
        except StorageFailed as failure:
            renamed = f"left where it is: {failure}"
        log.warning(
            "%s is there twice: %s is used, up to offset %d; the other one, up to %d, is %s",
            twin.id,
            kept.directory,
            kept.log_end_offset,
            other.log_end_offset,
            renamed,
        )
        if not is_kept:
            self._forget(twin.id)
        return is_kept

    def _on_unopened(
        self,
        directory: LogDirectory,
        partition_id: TopicPartition,
        stored: Checkpoints,
        failure: StorageFailed,
    ) -> None:
        log.error("%s is offline: %s", partition_id, failure)
        self._unopened.setdefault(directory, Checkpoints()).keep(partition_id, stored)
        self.offline.add(partition_id, NO_TOPIC_ID, str(failure))
        self.note_directory_failure(directory, failure)

    def __iter__(self) -> Iterator[Partition]:
        """Iterates over all replicas, in no particular order."""
        return iter(list(self._partitions.values()))

    def __len__(self) -> int:
        """The number of replicas."""
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
        if partition is not None and partition.topic_id == NO_TOPIC_ID:
            write_topic_id(partition.log.directory, encode_uuid(topic_id))
            partition.topic_id = topic_id
        if partition is None:
            directory = self.places.choose(partition_id)
            options, min_insync_replicas = self._options(configs, directory)
            path = directory.partition_path(partition_id)
            make = self._work.create(
                path, partial(directory.create_partition, partition_id, encode_uuid(topic_id))
            )
            partition_log = PartitionLog.create(
                path,
                partition_id,
                options,
                wall_ms,
                make,
                self._work.deleted_files,
                self.note_damage,
            )
            partition = Partition(
                partition_id,
                topic_id,
                partition_log,
                Offset(0),
                self._local_id,
                min_insync_replicas,
            )
            self._add(partition, directory)
        else:
            self.take_options(partition, configs)
        return partition

    def take_options(self, partition: Partition, configs: Mapping[str, str]) -> None:
        """Give a replica the options that its topic's configs and the broker's settings make."""
        options, min_insync_replicas = self._options(configs, self.places.of(partition.id))
        if partition.log.options is not options:
            partition.log.update_options(options)
            partition.require(min_insync_replicas)

    def forget_options(self) -> None:
        """Drop cached options, since the broker's settings have changed."""
        self._latest_options = None

    def _options(
        self, configs: Mapping[str, str], directory: LogDirectory | None
    ) -> tuple[LogOptions, int]:
        """Cached for the latest configs: partitions of a topic come one after the other."""
        latest = self._latest_options
        if latest is None or latest[0] != configs:
            latest = self._latest_options = dict(configs), self._options_of(configs), {}
        _, (options, min_insync_replicas), by_directory = latest
        if directory is not None:
            found = by_directory.get(directory)
            if found is None:
                found = by_directory[directory] = replace(options, room=directory.room)
            options = found
        return options, min_insync_replicas

    def is_of_earlier_topic(self, partition: Partition, topic_id: uuid.UUID) -> bool:
        """Whether a replica belongs to a deleted topic of the same name."""
        return partition.topic_id not in (topic_id, NO_TOPIC_ID)

    def delete(self, partition_id: TopicPartition) -> Partition | None:
        """Remove a replica and its files; returns it, or None.

        The directory is renamed first and removed later, both in the background. The replica
        resigns, so that requests which wait for its high watermark are answered.
        """
        partition = self._forget(partition_id)
        if partition is not None:
            partition.resign()
            self._work.delete(partition.log.directory, partition.log.options.removal_delay_ms)
        return partition

    @property
    def directories(self) -> list[LogDirectory]:
        """The working log directories, in the order of the settings."""
        return self.places.working

    def directory_of(self, partition_id: TopicPartition) -> LogDirectory | None:
        """The log directory of a replica; None without one."""
        return self.places.of(partition_id)

    # -- failures --------------------------------------------------------------------------------

    def note_failure(self, partition_id: TopicPartition, failure: StorageFailed) -> None:
        """Give up a replica's directory if a failed read or write shows that it is lost.

        Callers that catch StorageFailed call this on the broker's thread.
        """
        directory = self.places.of(partition_id)
        if directory is None:
            return
        self.note_directory_failure(directory, failure)
        is_its_own = directory.failure is None and concerns_a_name(failure)
        if is_its_own and not directory.partition_path(partition_id).exists():
            self._on_replica_gone(partition_id)

    def note_path_failure(self, path: Path, failure: StorageFailed) -> None:
        """Note a failure in the directory of a partition that is new or being deleted."""
        for directory in self.places.working:
            if directory.path == path.parent:
                self.note_directory_failure(directory, failure)

    def note_directory_failure(self, directory: LogDirectory, failure: StorageFailed) -> None:
        """Note a failure in the files of the log directory itself."""
        if directory.failure is None and directory.is_lost_with(failure):
            directory.fail(str(failure))
            self._on_directory_failed(directory)

    def take_offline(self, directory: LogDirectory) -> list[Partition]:
        """Remove the replicas of a failed directory from the table; they resign."""
        gone = self._of_directory(directory)
        for partition in gone:
            self._forget(partition.id)
            partition.is_offline = True
            partition.resign()
            self.offline.add(partition.id, partition.topic_id, directory.failure or "")
        return gone

    def take_replica_offline(self, partition_id: TopicPartition) -> Partition | None:
        """Remove a replica whose directory is gone; None if it was removed before.

        The checkpoints keep its offsets, so that the next start knows that it is lost.
        """
        directory = self.places.of(partition_id)
        partition = self._forget(partition_id)
        if partition is None or directory is None:
            return None
        self._unopened.setdefault(directory, Checkpoints()).add(partition)
        partition.is_offline = True
        partition.resign()
        self.offline.add(partition_id, partition.topic_id, "its directory was removed")
        return partition

    # -- checkpoints and the end -----------------------------------------------------------------

    def first_checkpoints(self, directory: LogDirectory) -> Checkpoints:
        """The first rows of the next checkpoints: those of logs that could not be opened."""
        unopened = self._unopened.get(directory)
        return Checkpoints() if unopened is None else unopened.copy()

    def write_checkpoints(self) -> None:
        """Write the checkpoints of every directory, waiting for the disk. Raises StorageFailed."""
        for directory in self.places.working:
            self._write_checkpoints_of(directory, self._of_directory(directory))

    def _write_checkpoints_of(
        self, directory: LogDirectory, partitions: Iterable[Partition]
    ) -> None:
        checkpoints = self.first_checkpoints(directory)
        for partition in partitions:
            checkpoints.add(partition)
        checkpoints.write(directory)

    def close(self) -> None:
        """Flush and close every log, and mark the directories as cleanly shut down.

        A directory that fails is left as after a crash. Raises StorageFailed after all others.
        """
        last: StorageFailed | None = None
        for directory in self.places.working:
            try:
                self._close_directory(directory)
            except StorageFailed as failure:
                last = failure
        if last is not None:
            raise last

    def _close_directory(self, directory: LogDirectory) -> None:
        partitions = self._of_directory(directory)
        for partition in partitions:
            partition.log.flush()
        if self.is_judged:
            self._write_checkpoints_of(directory, partitions)
        for partition in partitions:
            partition.log.close(flush=True)
        # A log that could not be opened, or has lost records, is checked at the next start.
        if directory not in self._unopened and self.is_judged:
            directory.mark_clean_shutdown()
        directory.close()

    def _of_directory(self, directory: LogDirectory) -> list[Partition]:
        return [p for p in self._partitions.values() if self.places.of(p.id) is directory]

    def of_topics(self, names: Iterable[str]) -> list[Partition]:
        """The replicas of these topics."""
        return [p for name in names for p in self._of_topic.get(name, {}).values()]

    def note_damage(self, partition_id: TopicPartition, damage: Damage) -> None:
        """A read has found damage in the log of a replica."""
        self._on_damage(partition_id, damage)

    def _add(self, partition: Partition, directory: LogDirectory) -> None:
        self._partitions[partition.id] = partition
        self._of_topic.setdefault(partition.id.topic, {})[partition.id] = partition
        self.places.put(partition.id, directory)

    def _forget(self, partition_id: TopicPartition) -> Partition | None:
        partition = self._partitions.pop(partition_id, None)
        if partition is not None:
            of_topic = self._of_topic[partition_id.topic]
            del of_topic[partition_id]
            if not of_topic:
                del self._of_topic[partition_id.topic]
            self.places.take(partition_id)
        return partition


def _extent(found: PartitionLog) -> tuple[LeaderEpoch, Offset]:
    return found.epochs.latest, found.log_end_offset


def _made_ns(directory: Path) -> int:
    """When a replica's directory was made. Raises OSError."""
    path = directory / PARTITION_METADATA
    return path.stat().st_mtime_ns if path.exists() else 0


def _topic_id_of(directory: Path) -> uuid.UUID:
    """The topic id that a partition's directory names; zero where it names none."""
    text = read_topic_id(directory)
    if text is None:
        return NO_TOPIC_ID
    try:
        return decode_uuid(text)
    except ValueError:
        log.warning("%s: %r is not a topic id", directory, text)
        return NO_TOPIC_ID
