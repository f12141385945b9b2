"""Watches that survive a change of connection. kazoo drops every watch when a connection is lost,
and sends no setWatches when the session goes on.

As ZooKeeper's own client does, this sets the watches again, and changes in between are notified at
once. Runs on kazoo's connection thread; watches of kazoo's recipes are not affected.
"""

from collections.abc import Callable
from typing import Any, Final
from weakref import WeakSet

from kazoo.client import KazooClient
from kazoo.protocol.states import WatchedEvent

from cluster.coordinator.registry.client.watching import WatchFunction
from cluster.coordinator.registry.wire.codes import Operation
from cluster.coordinator.registry.wire.jute import encode_long, encode_strings

_MAX_REQUEST_BYTES: Final = 128 * 1024
"""Well below jute.maxbuffer; the same as in ZooKeeper's client."""


class _SetWatches:
    """jute `SetWatches` in the form that kazoo sends."""

    type = int(Operation.SET_WATCHES)

    def __init__(
        self,
        seen_zxid: int,
        data: list[str],
        children: list[str],
        on_answered: Callable[[], None],
    ) -> None:
        self._on_answered = on_answered
        self._record = (
            encode_long(seen_zxid)
            + encode_strings(data)
            + encode_strings(())
            + encode_strings(children)
        )

    def serialize(self) -> bytes:
        """The record, without the request header."""
        return self._record

    def deserialize(self, _received: bytes, _offset: int) -> None:
        """The answer has no record; kazoo calls this on its connection thread."""
        self._on_answered()


class LastingWatches:
    """The watches of one client.

    Invariant: a watch left by a function that `mark` returned is either among kazoo's, or kept
    here while there is no connection. Watches kept here have seen everything up to `_seen_zxid`.
    """

    def __init__(self, client: KazooClient) -> None:
        self._client = client
        self._marked: WeakSet[WatchFunction] = WeakSet()
        self._data: dict[str, set[WatchFunction]] = {}
        self._children: dict[str, set[WatchFunction]] = {}
        self._seen_zxid = 0
        self._unanswered_count = 0
        """The number of setWatches requests without a reply; until then `last_zxid` may be ahead of
        the watches.
        """

    def mark(self, watch: WatchFunction) -> WatchFunction:
        """A watch function for one kazoo call. It is called once, whatever happens to
        connections.
        """

        def once(event: WatchedEvent) -> None:
            if event.type != "NONE":
                self._marked.discard(once)
                watch(event)

        self._marked.add(once)
        return once

    def on_suspended(self) -> None:
        """The connection is lost; kazoo has not yet dropped its watches."""
        _collect(self._client._data_watchers, self._marked, self._data)
        _collect(self._client._child_watchers, self._marked, self._children)
        if self._unanswered_count == 0:
            self._seen_zxid = self._client.last_zxid

    def on_connected(self) -> None:
        """The session continues on another connection."""
        self._unanswered_count = 0
        data, self._data = self._data, {}
        children, self._children = self._children, {}
        for path, functions in data.items():
            self._client._data_watchers[path] |= functions
        for path, functions in children.items():
            self._client._child_watchers[path] |= functions
        paths = [(path, True) for path in data] + [(path, False) for path in children]
        while paths:
            chosen: tuple[list[str], list[str]] = ([], [])
            size = 0
            while paths and size < _MAX_REQUEST_BYTES:
                path, is_data = paths.pop()
                chosen[not is_data].append(path)
                size += len(path) + 4
            self._unanswered_count += 1
            request = _SetWatches(self._seen_zxid, *chosen, self._on_answered)
            self._client._call(request, self._client.handler.async_result())

    def on_lost(self) -> None:
        """The session has ended, and with it its watches."""
        self._data, self._children = {}, {}
        self._marked.clear()
        self._unanswered_count = 0

    def _on_answered(self) -> None:
        self._unanswered_count -= 1


def _collect(
    watchers: Any, marked: WeakSet[WatchFunction], kept: dict[str, set[WatchFunction]]
) -> None:
    for path, functions in watchers.items():
        ours = {one for one in functions if one in marked}
        if ours:
            kept.setdefault(path, set()).update(ours)
