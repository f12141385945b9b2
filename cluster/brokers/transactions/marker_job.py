"""The markers of one transaction, while they are being written."""

from cluster.coordinator.transactions.requests import EndMarkers
from cluster.model.clocks import MonotonicMs
from cluster.model.ids import TopicPartition
from cluster.records.markers import EndMarker


class MarkerJob:
    """Which partitions of a transaction are not known to have its marker."""

    __slots__ = ("began_ms", "coordinator", "is_ended", "left", "marker", "message")

    def __init__(
        self, message: EndMarkers, coordinator: TopicPartition, began_ms: MonotonicMs
    ) -> None:
        self.message = message
        self.coordinator = coordinator
        """The partition of `__transaction_state`."""
        self.began_ms = began_ms
        self.left = set(message.partitions)
        self.is_ended = False
        """Nothing more is sent: no partition is left, or another broker coordinates it."""
        producer_id, epoch = message.producer
        self.marker = EndMarker(producer_id, epoch, message.coordinator_epoch, message.is_commit)
