"""Takes the replicas of a failed log directory offline; the others continue (KIP-112).

A single replica whose directory was removed goes offline too.
"""

import logging
from collections.abc import Callable

from cluster.brokers.replication.partition_table import PartitionTable
from cluster.brokers.replication.replica_roles import ReplicaRoles
from cluster.log.log_directory import LogDirectory, check_any_works
from cluster.model.errors import StorageFailed
from cluster.model.ids import TopicPartition

log = logging.getLogger(__name__)


class DirectoryFailures:
    """Owned by the broker's thread.

    `give_up` is called when no directory is left: as in Kafka, the broker then stops.
    """

    def __init__(
        self,
        table: PartitionTable,
        roles: ReplicaRoles,
        defer: Callable[[Callable[[], None]], None],
        give_up: Callable[[StorageFailed], None],
    ) -> None:
        self._table = table
        self._roles = roles
        self._defer = defer
        self._give_up = give_up
        table.follow_failures(self._on_failed, self._on_replica_gone)

    def _on_failed(self, directory: LogDirectory) -> None:
        log.error(
            "log directory %s has failed and is not used until the next start: %s",
            directory.path,
            directory.failure,
        )
        # The failure may have been found in the middle of a request for several partitions.
        self._defer(lambda: self._take_offline(directory))

    def _on_replica_gone(self, partition: TopicPartition) -> None:
        self._defer(lambda: self._roles.take_replica_offline(partition))

    def _take_offline(self, directory: LogDirectory) -> None:
        count = self._roles.take_offline(directory)
        log.error("%d replicas of %s are offline", count, directory.path)
        try:
            check_any_works(self._table.places.directories)
        except StorageFailed as failure:
            self._give_up(failure)
