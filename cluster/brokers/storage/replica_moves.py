"""Moves replicas between the log directories of this broker, while they are in use (KIP-113).

A thread fills a directory `topic-0.<id>-future` in the other log directory. When it lacks only a
little, the broker's thread completes it between two requests, and the replica continues there.
(Kafka's `ReplicaAlterLogDirsThread` appends to a second log instead.) After a crash a move begins
anew. One replica is copied at a time.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from cluster.brokers.replication.partition import Partition
from cluster.brokers.replication.partition_table import PartitionTable
from cluster.log import log_copy
from cluster.log.directories import future_name
from cluster.log.directory_work import DirectoryWork
from cluster.log.log_copy import LogCopy, Piece
from cluster.log.log_directory import LogDirectory
from cluster.log.partition_log import PartitionLog
from cluster.model.clocks import WallMs
from cluster.model.errors import ErrorCode, Refused, StorageFailed
from cluster.model.ids import Offset, TopicPartition
from cluster.runtime.background_thread import Post

log = logging.getLogger(__name__)

_PIECE_BYTES: Final = 4 << 20
_LAST_BYTES_MAX: Final = 256 << 10
"""At most so much is copied by the broker's thread, in well under a millisecond."""


class Move:
    """The move of one replica; over when `ReplicaMoves` does not list it any more."""

    def __init__(self, partition: Partition, directory: LogDirectory, path: Path) -> None:
        self.partition = partition
        self.directory = directory
        self.path = path
        self.source = partition.log.directory
        self.copy = LogCopy(partition.log, path)


class FutureReplica(NamedTuple):
    """The progress of a copy."""

    partition: TopicPartition
    directory: LogDirectory
    size_bytes: int
    log_end_offset: Offset


class ReplicaMoves:
    """Owned by the broker's thread.

    Invariant: at most one piece is being copied; a partition has at most one move.
    """

    def __init__(
        self,
        table: PartitionTable,
        work: DirectoryWork,
        post: Post,
        post_back: Post,
        when_checkpointed: Callable[[Callable[[], None]], None],
        call_after: Callable[[int, Callable[[], None]], object],
        wall_ms: Callable[[], WallMs],
        bytes_per_second: Callable[[], int],
    ) -> None:
        """`post` runs a call on a background thread, `post_back` on the broker's;
        `when_checkpointed` makes a call once new checkpoints are written.
        """
        self._table = table
        self._work = work
        self._post = post
        self._post_back = post_back
        self._when_checkpointed = when_checkpointed
        self._call_after = call_after
        self._wall_ms = wall_ms
        self._bytes_per_second = bytes_per_second
        self._moves: dict[TopicPartition, Move] = {}
        self._queue: deque[Move] = deque()
        self._is_busy = False

    def is_moving(self, partition_id: TopicPartition) -> bool:
        """Whether a replica is moving to another log directory."""
        return partition_id in self._moves

    # -- what clients ask ------------------------------------------------------------------------

    def move(self, partition_id: TopicPartition, path: Path) -> None:
        """Move a replica to a log directory, as `ReplicaManager.alterReplicaLogDirs` of Kafka.

        A replica that does not exist yet will be made there. Raises Refused:
        invalid_topic_exception for a name too long, log_dir_not_found, kafka_storage_error if one
        of the directories has failed, replica_not_available if the replica is not here.
        """
        name = future_name(partition_id)
        directory = self._table.places.by_path(path)
        if directory is None:
            raise Refused(ErrorCode.log_dir_not_found, f"{path} is not in log.dirs")
        if directory.failure is not None:
            raise Refused(ErrorCode.kafka_storage_error, f"{path} is offline")
        if self._table.offline.find(partition_id) is not None:
            raise Refused(ErrorCode.kafka_storage_error, f"{partition_id} is offline")
        partition = self._table.find(partition_id)
        if partition is None:
            self._table.places.prefer(partition_id, directory)
            raise Refused(ErrorCode.replica_not_available, f"{partition_id} is not here")
        current = self._moves.get(partition_id)
        if current is not None:
            if current.directory is directory:
                return
            self._give_up(current)
        if self._table.places.of(partition_id) is directory:
            return
        if self._table.places.has_failed_one:
            # A failed directory may hold another copy, and there must not be two.
            raise Refused(ErrorCode.kafka_storage_error, "a log directory is offline")
        try:
            self._begin(partition, directory, directory.path / name)
        except StorageFailed as failure:
            log.error("%s: cannot be moved: %s", partition_id, failure)  # noqa: TRY400 - one line
            self._table.note_directory_failure(directory, failure)
            raise Refused(ErrorCode.kafka_storage_error, str(failure)) from failure

    def futures(self) -> Iterator[FutureReplica]:
        """The copies that are being filled."""
        for partition_id, move in self._moves.items():
            copy = move.copy
            end = copy.log_end_offset
            yield FutureReplica(partition_id, move.directory, copy.size_bytes, end)

    # -- the start -------------------------------------------------------------------------------

    def resume(self) -> None:
        """Restart the moves that the last stop or crash interrupted."""
        for directory in self._table.places.working:
            try:
                for partition_id, path in directory.future_directories():
                    self._resume(partition_id, directory, path)
            except (OSError, StorageFailed) as problem:
                log.error("moves to %s do not go on: %s", directory.path, problem)  # noqa: TRY400

    def _resume(self, partition_id: TopicPartition, directory: LogDirectory, path: Path) -> None:
        """Raises StorageFailed."""
        table = self._table
        partition = table.find(partition_id)
        is_offline = table.offline.find(partition_id) is not None
        if is_offline or (partition is None and table.places.has_failed_one):
            return  # the copy may be all that is readable of the replica
        self._work.delete(path, 0)
        is_wanted = table.places.of(partition_id) is not directory
        if partition is not None and is_wanted and partition_id not in self._moves:
            log.info("%s: moving it to %s again", partition_id, directory.path)
            self._begin(partition, directory, directory.path / future_name(partition_id))

    # -- inside ----------------------------------------------------------------------------------

    def _begin(self, partition: Partition, directory: LogDirectory, path: Path) -> None:
        """Raises StorageFailed."""
        move = Move(partition, directory, path)
        # At once, so that an accepted move continues after a crash.
        partition.log.make_files()
        log_copy.make_directory(path, move.source)
        self._moves[partition.id] = move
        self._queue.append(move)
        log.info("%s: moving it from %s to %s", partition.id, move.source.parent, directory.path)
        self._go_on()

    def _go_on(self) -> None:
        """Copy the next piece on the thread, unless one is under way."""
        while self._queue and not self._is_busy:
            move = self._queue[0]
            if not self._is_current(move):
                self._queue.popleft()
                self._forget(move)
                continue
            try:
                self._step(move)
            except StorageFailed as failure:
                self._on_failed(move, failure)

    def _step(self, move: Move) -> None:
        """Copy a piece in the background, or finish. Raises StorageFailed."""
        copy = move.copy
        unneeded = copy.take_changes()
        if copy.is_nearly_there(_LAST_BYTES_MAX):
            self._finish(move)
            return
        piece = copy.next_piece(_PIECE_BYTES)
        if piece is None and copy.missing_bytes > _LAST_BYTES_MAX:
            piece = copy.active_piece(_PIECE_BYTES)
        if piece is not None:
            self._in_background(move, partial(_copy, unneeded, piece), piece)
            return
        settled_at = move.partition.log.segments[-1].base_offset
        job = partial(_settle, unneeded, move.source, move.path, settled_at)
        self._in_background(move, job, None, settled_at)

    def _in_background(
        self,
        move: Move,
        job: Callable[[], bool],
        piece: Piece | None,
        settled_at: int | None = None,
    ) -> None:
        self._is_busy = True

        def run() -> None:
            try:
                is_done = job()
            except StorageFailed as failure:
                failed = failure  # the name of an `except` ends with it
                self._post_back(lambda: self._on_job_failed(move, failed))
            else:
                self._post_back(lambda: self._on_done(move, piece, settled_at, is_done=is_done))

        self._post(run)

    def _on_done(
        self, move: Move, piece: Piece | None, settled_at: int | None, *, is_done: bool
    ) -> None:
        size_bytes = 0
        # Copied bytes that were cut off or removed meanwhile do not count.
        if is_done and not move.copy.has_changed:
            if piece is not None:
                move.copy.on_copied(piece)
                size_bytes = piece.size_bytes
            if settled_at is not None:
                move.copy.settled_at = settled_at
        pause_ms = size_bytes * 1_000 // self._bytes_per_second()
        if pause_ms:
            self._call_after(pause_ms, self._rested)
        else:
            self._rested()

    def _rested(self) -> None:
        self._is_busy = False
        self._go_on()

    def _finish(self, move: Move) -> None:
        """Continue with the replica in the other directory. Raises StorageFailed."""
        partition = move.partition
        path = move.directory.partition_path(partition.id)
        self._work.free(path)  # the replica may have been there before
        new = log_copy.relocate(
            move.copy, path, self._wall_ms(), self._work.deleted_files, self._table.note_damage
        )
        partition.log = new
        # From now on a new replica may get the path, though the files stay for a while.
        remove_source = self._work.doom(move.source, new.options.file_delete_delay_ms)
        new.update_options(replace(new.options, room=move.directory.room))
        self._table.places.put(partition.id, move.directory)
        self._queue.popleft()
        del self._moves[partition.id]
        log.info("%s: it is in %s now", partition.id, move.directory.path)
        self._is_busy = True
        self._post(lambda: self._sync(move, new, remove_source))

    def _sync(self, move: Move, new: PartitionLog, remove_source: Callable[[], None]) -> None:
        """Sync the moved log and remove the old one, in the background."""
        try:
            log_copy.sync_moved(new)
        except StorageFailed as failure:
            failed = failure
            self._post_back(lambda: self._on_not_synced(move, failed))
        else:
            self._post_back(lambda: self._on_synced(remove_source))

    def _on_synced(self, remove_source: Callable[[], None]) -> None:
        # Only now: before the checkpoints name it, a crash would lose its log start offset.
        self._when_checkpointed(remove_source)
        self._rested()

    def _on_not_synced(self, move: Move, failure: StorageFailed) -> None:
        log.error("%s: %s is left: %s", move.partition.id, move.source, failure)
        self._table.note_directory_failure(move.directory, failure)
        self._rested()

    def _is_current(self, move: Move) -> bool:
        """Whether the replica is still in its directory, and still to be moved to the other one."""
        partition_id = move.partition.id
        return (
            self._moves.get(partition_id) is move
            and self._table.find(partition_id) is move.partition
            and move.partition.log is move.copy.log
            and move.directory.failure is None
        )

    def _give_up(self, move: Move) -> None:
        """Cancel the move: `_go_on` drops it when its piece is done."""
        del self._moves[move.partition.id]

    def _forget(self, move: Move) -> None:
        """Give up the move, and remove its copy."""
        if self._moves.get(move.partition.id) is move:
            del self._moves[move.partition.id]
        log.info("%s: not moved to %s", move.partition.id, move.directory.path)
        is_all_there_is = self._table.offline.find(move.partition.id) is not None
        if move.directory.failure is None and not is_all_there_is:
            self._work.delete(move.path, 0)

    def _on_job_failed(self, move: Move, failure: StorageFailed) -> None:
        self._is_busy = False
        self._on_failed(move, failure)
        self._go_on()

    def _on_failed(self, move: Move, failure: StorageFailed) -> None:
        # The next use of the directories shows which of them has failed.
        log.error("%s: cannot be moved: %s", move.partition.id, failure)
        if self._moves.get(move.partition.id) is move:
            del self._moves[move.partition.id]  # `_go_on` removes the copy


def _copy(unneeded: list[Path], piece: Piece) -> bool:
    log_copy.remove_files(unneeded)
    return log_copy.copy_piece(piece)


def _settle(unneeded: list[Path], source: Path, directory: Path, active_base: int) -> bool:
    log_copy.remove_files(unneeded)
    log_copy.settle(source, directory, active_base)
    return True
