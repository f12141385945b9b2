"""Assembles the maintenance of logs: compaction, retention, scrubbing and repairs."""

from dataclasses import dataclass
from typing import Final

from cluster.brokers.assembly.foundation import Foundation
from cluster.brokers.assembly.membership import Membership
from cluster.brokers.assembly.replication import Replication
from cluster.brokers.assembly.storage import Storage
from cluster.brokers.storage.directory_failures import DirectoryFailures
from cluster.brokers.storage.full_directories import LOOK_PERIOD_MS, FullDirectories
from cluster.brokers.storage.log_cleaner import LogCleaner
from cluster.brokers.storage.log_retention import FIRST_CHECK_MS, LogRetention
from cluster.brokers.storage.log_scrubber import SHARE_OF_PROCESSOR, TICK_MS, LogScrubber
from cluster.brokers.storage.option_changes import OptionChanges
from cluster.brokers.storage.producer_expiry import ProducerExpiry
from cluster.brokers.storage.replica_repairs import ReplicaRepairs
from cluster.config import broker as keys
from cluster.runtime.background_thread import Background

_SHARE_OF_REPAIRS: Final = 0.5
"""CPU share of the thread that repairs segments, on which fetches may be waiting."""


@dataclass(frozen=True, slots=True)
class Maintenance:
    """Lifecycle: assembling starts the repairs of damage found while the logs were opened; then
    `start_retention`, `start_cleaning`, `close`.
    """

    foundation: Foundation
    cleaner: LogCleaner
    retention: LogRetention
    producer_expiry: ProducerExpiry
    full_directories: FullDirectories
    scrubber: LogScrubber
    repairs: ReplicaRepairs
    threads: tuple[Background, Background]
    """The threads of the scrubber and of the repairs."""

    def start_retention(self) -> None:
        """Start the timers that delete old segments, forget idle producers and check for full
        directories.
        """
        loop, live = self.foundation.ports.loop, self.foundation.live
        check_ms = live[keys.LOG_RETENTION_CHECK_INTERVAL_MS]
        if check_ms > FIRST_CHECK_MS:
            loop.call_after(FIRST_CHECK_MS, self.retention.on_tick)
        loop.call_every(check_ms, self.retention.on_tick)
        expiry_ms = live[keys.PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS]
        loop.call_every(expiry_ms, self.producer_expiry.on_tick)
        loop.call_every(LOOK_PERIOD_MS, self.full_directories.look)

    def start_cleaning(self) -> None:
        self.cleaner.start()
        self.start_scrubbing()

    def start_scrubbing(self) -> None:
        self.foundation.ports.loop.call_every(TICK_MS, self.scrubber.on_tick)

    def close(self) -> None:
        """Stop all work on logs, including work in progress."""
        self.cleaner.close()
        self.scrubber.close()
        self.repairs.close()
        for thread in self.threads:
            thread.close(drop=True)


def assemble_maintenance(
    foundation: Foundation, membership: Membership, storage: Storage, replication: Replication
) -> Maintenance:
    """Also connects failed log directories and changed settings to the parts that react to them."""
    ports, live, slices = foundation.ports, foundation.live, foundation.slices
    loop, clock, table = ports.loop, ports.clock, storage.table
    cleaner = LogCleaner(
        live,
        table,
        slices,
        ports.helpers,
        loop.call_after,
        storage.threads.remover.do,
        clock.wall_ms,
        clock.monotonic_ms,
        storage.moves.is_moving,
    )
    scrubbing = ports.background("log-scrubber", SHARE_OF_PROCESSOR)
    repairing = ports.background("log-repairer", _SHARE_OF_REPAIRS)
    scrubber = LogScrubber(
        live,
        table,
        slices,
        scrubbing.do,
        loop.call_from_thread,
        loop.call_after,
        clock.monotonic_ms,
    )
    repairs = ReplicaRepairs(
        foundation.id,
        table,
        membership.metadata,
        ports.control_link,
        scrubber.counts,
        repairing.do,
        loop.call_from_thread,
        loop.call_after,
        replication.events.on_moved,
        cleaner.is_busy,
        storage.moves.is_moving,
        replication.throttles,
    )
    DirectoryFailures(table, replication.roles, loop.defer, ports.give_up)
    live.subscribe(OptionChanges(table, membership.metadata, slices).on_settings_changed)
    retention = LogRetention(table, replication.events, slices, clock.wall_ms)
    full_directories = FullDirectories(
        foundation.id,
        table,
        membership.controller_client.report_full,
        loop,
        live[keys.LOG_DIR_RESERVE_BYTES],
        retention.on_tick,
    )
    return Maintenance(
        foundation,
        cleaner,
        retention,
        ProducerExpiry(table, slices, clock.wall_ms),
        full_directories,
        scrubber,
        repairs,
        (scrubbing, repairing),
    )
