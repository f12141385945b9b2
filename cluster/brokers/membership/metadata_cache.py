"""The broker's copy of the cluster's state, from which Metadata requests are answered."""

import uuid
from collections.abc import Callable, Collection

from cluster.brokers.membership.kept_answers import KeptAnswers
from cluster.model.cluster import (
    BrokerRegistration,
    ClusterState,
    Endpoint,
    PartitionState,
    TopicState,
)
from cluster.model.cluster_view import ClusterView
from cluster.model.ids import NO_BROKER, BrokerId, ControllerEpoch, TopicPartition
from cluster.protocol.peer.control import ClusterUpdate


class MetadataCache:
    """Only the controller's updates change it.

    Invariant: `encoded_answers` is empty after every change of the state.
    """

    def __init__(
        self, cluster_id: str, on_view: Callable[[ClusterView], None] = lambda _view: None
    ) -> None:
        """`on_view` is called when the live brokers or the controller have changed."""
        self.cluster_id = cluster_id
        self.controller_id: BrokerId = NO_BROKER
        self.controller_epoch = ControllerEpoch(0)
        self.encoded_answers = KeptAnswers[tuple[bytes, frozenset[BrokerId]]]()
        """The Metadata handler's cached answers for this state, each with the leaders it names."""
        self.state_number = 0
        """Incremented by every change of the state."""
        self._on_view = on_view
        self._view: ClusterView | None = None
        self._state = ClusterState()

    @property
    def brokers(self) -> dict[BrokerId, BrokerRegistration]:
        """Live brokers by id; must not be modified."""
        return self._state.brokers

    @property
    def topics(self) -> dict[str, TopicState]:
        """Topics by name; must not be modified."""
        return self._state.topics

    def topic_name(self, topic_id: uuid.UUID | None) -> str | None:
        return None if topic_id is None else self._state.topic_name(topic_id)

    def partition(self, partition: TopicPartition) -> PartitionState | None:
        return self._state.partition(partition)

    def offline_replicas(self, topic_id: uuid.UUID, number: int) -> Collection[BrokerId]:
        """The live brokers on which a partition's replica is offline."""
        return self._state.offline_replicas(topic_id, number)

    def full_replicas(self, topic_id: uuid.UUID, number: int) -> Collection[BrokerId]:
        """The live brokers on which a partition's replica is in a full log directory."""
        return self._state.full.brokers_of(topic_id, number)

    def endpoint(self, broker: BrokerId, listener: str) -> Endpoint | None:
        """The address of a broker for clients of a listener; None while it is not registered."""
        registration = self._state.brokers.get(broker)
        return None if registration is None else registration.endpoint(listener)

    def controller_endpoint(self) -> str | None:
        """The control endpoint of the controller; None if it is not known."""
        registration = self._state.brokers.get(self.controller_id)
        return None if registration is None else registration.control_endpoint

    def apply(self, update: ClusterUpdate) -> list[str]:
        """Apply an update; returns the names of topics that were deleted (or recreated).

        The caller has checked the epochs.
        """
        self._has_changed()
        self.controller_id = update.controller
        self.controller_epoch = update.controller_epoch
        self._state.brokers.clear()
        self._state.brokers.update({broker.id: broker for broker in update.brokers})
        self._state.set_all_offline(update.offline)
        self._state.full.put_all(update.full)
        gone = list(update.deleted)
        if update.is_full:
            present = {topic.name for topic in update.topics}
            gone += [name for name in self._state.topics if name not in present]
        for topic in update.topics:
            known = self._state.topics.get(topic.name)
            if known is not None and known.topic_id != topic.topic_id:
                gone.append(topic.name)
        for name in gone:
            self._state.remove_topic(name)
        for topic in update.topics:
            known = self._state.topics.get(topic.name)
            if known is None or update.is_full:
                self._state.put_topic(
                    TopicState(topic.name, topic.topic_id, topic.configs, dict(topic.partitions))
                )
            else:
                known.configs = topic.configs
                known.partitions.update(topic.partitions)
        self._look_round()
        return gone

    def forget_controller(self) -> None:
        """Forget the controller, since the session with the registry is lost."""
        self._has_changed()
        self.controller_id = NO_BROKER
        self._look_round()

    def _look_round(self) -> None:
        view = ClusterView(self.cluster_id, self.controller_id, frozenset(self._state.brokers))
        if view != self._view:
            self._view = view
            self._on_view(view)

    def _has_changed(self) -> None:
        self.encoded_answers.clear()
        self.state_number += 1
