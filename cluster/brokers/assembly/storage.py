"""Assembles the logs of a broker: the partition table, and the threads that write for it."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cluster.brokers.assembly import options
from cluster.brokers.assembly.foundation import Foundation
from cluster.brokers.replication.partition_table import PartitionTable
from cluster.brokers.storage.checkpoint_writer import CheckpointWriter
from cluster.brokers.storage.directory_record import DirectoryRecord
from cluster.brokers.storage.log_flusher import LogFlusher
from cluster.brokers.storage.replica_moves import ReplicaMoves
from cluster.config import broker as keys
from cluster.log.directory_work import DirectoryWork
from cluster.model.errors import StorageFailed
from cluster.runtime.background_thread import Background

log = logging.getLogger(__name__)

_SHARE_OF_DIRECTORIES: Final = 0.2
"""CPU share of the threads that create, delete and move directories; no request waits for them."""
_FLUSH_TICK_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class StorageThreads:
    """The background threads that write to the log directories."""

    maker: Background
    remover: Background
    flusher: Background
    checkpoints: Background
    mover: Background


@dataclass(frozen=True, slots=True)
class Storage:
    """The replicas of the broker. Lifecycle: `start` begins to flush, `close` closes the logs."""

    foundation: Foundation
    threads: StorageThreads
    table: PartitionTable
    checkpoints: CheckpointWriter
    flusher: LogFlusher
    directory_record: DirectoryRecord
    moves: ReplicaMoves

    def start(self) -> None:
        """Start the timers of checkpoints and flushes."""
        settings, ports = self.foundation.live, self.foundation.ports
        ports.loop.call_every(
            settings[keys.REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS], self.checkpoints.on_tick
        )
        ports.loop.call_every(
            min(_FLUSH_TICK_MS, settings[keys.LOG_FLUSH_SCHEDULER_INTERVAL_MS]),
            lambda: self.flusher.on_tick(ports.clock.monotonic_ms()),
        )

    def close(self) -> None:
        """Close the logs, after the threads that work on them and before those that
        delete directories.
        """
        self.threads.flusher.close()
        self.threads.checkpoints.close()
        self.threads.mover.close(drop=True)
        try:
            self.table.close()
        except StorageFailed as failure:
            log.error("cannot close the logs, so the next start will run recovery: %s", failure)  # noqa: TRY400
        self.threads.maker.close(drop=True)
        self.threads.remover.close(drop=True)


def assemble_storage(foundation: Foundation) -> Storage:
    """Open the logs; those that cannot be opened are offline. Raises StorageFailed."""
    ports, live, slices = foundation.ports, foundation.live, foundation.slices
    loop, clock = ports.loop, ports.clock
    threads = StorageThreads(
        maker=ports.background("log-maker", _SHARE_OF_DIRECTORIES),
        remover=ports.background("log-remover", _SHARE_OF_DIRECTORIES),
        flusher=ports.background("log-flusher", 1.0),
        checkpoints=ports.background("checkpoints", 1.0),
        mover=ports.background("replica-mover", _SHARE_OF_DIRECTORIES),
    )

    def call_later(delay_ms: int, call: Callable[[], None]) -> None:
        """Schedule a call on the loop's thread; thread-safe."""

        def start_timer() -> None:
            loop.call_after(delay_ms, call)

        loop.call_from_thread(start_timer)

    def on_directory_work_failed(path: Path, failure: StorageFailed) -> None:
        """Thread-safe."""
        loop.call_from_thread(lambda: table.note_path_failure(path, failure))

    work = DirectoryWork(threads.maker.do, threads.remover.do, call_later, on_directory_work_failed)
    table = PartitionTable(
        ports.directories,
        foundation.id,
        lambda overrides: options.log_options(live.now, overrides),
        work,
    )
    ports.before_logs_are_opened(live.now)
    table.load(clock.wall_ms(), ports.on_logs_opened)
    checkpoints = CheckpointWriter(table, slices, threads.checkpoints.do, loop.call_from_thread)
    return Storage(
        foundation,
        threads,
        table,
        checkpoints,
        LogFlusher(table, slices, threads.flusher.do, loop.call_from_thread, clock.monotonic_us),
        DirectoryRecord(
            foundation.id,
            table,
            ports.store,
            ports.boot_id,
            threads.checkpoints.do,
            loop.call_from_thread,
            loop.call_after,
        ),
        ReplicaMoves(
            table,
            work,
            threads.mover.do,
            loop.call_from_thread,
            checkpoints.when_written,
            loop.call_after,
            clock.wall_ms,
            lambda: live[keys.REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND],
        ),
    )
