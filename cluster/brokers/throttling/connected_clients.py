"""What is known of clients apart from their usage: connections, software, whether they keep quiet.

A client that honours throttling (KIP-219) sends nothing on a connection while that is muted for a
quota. Only watched, never acted upon. Requests that were under way when the mute began look like
disobedience, but each of them is a mute of its own later, in which nothing comes: so of a client
that pauses at least half of the mutes are quiet, and of one that does not hardly any.
Pure: told of connections and mutes by those who drive them.
"""

from collections.abc import Iterable
from typing import Final

from cluster.brokers.network.connection import Connection
from cluster.model.quota_pauses import NO_PAUSES, Pauses
from cluster.model.quotas import QuotaKind

CLIENTS_MAX: Final = 10_000
"""Of clients without a connection: above this the tenth that came first is forgotten."""
TOLD_MS: Final = 10
"""Shorter mutes say nothing: an answer may take as long to reach the client."""

_BITS: Final = {kind: 1 << number for number, kind in enumerate(QuotaKind)}

_Key = tuple[str, str]
"""User, client id."""
Software = tuple[str, str]
"""Name and version, as ApiVersions tells them (KIP-511); empty where the client does not."""
UNKNOWN: Final[Software] = ("", "")


class ConnectedClient:
    """One user and client id, as long as it has connections and for some time after."""

    __slots__ = ("_software", "connection_count", "newest", "pauses")

    def __init__(self) -> None:
        self.connection_count = 0
        self.newest: Connection | None = None
        """The connection that came last, while it is open."""
        self.pauses: dict[QuotaKind, Pauses] = {}
        self._software = UNKNOWN

    @property
    def software(self) -> Software:
        """What the newest connection that said so runs on."""
        newest = self.newest
        if newest is not None and newest.software != UNKNOWN:
            self._software = newest.software
        return self._software


class _Link:
    """One connection, counted for the client of its newest kind of request."""

    __slots__ = ("early", "held", "key")

    def __init__(self, key: _Key) -> None:
        self.key = key
        self.held = 0
        """The kinds of quota for which it was muted, as bits: a set would take 200 bytes."""
        self.early = 0
        """Those of them in which something came meanwhile."""


class ConnectedClients:
    """One per broker, used by its thread only.

    Invariant: `connection_count` of a client is the number of open connections whose newest kind of
    request was of it.
    """

    def __init__(self, clients_max: int = CLIENTS_MAX) -> None:
        self._clients: dict[_Key, ConnectedClient] = {}
        self._links: dict[Connection, _Link] = {}
        self._changed: dict[_Key, None] = {}
        self._clients_max = clients_max

    def on_request_kind(self, channel: Connection, user: str, client_id: str) -> None:
        """A connection sends requests of this client from now on."""
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
        """A connection is closed; one that never sent a request is not known."""
        link = self._links.pop(channel, None)
        if link is not None:
            self._leave(link.key, channel)

    def on_mute_over(
        self, channel: Connection, kind: QuotaKind, *, came: bool, waited: bool
    ) -> None:
        """A mute of at least `TOLD_MS` has ended.

        `came`: something did in the meantime; `waited`: something that had come before it.
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
        """A client; None if it has no connection, nor had one lately."""
        return self._clients.get((user, client_id))

    def take_changed(self) -> Iterable[_Key]:
        """The clients of which something is different since the last call."""
        changed, self._changed = self._changed, {}
        return changed

    def _leave(self, key: _Key, channel: Connection) -> None:
        client = self._clients[key]
        client.connection_count -= 1
        if client.newest is channel:
            _ = client.software  # kept for those who ask later
            client.newest = None
        self._changed[key] = None

    def _forget_some(self) -> None:
        gone = [key for key, client in self._clients.items() if not client.connection_count]
        for key in gone[: max(1, len(gone) // 10)]:
            del self._clients[key]
