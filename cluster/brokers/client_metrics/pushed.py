"""The last values that each client instance pushed, for tools, page and Prometheus. Pure.

Counters that clients push as differences are added up here.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping
from math import isfinite
from typing import Final, NamedTuple
from uuid import UUID

from cluster.model.clocks import WallMs
from cluster.protocol.otlp import Labels, Point, PushedPoints

CLIENTS_MAX: Final = 500
"""Above this, the client that has not pushed for longest is left out."""
SERIES_MAX: Final = 200
"""Values of one client; further ones are counted only. With 500 clients about 20 MB."""


class Series(NamedTuple):
    """One value of one client."""

    value: float
    is_counter: bool


class PushedClient:
    """What one client instance has pushed to this broker."""

    __slots__ = ("facts", "is_closed", "labels", "left_out", "pushes", "series", "ts_ms", "user")

    def __init__(self, facts: Mapping[str, str], user: str) -> None:
        self.facts = facts
        """By the keys of `match`."""
        self.user = user
        self.labels: Labels = ()
        self.series: dict[tuple[str, Labels], Series] = {}
        self.ts_ms = WallMs(0)
        """When it pushed last."""
        self.pushes = 0
        self.left_out = 0
        """Values of its last push that are not kept."""
        self.is_closed = False
        """Whether it said that this was its last push."""


class PushedMetrics:
    """Used by one thread; bounded by `CLIENTS_MAX` and `SERIES_MAX`."""

    def __init__(self) -> None:
        self._clients: OrderedDict[UUID, PushedClient] = OrderedDict()
        self._keys: dict[tuple[str, Labels], tuple[str, Labels]] = {}
        """One object for the equal keys of all clients."""

    def __iter__(self) -> Iterator[tuple[UUID, PushedClient]]:
        """The clients, those that pushed last first."""
        return reversed(self._clients.items())

    def __len__(self) -> int:
        return len(self._clients)

    def take(
        self,
        client_instance_id: UUID,
        facts: Mapping[str, str],
        user: str,
        pushed: PushedPoints,
        ts_ms: WallMs,
        *,
        is_terminating: bool,
    ) -> None:
        """Note a push. Gauges that it does not have keep no value; counters keep theirs."""
        client = self._clients.get(client_instance_id)
        if client is None:
            client = self._clients[client_instance_id] = PushedClient(facts, user)
        self._clients.move_to_end(client_instance_id)
        client.ts_ms = ts_ms
        client.pushes += 1
        client.labels = pushed.labels
        client.is_closed = is_terminating
        client.left_out = pushed.left_out
        before = client.series
        client.series = {key: each for key, each in before.items() if each.is_counter}
        for point in pushed.points:
            if isfinite(point.value):  # a client has no value yet where it pushes NaN
                self._add(client, point)
        if len(self._clients) > CLIENTS_MAX:
            self.forget(next(iter(self._clients)))

    def forget(self, client_instance_id: UUID) -> None:
        """Drop the values of a client, if there are any."""
        if self._clients.pop(client_instance_id, None) is not None and not self._clients:
            self._keys.clear()

    def _add(self, client: PushedClient, point: Point) -> None:
        key = point.name, point.labels
        known = client.series.get(key)
        if known is None and len(client.series) >= SERIES_MAX:
            client.left_out += 1
            return
        value = point.value
        if point.is_delta and known is not None:
            value += known.value
        client.series[self._shared(key)] = Series(value, point.is_counter)

    def _shared(self, key: tuple[str, Labels]) -> tuple[str, Labels]:
        if len(self._keys) > CLIENTS_MAX * SERIES_MAX:
            self._keys.clear()
        return self._keys.setdefault(key, key)


def is_wanted(name: str, prefixes: Collection[str]) -> bool:
    """Whether a metric has one of these prefixes; every one has if none is given."""
    return not prefixes or any(name.startswith(each) for each in prefixes)
