"""The coordinator of transactions on one broker. Kafka: `TransactionCoordinator`."""

from collections.abc import Callable
from typing import Any

from cluster.brokers.coordinators.coordinator import Coordinator
from cluster.brokers.coordinators.options import CoordinatorOptions, CoordinatorPorts
from cluster.brokers.transactions.marker_sender import MarkerSender
from cluster.coordinator.transactions.options import TransactionOptions
from cluster.coordinator.transactions.requests import PartitionsMarked
from cluster.coordinator.transactions.shard import TransactionShard
from cluster.model.ids import TopicPartition


class TransactionCoordinator(Coordinator[TransactionShard]):
    """Owned by the broker's thread. The `StateKeeper` of `__transaction_state`."""

    def __init__(
        self,
        options: CoordinatorOptions,
        ports: CoordinatorPorts,
        transaction_options: Callable[[], TransactionOptions],
        sender: MarkerSender,
    ) -> None:
        super().__init__(
            options,
            ports,
            lambda _partition, epoch: TransactionShard(transaction_options, epoch),
            lambda led: sender.forget(led.id),
            self._on_end_markers,
        )
        self._sender = sender
        sender.report_to(self._on_marked)

    def _on_end_markers(self, markers: Any) -> None:
        partition = self.partition_of(markers.transactional_id)
        if partition is not None:
            self._sender.send(markers, partition)

    def _on_marked(self, event: PartitionsMarked, coordinator: TopicPartition) -> None:
        led = self.led(coordinator)
        if led is not None:
            led.tell(event)
