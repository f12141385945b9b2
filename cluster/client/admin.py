"""Sends each administrative request to the broker that answers it, while leaders change."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Final, NamedTuple, Protocol, Self, TypeVar

from cluster.client.security import Address, Servers
from cluster.client.socket_client import SocketClient
from cluster.client.timeouts import CONNECT_TIMEOUT_S, POLL_S, REQUEST_TIMEOUT_S
from cluster.client.topic_requests import ClusterFacts, Place, by_leader, cluster_facts
from cluster.model.errors import ErrorCode, Refused, UserError
from cluster.protocol.api import ApiKey
from cluster.protocol.messages import Coordinator, FindCoordinatorRequest

_GROUP: Final = 0
_TRANSACTION: Final = 1
_MOVING: Final = frozenset(
    {
        ErrorCode.not_controller,
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.replica_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.concurrent_transactions,
    }
)
"""Answers of a broker that is not, or not yet, the one to ask, or that must finish something first.
"""

Reply = TypeVar("Reply")


class Outcome(NamedTuple):
    """A broker's answer for one partition."""

    code: ErrorCode
    value: int = -1


class AskLeader(Protocol):
    """A request to a leader about some of its partitions."""

    def __call__(self, client: SocketClient, places: Sequence[Place]) -> Mapping[Place, Outcome]:
        """The leader's answer for each."""


class Admin:
    """Connections to the brokers of one cluster, opened when they are needed.

    A request to a broker that has just lost its role is repeated with its successor, for
    `patience_s` at most. Requests raise Refused, and UserError if a broker is not reached.
    """

    def __init__(
        self, servers: Servers, client_id: str, patience_s: float = REQUEST_TIMEOUT_S
    ) -> None:
        """Connect to one of the servers. A connection and each answer may take `patience_s`, too.

        Raises UserError that names all.
        """
        self.servers = servers
        self._client_id = client_id
        self._patience_s = patience_s
        self._open: dict[Address, SocketClient] = {}
        self._any = self._connect(servers)

    def facts(self) -> ClusterFacts:
        """The brokers, the controller and all topics that may be described."""
        try:
            return cluster_facts(self._any)
        except UserError:  # that broker has stopped: another one may answer
            self._any.close()
            self._any = self._connect(self.servers)
            return cluster_facts(self._any)

    def any_broker(self, ask: Callable[[SocketClient], Reply]) -> Reply:
        """The answer of the broker that is connected already."""
        return ask(self._any)

    def broker(self, broker_id: int, ask: Callable[[SocketClient], Reply]) -> Reply:
        """The answer of one broker."""
        address = self.facts().brokers.get(broker_id)
        if address is None:
            raise Refused(ErrorCode.broker_not_available)
        return self._at(address, ask)

    def controller(self, ask: Callable[[SocketClient], Reply]) -> Reply:
        """The answer of the controller."""
        return self.repeated(lambda: self._at(self._controller(), ask))

    def coordinator(
        self, group_id: str, ask: Callable[[SocketClient, Coordinator], Reply]
    ) -> Reply:
        """The answer of the coordinator of a group."""
        return self._from_coordinator(_GROUP, group_id, ask)

    def transaction_coordinator(
        self, transactional_id: str, ask: Callable[[SocketClient, Coordinator], Reply]
    ) -> Reply:
        """The answer of the coordinator of a transactional id."""
        return self._from_coordinator(_TRANSACTION, transactional_id, ask)

    def _from_coordinator(
        self, kind: int, key: str, ask: Callable[[SocketClient, Coordinator], Reply]
    ) -> Reply:
        def once() -> Reply:
            found = self._coordinator(kind, key)
            return self._at((found.host, found.port), lambda client: ask(client, found))

        return self.repeated(once)

    def repeated(self, once: Callable[[], Reply]) -> Reply:
        """The answer of a function that asks brokers, again while they change their roles."""
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                return once()
            except Refused as refused:
                if refused.code not in _MOVING or time.monotonic() > deadline:
                    raise
            except _Unreachable:
                if time.monotonic() > deadline:
                    raise
            time.sleep(POLL_S)

    def leaders(
        self,
        places: Iterable[Place],
        ask: AskLeader,
    ) -> dict[Place, Outcome]:
        """The answers of the leaders of some partitions, each asked for those that it leads."""
        found: dict[Place, Outcome] = {}
        left = list(places)
        deadline = time.monotonic() + self._patience_s
        while left:
            found |= self._leaders_once(left, ask)
            left = [place for place in left if found[place].code in _MOVING]
            if time.monotonic() > deadline:
                break
            if left:
                time.sleep(POLL_S)
        return found

    def _leaders_once(
        self,
        places: Iterable[Place],
        ask: AskLeader,
    ) -> dict[Place, Outcome]:
        facts = self.facts()
        known = {
            Place(topic.name, each.number): each.leader
            for topic in facts.topics
            for each in topic.partitions
        }
        found: dict[Place, Outcome] = {}
        led_now: list[tuple[Place, int | None]] = []
        for place in places:
            leader = known.get(place)
            if place not in known:
                found[place] = Outcome(ErrorCode.unknown_topic_or_partition)
            elif leader is None or leader not in facts.brokers:
                found[place] = Outcome(ErrorCode.leader_not_available)
            else:
                led_now.append((place, leader))
        for leader, led in by_leader(led_now).items():
            try:
                found |= self._at(facts.brokers[leader], partial(ask, places=led))
            except UserError:
                found |= dict.fromkeys(led, Outcome(ErrorCode.leader_not_available))
        return found

    def close(self) -> None:
        """Close all connections."""
        for client in (self._any, *self._open.values()):
            client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _problem: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()

    def _controller(self) -> Address:
        facts = self.facts()
        address = None if facts.controller is None else facts.brokers.get(facts.controller)
        if address is None:
            raise Refused(ErrorCode.not_controller, "there is no controller at present")
        return address

    def _coordinator(self, kind: int, key: str) -> Coordinator:
        asked = FindCoordinatorRequest(key="", key_type=kind, coordinator_keys=(key,))
        (found,) = self._any.call(ApiKey.FIND_COORDINATOR, asked).coordinators
        if found.error_code is not ErrorCode.none:
            raise Refused(found.error_code, found.error_message or "")
        coordinator: Coordinator = found
        return coordinator

    def _at(self, address: Address, ask: Callable[[SocketClient], Reply]) -> Reply:
        client = self._open.get(address)
        if client is None:
            try:
                client = self._connect(self.servers.only(address))
            except UserError as problem:
                raise _Unreachable(str(problem)) from None
            self._open[address] = client
        try:
            return ask(client)
        except UserError:
            client.close()
            del self._open[address]
            raise

    def _connect(self, servers: Servers) -> SocketClient:
        timeout_s = min(CONNECT_TIMEOUT_S, self._patience_s)
        client = SocketClient.connect(servers, self._client_id, timeout_s)
        client.wait_for_answers(self._patience_s)
        return client


class _Unreachable(UserError):
    """No connection, so no request was sent: it may be repeated."""
