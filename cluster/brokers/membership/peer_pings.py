"""Runs `PeerLiveness` over the control link: pings, and connections to every live peer."""

from functools import partial
from typing import Final

from cluster.brokers.membership.metadata_cache import MetadataCache
from cluster.brokers.membership.peer_liveness import PING_TIMEOUT_MS, PeerLiveness
from cluster.brokers.network.purgatory import Purgatory
from cluster.coordinator.controller.control_link import ControlLink, Reply
from cluster.model.cluster import BrokerRegistration
from cluster.model.errors import ErrorCode
from cluster.model.ids import BrokerId
from cluster.protocol.peer.control import Acknowledged, ClusterUpdate, Ping, Refusal
from cluster.runtime.loop import EventLoop

LIVENESS: Final = "liveness of peers"
"""The purgatory key of requests that wait until a leader is known to be alive."""


class PeerPings:
    """Sends the pings of `PeerLiveness` and passes it connection events. Owned by the
    broker's thread.
    """

    def __init__(
        self,
        local_id: BrokerId,
        expiry_ms: int,
        loop: EventLoop,
        metadata: MetadataCache,
        purgatory: Purgatory,
        link: ControlLink,
    ) -> None:
        self._local_id = local_id
        self._loop = loop
        self._metadata = metadata
        self._purgatory = purgatory
        self._link = link
        self._peers: dict[str, BrokerRegistration] = {}
        """Peers by control endpoint; there is a connection to each."""
        self._is_check_deferred = False
        self.liveness = PeerLiveness(local_id, expiry_ms, self._ping, self._check_later)

    def on_ping(self, _ping: Ping, reply: Reply) -> None:
        """Answer a ping from a peer."""
        reply(Acknowledged(ErrorCode.none))

    def on_update(self, update: ClusterUpdate) -> None:
        """Called with the controller's update just before it is applied."""
        self.liveness.on_update(update, self._metadata.partition, self._loop.now_ms)
        before = self._peers
        self._peers = {b.control_endpoint: b for b in update.brokers if b.id != self._local_id}
        for endpoint in before.keys() - self._peers.keys():
            self._link.forget(endpoint)
        for endpoint in self._peers.keys() - before.keys():
            self._link.watch(endpoint, partial(self._on_connection, endpoint))

    def _on_connection(self, endpoint: str, stands: bool) -> None:
        peer = self._peers[endpoint]
        self.liveness.on_connection(peer.id, peer.epoch, stands, self._loop.now_ms)

    def _ping(self, peer: BrokerRegistration, number: int) -> None:
        def on_reply(answer: Acknowledged | Refusal | None) -> None:
            self.liveness.on_ping_over(peer.id, number, has_answered=answer is not None)

        self._link.ask(peer.control_endpoint, Ping(number), on_reply, PING_TIMEOUT_MS)

    def _check_later(self) -> None:
        # At the end of the event loop's iteration, when the changes of an update are in force.
        if not self._is_check_deferred:
            self._is_check_deferred = True
            self._loop.defer(self._check)

    def _check(self) -> None:
        self._is_check_deferred = False
        self._purgatory.check(LIVENESS)
