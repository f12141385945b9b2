"""The coordinator of transactions on one broker. Kafka: `TransactionCoordinator`."""

from collections.abc import Callable
from functools import partial
from typing import Any

from cluster.brokers.coordinators.coordinator import Coordinator
from cluster.brokers.coordinators.options import CoordinatorOptions, CoordinatorPorts
from cluster.brokers.stored.producer_ids import ProducerIds
from cluster.brokers.transactions.marker_sender import MarkerSender
from cluster.coordinator.transactions.counts import TransactionCounts
from cluster.coordinator.transactions.history import TransactionHistories
from cluster.coordinator.transactions.options import TransactionOptions
from cluster.coordinator.transactions.requests import AbortIfLate, PartitionsMarked, WantsProducerId
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
        producer_ids: ProducerIds,
    ) -> None:
        self.histories, self.counts = TransactionHistories(), TransactionCounts()
        super().__init__(
            options,
            ports,
            lambda _partition, epoch: TransactionShard(
                transaction_options, epoch, self.histories, self.counts
            ),
            lambda led: sender.forget(led.id),
            self._on_message,
        )
        self._sender = sender
        self._producer_ids = producer_ids
        sender.report_to(self._on_marked)

    def _on_message(self, partition: TopicPartition, message: Any) -> None:
        if isinstance(message, WantsProducerId):
            self._producer_ids.next_id(partial(self._on_producer_id, message, partition))
        else:
            self._sender.send(message, partition)

    def _on_producer_id(
        self, message: WantsProducerId, coordinator: TopicPartition, producer_id: int | None
    ) -> None:
        led = self.led(coordinator)
        if led is not None and producer_id is not None:  # otherwise the shard asks again
            led.tell(AbortIfLate(message.transactional_id, producer_id))

    def _on_marked(self, event: PartitionsMarked, coordinator: TopicPartition) -> None:
        led = self.led(coordinator)
        if led is not None:
            led.tell(event)
