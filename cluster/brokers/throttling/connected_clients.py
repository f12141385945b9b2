"""Facts about clients beside their usage: connections, software, and whether they pause.

A client that honors throttling (KIP-219) sends nothing on a connection while it is muted for a
quota. This is only watched, never acted upon. Requests in flight when a mute begins look like a
violation, but each of them leads to another mute later, in which nothing comes. So at least half of
the mutes of a client that pauses are quiet, and hardly any of one that does not. Pure: the callers
report connections and mutes.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from cluster.brokers.network.connection import Connection
from cluster.model.quota_pauses import NO_PAUSES, Pauses
from cluster.model.quotas import QuotaKind

CLIENTS_MAX: Final = 10_000
"""Clients without a connection that are remembered; above this the oldest tenth is forgotten."""
TOLD_MS: Final = 10
"""Shorter mutes are ignored: a response may take as long to reach the client."""

_BITS: Final = {kind: 1 << number for number, kind in enumerate(QuotaKind)}

_Key = tuple[str, str]
"""User, client id."""
Software = tuple[str, str]
"""The name and version in ApiVersions (KIP-511); empty if the client sends none."""
UNKNOWN: Final[Software] = ("", "")


class ConnectedClient:
    """One user and client id, kept while it has connections and for some time after."""

    __slots__ = ("_software", "connection_count", "newest", "pauses")

    def __init__(self) -> None:
        self.connection_count = 0
        self.newest: Connection | None = None
        """Its most recent connection, while that is open."""
        self.pauses: dict[QuotaKind, Pauses] = {}
        self._software = UNKNOWN

    @property
    def software(self) -> Software:
        """The software of the most recent connection that named one."""
        newest = self.newest
        if newest is not None and newest.software != UNKNOWN:
            self._software = newest.software
        return self._software


class _Link:
    """One connection, counted for the client of its latest requests."""

    __slots__ = ("early", "held", "key")

    def __init__(self, key: _Key) -> None:
        self.key = key
        self.held = 0
        """The kinds of quota for which it was muted, as bits: a set would take 200 bytes."""
        self.early = 0
        """The kinds for which requests came during a mute."""


class ConnectedClients:
    """One per broker, used by its thread only.

    Invariant: `connection_count` of a client is the number of open connections whose latest
    requests were the client's.
    """

    def __init__(self, clients_max: int = CLIENTS_MAX) -> None:
        self._clients: dict[_Key, ConnectedClient] = {}
        self._links: dict[Connection, _Link] = {}
        self._changed: dict[_Key, None] = {}
        self._clients_max = clients_max

    def on_request_kind(self, channel: Connection, user: str, client_id: str) -> None:
        """Note that a connection sends requests of this client from now on."""
        key = (user, client_id)
        link = self._links.get(channel)
        if link is None:
            self._links[channel] = _Link(key)
        elif link.key == key:
            return
        else:
            self._leave(link.key, channel)
            link.key = key
            link.held = link.early = 0
        client = self._clients.get(key)
        if client is None:
            if len(self._clients) >= self._clients_max + len(self._links):
                self._forget_some()
            client = self._clients[key] = ConnectedClient()
        client.connection_count += 1
        client.newest = channel
        self._changed[key] = None

    def on_closed(self, channel: Connection) -> None:
        """Note that a connection is closed; one that never sent a request is unknown."""
        link = self._links.pop(channel, None)
        if link is not None:
            self._leave(link.key, channel)

    def on_mute_over(
        self, channel: Connection, kind: QuotaKind, *, came: bool, waited: bool
    ) -> None:
        """Note that a mute of at least `TOLD_MS` has ended.

        `came`: a request arrived during the mute; `waited`: one had arrived before it.
        """
        link = self._links.get(channel)
        if link is None:
            return
        client = self._clients[link.key]
        before = client.pauses.get(kind, NO_PAUSES)
        bit = _BITS[kind]
        client.pauses[kind] = Pauses(
            before.quiet + (not came and not waited),
            before.early + came,
            before.connections + (not link.held & bit),
            before.early_connections + (came and not link.early & bit),
            before.ahead + (waited and not came),
        )
        link.held |= bit
        if came:
            link.early |= bit
        self._changed[link.key] = None

    def get(self, user: str, client_id: str) -> ConnectedClient | None:
        """The client; None if it has no connection and has had none lately."""
        return self._clients.get((user, client_id))

    def __iter__(self) -> Iterator[tuple[Connection, str, str]]:
        """The open connections, each with the user and client id of its latest requests."""
        for channel, link in self._links.items():
            yield channel, *link.key

    def take_changed(self) -> Iterable[_Key]:
        """Remove and return the clients that have changed since the last call."""
        changed, self._changed = self._changed, {}
        return changed

    def _leave(self, key: _Key, channel: Connection) -> None:
        client = self._clients[key]
        client.connection_count -= 1
        if client.newest is channel:
            _ = client.software  # kept for later requests
            client.newest = None
        self._changed[key] = None

    def _forget_some(self) -> None:
        gone = [key for key, client in self._clients.items() if not client.connection_count]
        for key in gone[: max(1, len(gone) // 10)]:
            del self._clients[key]
