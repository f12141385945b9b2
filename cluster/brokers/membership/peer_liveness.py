"""Tracks which peers are alive, as far as this broker can tell before the controller does. No I/O.

A client whose connection to a leader breaks asks another broker immediately for the new leader. If
the answer names the dead broker, the client waits for its own timer, which is one second in
librdkafka. Therefore a leader is pinged before an answer names it. A peer whose process ends breaks
its connection, and is not named as a leader until the controller's next update. A peer that is
paused or cut off keeps its connection and does not answer: requests wait for it once, and then it
is named as before.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from cluster.model.clocks import MonotonicMs
from cluster.model.cluster import BrokerRegistration, PartitionState
from cluster.model.ids import BrokerEpoch, BrokerId, TopicPartition
from cluster.protocol.peer.control import ClusterUpdate

PING_TIMEOUT_MS: Final = 100
"""The timeout of a ping. Requests do not wait again for a peer that missed it until that
peer answers.
"""
ELECTION_WAIT_MS: Final = 200
"""The time that answers wait for the election of new leaders after a peer's process has ended."""
DEPARTED_SHOWN_MS: Final = 3_000
"""The time during which answers may list a broker that has left the cluster (see
`departed_for`).
"""

SPACING_MS: Final = 50
"""The minimal time between a connection's first answer after a departure and its next one."""
HANDLE_KEPT_MS: Final = 20_000
"""The time for which a connection whose last answer listed a departed broker is not sent
it again.
"""

Tickets = dict[BrokerId, int]
"""By leader, the number of the first ping that is sent after the request has arrived."""


@dataclass(slots=True)
class _Departed:
    registration: BrokerRegistration
    at_ms: int
    answered_ms: dict[str, int] = field(default_factory=dict)
    """The time of each connection's first answer about leaders since the departure."""


@dataclass(slots=True)
class _Peer:
    registration: BrokerRegistration
    asked: int = 0
    """The number of the last ping sent to it."""
    answered: int = 0
    """The number of the last ping that it answered or missed."""
    wanted: int = 0
    """The number of the last ping that a request waits for."""
    is_silent: bool = False
    lost_at_ms: int | None = None
    """The time at which this broker's connection to it broke."""


class PeerLiveness:
    """Owned by the broker's thread.

    `ping` sends the ping with a given number to a broker; `on_change` is called when a wait may be
    over.
    Invariant: at most one ping to each peer is in flight.
    Invariant: a peer stops counting as dead once the controller's update shows it alive, or after
    `expiry_ms`, the time in which the registry would have noticed its end.
    """

    def __init__(
        self,
        local_id: BrokerId,
        expiry_ms: int,
        ping: Callable[[BrokerRegistration, int], None],
        on_change: Callable[[], None],
    ) -> None:
        self._local_id = local_id
        self._expiry_ms = expiry_ms
        self._ping = ping
        self._on_change = on_change
        self._peers: dict[BrokerId, _Peer] = {}
        self._departed: dict[BrokerId, _Departed] = {}
        """The brokers that have recently left and have not returned."""
        self._last_shown_ms: dict[BrokerId, dict[str, int]] = {}
        """By departed broker, the connections whose last answer listed it, with the time
        of that answer.
        """

    # -- queries ---------------------------------------------------------------------------------

    def inquire(self, leaders: Iterable[BrokerId]) -> Tickets:
        """Ping these brokers; the result is for `must_wait`."""
        tickets: Tickets = {}
        for broker in leaders:
            peer = self._peers.get(broker)
            if peer is None or peer.lost_at_ms is not None:
                continue
            is_idle = peer.asked == peer.answered
            peer.wanted = tickets[broker] = peer.asked + 1
            if is_idle:
                self._send_ping(peer)
        return tickets

    def must_wait(
        self, leaders: Collection[BrokerId], tickets: Tickets, now_ms: MonotonicMs
    ) -> bool:
        """Whether one of these leaders has neither answered a ping nor missed it.

        Also true while an election is due because one of these leaders has just ended.
        """
        for broker in leaders:
            peer = self._peers.get(broker)
            if peer is None:
                continue
            if peer.lost_at_ms is not None:
                if now_ms - peer.lost_at_ms < ELECTION_WAIT_MS:
                    return True
            elif not peer.is_silent and peer.answered < tickets.get(broker, 0):
                return True
        return False

    def is_lost(self, broker: BrokerId, now_ms: MonotonicMs) -> bool:
        """Whether that broker's process has ended, although the controller has not said so yet."""
        peer = self._peers.get(broker)
        return (
            peer is not None
            and peer.lost_at_ms is not None
            and now_ms - peer.lost_at_ms < self._expiry_ms
        )

    def departed_for(self, connection: str, now_ms: MonotonicMs) -> list[BrokerRegistration]:
        """Brokers that have just left the cluster, once for each connection that asks for leaders.

        librdkafka (2.10 and later) destroys its handle of a broker that Metadata does not list. It
        then discards what the same answer says about the new leaders of that broker's partitions,
        which have to wait for its timer of one second. Therefore the connection's first answer
        lists the broker, and the partitions move to their new leaders. The next answer does not
        list it: a handle that is kept backs off longer with each reconnect, and would be unusable
        for seconds when its broker is back and a leader. Between the two answers the handle's
        thread needs time to release the partitions (see `next_answer_ms`). A client that does not
        ask a second time keeps its handle until the next departure.
        """
        shown = []
        for broker, one in self._lately_departed(now_ms).items():
            last_shown_ms = self._last_shown_ms[broker].pop(connection, None)
            is_first = connection not in one.answered_ms
            one.answered_ms.setdefault(connection, now_ms)
            if is_first and last_shown_ms is None:
                shown.append(one.registration)
                self._last_shown_ms[broker][connection] = now_ms
        return shown

    def next_answer_ms(self, connection: str, now_ms: MonotonicMs) -> int:
        return max(
            (
                one.answered_ms[connection] + SPACING_MS
                for one in self._lately_departed(now_ms).values()
                if connection in one.answered_ms
            ),
            default=now_ms,
        )

    def is_calm(self, now_ms: MonotonicMs) -> bool:
        """Whether no peer seems dead or has just left, so that an answer stays valid until the next
        update.
        """
        return not self._lately_departed(now_ms) and not any(
            self.is_lost(broker, now_ms) for broker in self._peers
        )

    # -- events ----------------------------------------------------------------------------------

    def on_connection(
        self, broker: BrokerId, epoch: BrokerEpoch, stands: bool, now_ms: MonotonicMs
    ) -> None:
        """This broker's connection to a peer, registered with that epoch, has broken or
        is up again.
        """
        peer = self._peers.get(broker)
        if peer is None or peer.registration.epoch != epoch:
            return
        if not stands:
            peer.lost_at_ms = now_ms if peer.lost_at_ms is None else peer.lost_at_ms
        else:
            _trust(peer)
        self._on_change()

    def on_ping_over(self, broker: BrokerId, number: int, *, has_answered: bool) -> None:
        """A ping was answered, or was not answered within `PING_TIMEOUT_MS`."""
        peer = self._peers.get(broker)
        if peer is None or number <= peer.answered:
            return
        peer.answered = number
        peer.is_silent = not has_answered
        if peer.wanted > peer.asked and peer.lost_at_ms is None:
            self._send_ping(peer)
        self._on_change()

    def on_update(
        self,
        update: ClusterUpdate,
        known: Callable[[TopicPartition], PartitionState | None],
        now_ms: MonotonicMs,
    ) -> None:
        """The controller's update is about to be applied; `known` returns a partition's
        state before it.
        """
        live = {broker.id: broker for broker in update.brokers if broker.id != self._local_id}
        for broker, peer in list(self._peers.items()):
            if broker not in live:
                self._depart(peer.registration, now_ms)
                del self._peers[broker]
            elif live[broker].epoch != peer.registration.epoch:
                peer.registration = live[broker]
                _trust(peer)
        for broker, registration in live.items():
            self._departed.pop(broker, None)
            if broker not in self._peers:
                self._peers[broker] = _Peer(registration)
        for peer in self._peers.values():
            if peer.lost_at_ms is not None and _is_elected(peer.registration.id, update, known):
                _trust(peer)
        self._on_change()

    def _depart(self, registration: BrokerRegistration, now_ms: MonotonicMs) -> None:
        self._departed[registration.id] = _Departed(registration, now_ms)
        self._last_shown_ms[registration.id] = {
            connection: at_ms
            for connection, at_ms in self._last_shown_ms.get(registration.id, {}).items()
            if now_ms - at_ms < HANDLE_KEPT_MS
        }

    def _lately_departed(self, now_ms: MonotonicMs) -> dict[BrokerId, _Departed]:
        if self._departed:
            self._departed = {
                broker: one
                for broker, one in self._departed.items()
                if now_ms - one.at_ms < DEPARTED_SHOWN_MS
            }
        return self._departed

    def _send_ping(self, peer: _Peer) -> None:
        peer.asked += 1
        self._ping(peer.registration, peer.asked)


def _trust(peer: _Peer) -> None:
    """Treat the peer as alive again, and ignore its unanswered pings."""
    peer.lost_at_ms = None
    peer.is_silent = False
    peer.asked = peer.answered = max(peer.asked, peer.wanted)


def _is_elected(
    broker: BrokerId,
    update: ClusterUpdate,
    known: Callable[[TopicPartition], PartitionState | None],
) -> bool:
    """Whether the update elects that broker as a leader, which means that the controller
    sees it alive.
    """
    for topic in update.topics:
        for number, state in topic.partitions.items():
            if state.leader == broker:
                before = known(TopicPartition(topic.name, number))
                if before is not None and before.leader_epoch < state.leader_epoch:
                    return True
    return False
