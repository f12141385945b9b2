"""Keeps the bytes of one broker's logs as they were written: the scrub, and repairs."""

from cluster.brokers.assembly.ports import BrokerPorts
from cluster.brokers.membership.metadata_cache import MetadataCache
from cluster.brokers.replication.partition_events import PartitionEvents
from cluster.brokers.replication.partition_table import PartitionTable
from cluster.brokers.storage.log_cleaner import LogCleaner
from cluster.brokers.storage.log_scrubber import SHARE_OF_PROCESSOR, TICK_MS, LogScrubber
from cluster.brokers.storage.replica_repairs import ReplicaRepairs
from cluster.config.live_settings import LiveSettings
from cluster.model.ids import BrokerId
from cluster.runtime.slices import Slices

_SHARE_OF_REPAIRS = 0.5
"""Of a processor: fetches may be waiting."""


class LogIntegrity:
    """Lifecycle: construction begins to repair what is found, `start` to look; then `close`."""

    def __init__(
        self,
        local_id: BrokerId,
        live: LiveSettings,
        ports: BrokerPorts,
        table: PartitionTable,
        metadata: MetadataCache,
        events: PartitionEvents,
        slices: Slices,
        cleaner: LogCleaner,
    ) -> None:
        loop = ports.loop
        self._loop = loop
        self._threads = [
            ports.background("log-scrubber", SHARE_OF_PROCESSOR),
            ports.background("log-repairer", _SHARE_OF_REPAIRS),
        ]
        self._scrubber = LogScrubber(
            live,
            table,
            slices,
            self._threads[0].do,
            loop.call_from_thread,
            loop.call_after,
            ports.clock.monotonic_ms,
        )
        self.counts = self._scrubber.counts
        self._repairs = ReplicaRepairs(
            local_id,
            table,
            metadata,
            ports.control_link,
            self.counts,
            self._threads[1].do,
            loop.call_from_thread,
            loop.call_after,
            events.on_moved,
            cleaner.is_busy,
        )

    def start(self) -> None:
        """Begin to scrub, in a while."""
        self._loop.call_every(TICK_MS, self._scrubber.on_tick)

    def close(self) -> None:
        """End both threads, with what they are reading."""
        self._scrubber.close()
        self._repairs.close()
        for thread in self._threads:
            thread.close(drop=True)
