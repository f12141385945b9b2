"""Gives every replica's log the options that follow from changed settings of the broker."""

from collections.abc import Iterator
from typing import Final

from cluster.brokers.replication.known_cluster import KnownCluster
from cluster.brokers.replication.partition_table import PartitionTable
from cluster.config.snapshot import Settings
from cluster.runtime.slices import Slices

_LOGS_PER_STEP: Final = 4
"""So many take some 300 us, if each is of another topic with its own configs."""


class OptionChanges:
    """Owned by the broker's thread. Thousands of logs are changed in slices.

    A log keeps its old options until its step.
    """

    def __init__(self, table: PartitionTable, cluster: KnownCluster, slices: Slices) -> None:
        self._table = table
        self._cluster = cluster
        self._slices = slices
        self._round_number = 0
        """The number of the newest round; an older unfinished round ends."""

    def on_settings_changed(self, _settings: Settings) -> None:
        """Give new options to all replicas here, in slices."""
        self._table.forget_options()
        self._round_number += 1
        self._slices.start(self._round(self._round_number), steps_at_once=1)

    def _round(self, number: int) -> Iterator[None]:
        for count, partition in enumerate(self._table, 1):
            topic = self._cluster.topics.get(partition.id.topic)
            if (
                topic is not None
            ):  # otherwise it gets them with the controller's update of its topic
                self._table.take_options(partition, topic.configs)
            if count % _LOGS_PER_STEP == 0:
                yield
                if number != self._round_number:
                    return
