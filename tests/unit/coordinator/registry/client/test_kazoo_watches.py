"""Watches over lost connections, with kazoo's client reduced to what it keeps of them."""

import struct
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.protocol.states import WatchedEvent

from cluster.coordinator.registry.client.kazoo_watches import LastingWatches


class Client:
    """What kazoo's client has of watches and requests."""

    def __init__(self) -> None:
        self._data_watchers: dict[str, set[Any]] = defaultdict(set)
        self._child_watchers: dict[str, set[Any]] = defaultdict(set)
        self.last_zxid = 0
        self.handler = SimpleNamespace(async_result=lambda: None)
        self.sent: list[Any] = []

    def _call(self, request: Any, _result: Any) -> None:
        self.sent.append(request)

    def drop(self, watches: LastingWatches) -> None:
        """The connection is lost: kazoo tells, then forgets."""
        watches.on_suspended()
        self._data_watchers.clear()
        self._child_watchers.clear()

    def take_zxids(self) -> list[int]:
        """The relative zxid of each setWatches sent since the last call."""
        sent, self.sent = self.sent, []
        return [struct.unpack_from(">q", request.serialize())[0] for request in sent]


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
def watches(client: Client) -> LastingWatches:
    return LastingWatches(client)  # type: ignore[arg-type]  # stands in for it


def test_watches_are_set_again_when_the_client_reconnects(
    client: Client, watches: LastingWatches
) -> None:
    events: list[WatchedEvent] = []
    watch = watches.mark(events.append)
    client._data_watchers["/a"].add(watch)
    client._child_watchers["/b"].add(watch)
    client._data_watchers["/of a recipe"].add(print)
    client.last_zxid = 10
    client.drop(watches)
    watches.on_connected()
    assert client._data_watchers == {"/a": {watch}}
    assert client._child_watchers == {"/b": {watch}}
    assert client.take_zxids() == [10]


def test_missed_events_are_requested_until_answered(
    client: Client, watches: LastingWatches
) -> None:
    """Another request's reply may come before the connection is lost again: its zxid is past what
    the watches have been told of.
    """
    watch = watches.mark(lambda event: None)
    client._data_watchers["/a"].add(watch)
    client.last_zxid = 10
    client.drop(watches)
    watches.on_connected()
    client.last_zxid = 12
    client.drop(watches)
    watches.on_connected()
    assert client.take_zxids() == [10, 10]
    assert client._data_watchers == {"/a": {watch}}


def test_once_told_they_are_up_to_date(client: Client, watches: LastingWatches) -> None:
    client._data_watchers["/a"].add(watches.mark(lambda event: None))
    client.last_zxid = 10
    client.drop(watches)
    watches.on_connected()
    client.sent[0].deserialize(b"", 0)
    client.last_zxid = 12
    client.drop(watches)
    watches.on_connected()
    assert client.take_zxids() == [10, 12]


def test_new_session_starts_without_watches(client: Client, watches: LastingWatches) -> None:
    client._data_watchers["/a"].add(watches.mark(lambda event: None))
    client.last_zxid = 10
    client.drop(watches)
    watches.on_connected()
    client.drop(watches)
    watches.on_lost()
    client.last_zxid = 20
    client.drop(watches)
    watches.on_connected()
    assert client.take_zxids() == [10]
