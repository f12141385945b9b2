"""This broker's registration, which ends with the registry session and is repeated in the
next one.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from cluster.coordinator.cluster_store import RETRY_MS, StoreSession
from cluster.model.cluster import BrokerRegistration
from cluster.model.ids import BrokerEpoch, TopicPartition
from cluster.protocol.peer.control import ClusterUpdate
from cluster.runtime.clock import Clock
from cluster.runtime.loop import EventLoop

log = logging.getLogger(__name__)

NOT_REGISTERED: Final = BrokerEpoch(-1)


class Registration:
    """Owned by the broker's thread. `epoch` is that of the current registration, or -1."""

    def __init__(self, store: StoreSession, loop: EventLoop, clock: Clock) -> None:
        self._store = store
        self._loop = loop
        self._clock = clock
        self._announced: BrokerRegistration | None = None
        self._whole: set[TopicPartition] = set()
        """Partitions whose replica here has been in sync since the broker started."""
        self.epoch = NOT_REGISTERED

    def begin(self, announced: BrokerRegistration) -> None:
        """Register at startup; blocks. Raises UserError if a live broker has the same id."""
        self._announced = announced
        wall_ms = self._clock.wall_ms()
        self.epoch = self._store.call(lambda store: store.brokers.register(announced, wall_ms))

    def on_update(self, update: ClusterUpdate) -> None:
        """Note which logs are complete; the next session does not announce them as lost."""
        if self._announced is None:
            return
        for topic in update.topics:
            for number, state in topic.partitions.items():
                if state.has_leader and self._announced.id in state.isr:
                    self._whole.add(TopicPartition(topic.name, number))

    def end(self) -> None:
        """Stop registering again, because the broker is stopping."""
        self._announced = None

    def on_session_lost(self) -> None:
        """End the registration together with its session."""
        self.epoch = NOT_REGISTERED

    def again(self, on_registered: Callable[[], None]) -> None:
        """Register in a new session, and retry until that succeeds or the broker stops."""
        announced = self._announced
        if announced is None:
            return
        announced = replace(announced, condition=announced.condition.without_doubt(self._whole))
        wall_ms = self._clock.wall_ms()

        def on_done(epoch: BrokerEpoch) -> None:
            log.info("registered again with epoch %d", epoch)
            self.epoch = epoch
            on_registered()

        def on_failed(error: Exception) -> None:
            log.warning("cannot register: %s", error)
            self._loop.call_after(RETRY_MS, lambda: self.again(on_registered))

        self._store.submit(
            lambda store: store.brokers.register(announced, wall_ms), on_done, on_failed
        )
