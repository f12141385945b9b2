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
"""Values of one client; further ones are counted only."""
KEPT_BYTES_MAX: Final = 96 << 10
"""The memory of one client's values, estimated; one of Java takes some 60 KiB."""
_SERIES_BYTES: Final = 200
_LABEL_BYTES: Final = 200
"""The memory of the objects of a label, without its characters; likewise of a series above."""


class Series(NamedTuple):
    """One value of one client."""

    value: float
    is_counter: bool


class PushedClient:
    """What one client instance has pushed to this broker."""

    __slots__ = (
        "facts",
        "is_closed",
        "kept_bytes",
        "labels",
        "left_out",
        "pushes",
        "series",
        "ts_ms",
        "user",
    )

    def __init__(self, facts: Mapping[str, str], user: str) -> None:
        self.facts = facts
        """By the keys of `match`."""
        self.user = user
        self.labels: Labels = ()
        self.series: dict[tuple[str, Labels], Series] = {}
        self.kept_bytes = 0
        """The estimated memory of `series`."""
        self.ts_ms = WallMs(0)
        """When it pushed last."""
        self.pushes = 0
        self.left_out = 0
        """Values of its last push that are not kept."""
        self.is_closed = False
        """Whether it said that this was its last push."""


class PushedMetrics:
    """Used by one thread; bounded by `CLIENTS_MAX`, `SERIES_MAX` and `KEPT_BYTES_MAX`."""

    def __init__(self) -> None:
        self._clients: OrderedDict[UUID, PushedClient] = OrderedDict()

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
        client.kept_bytes = sum(_size(key) for key in client.series)
        for point in pushed.points:
            if isfinite(point.value):  # a client has no value yet where it pushes NaN
                self._add(client, point)
        if len(self._clients) > CLIENTS_MAX:
            self.forget(next(iter(self._clients)))

    def forget(self, client_instance_id: UUID) -> None:
        """Drop the values of a client, if there are any."""
        self._clients.pop(client_instance_id, None)

    def _add(self, client: PushedClient, point: Point) -> None:
        key = point.name, point.labels
        known = client.series.get(key)
        if known is None:
            size = client.kept_bytes + _size(key)
            if len(client.series) >= SERIES_MAX or size > KEPT_BYTES_MAX:
                client.left_out += 1
                return
            client.kept_bytes = size
        value = point.value
        if point.is_delta and known is not None:
            value += known.value
        client.series[key] = Series(value, point.is_counter)


def _size(key: tuple[str, Labels]) -> int:
    name, labels = key
    size = _SERIES_BYTES + len(name)
    return size + sum(_LABEL_BYTES + len(each) + len(value) for each, value in labels)


def is_wanted(name: str, prefixes: Collection[str]) -> bool:
    """Whether a metric has one of these prefixes; every one has if none is given."""
    return not prefixes or any(name.startswith(each) for each in prefixes)
