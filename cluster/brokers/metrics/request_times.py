"""Counts and times requests, divided into the parts of Kafka's RequestMetrics.

Timing a request takes some 2 us, so under load only a sample is timed (docs/decisions/038). Pure,
apart from stores into the stats file's memory.
"""

from collections.abc import Iterable
from typing import Final

from cluster.metrics.histogram import BUCKETS
from cluster.metrics.kafka_names import kafka_api_name
from cluster.metrics.mmap_stats import MmapStats
from cluster.metrics.stats_layout import HISTOGRAM_NUMBERS, PARTS
from cluster.protocol.api import ApiKey, OwnApiKey

TIMED_MAX: Final = 64
"""Requests of one kind that are timed per tick (a quarter of a second); beyond that a smaller share
is."""
_TIMED_FEW: Final = TIMED_MAX // 8
_STEP: Final = 4
WEIGHT_MAX: Final = _STEP**4
_LAST: Final = BUCKETS - 1


class RequestKind:
    """Requests of one API in one version: counts them, and chooses those to be timed.

    On the path of each request this is one call, `tickets.pop()`; the tickets handed out and gone
    give the count.
    """

    __slots__ = ("_filled", "_place", "_taken", "_timed", "api", "tickets", "weight")

    def __init__(self, api: int) -> None:
        self.api = api
        self.tickets = [True]
        """The last ticket says whether the next request is to be timed. `on_timed` refills the
        list, so it is never empty when a request comes."""
        self.weight = 1
        """How many requests a timed one stands for."""
        self._place = 0
        self._filled = 1
        self._taken = 0
        self._timed = 0
        """Since the weight was changed, or since the tick began."""

    def on_timed(self) -> int:
        """Time the request whose ticket was True. Returns how many requests it stands for."""
        weight = self.weight
        self._timed += 1
        if self._timed > TIMED_MAX and weight < WEIGHT_MAX:
            self._weigh(weight * _STEP)
        else:
            self._fill()
        return weight

    def take_count(self) -> int:
        """The number of requests since the last call; called at the end of each tick."""
        taken = self._filled - len(self.tickets)
        count = taken - self._taken
        self._taken = taken
        self._timed = 0
        if self.weight > 1 and count < _TIMED_FEW * self.weight:
            self._weigh(self.weight // _STEP)
        return count

    def _weigh(self, weight: int) -> None:
        self.weight = weight
        self._timed = 0
        self._place = 0
        self._filled -= len(self.tickets)
        self.tickets.clear()
        self._fill()

    def _fill(self) -> None:
        # One of `weight` requests at a random place, since clients have rhythms of their own.
        place = (self._place + 5) % self.weight
        distance = self.weight + place - self._place
        self._place = place
        self._filled += distance
        self.tickets.append(True)
        self.tickets += [False] * (distance - 1)


class RequestTimes:
    """Owned by the broker's thread. Totals by API since the broker's start."""

    def __init__(self, stats: MmapStats, apis: Iterable[ApiKey | OwnApiKey]) -> None:
        self._stats = stats
        self._names = {int(api): kafka_api_name(api.name) for api in apis}
        self._rows = {api: stats.request_row(name) for api, name in self._names.items()}
        self._numbers = {api: [0] * (PARTS * HISTOGRAM_NUMBERS) for api in self._rows}
        self._changed: set[int] = set()
        self._grown: set[int] = set()
        """The APIs that have changed since `take_grown`."""

    def note(
        self,
        api: int,
        weight: int,
        arrived_ns: int,
        began_ns: int,
        handled_ns: int,
        answered_ns: int,
        throttle_ms: int,
        sending_ns: int,
        sent_ns: int,
    ) -> None:
        """Add a finished request that stands for `weight` requests.

        Monotonic times: it arrived, the thread began it, the thread had no more to do for now, the
        response was complete, it was first sent, all of it was sent.
        """
        self._changed.add(api)
        numbers = self._numbers[api]
        at = 0
        for duration_ns in (  # in the order of REQUEST_PARTS
            sent_ns - arrived_ns,
            began_ns - arrived_ns,
            handled_ns - began_ns,
            answered_ns - handled_ns,
            throttle_ms * 1_000_000,
            sending_ns - answered_ns,
            sent_ns - sending_ns,
        ):
            if duration_ns >= 1_000:
                duration_us = duration_ns // 1_000
                bucket = duration_us.bit_length()
                numbers[at] += weight * duration_us
                numbers[at + 1 + (bucket if bucket < _LAST else _LAST)] += weight
            else:
                numbers[at + 1] += weight
            at += HISTOGRAM_NUMBERS

    def store(self) -> None:
        """Write changed times into the stats file; called at the end of each tick."""
        for api in self._changed:
            self._stats.write_times(self._rows[api], self._numbers[api])
        self._grown |= self._changed
        self._changed.clear()

    def take_grown(self) -> list[tuple[int, str, list[int]]]:
        """The APIs with timed requests since the last call, as of the last `store`.

        Of each: key, name, and the numbers of its total time, that is the sum in us and the number
        of requests in each bucket.
        """
        grown, self._grown = self._grown, set()
        return [
            (api, self._names[api], self._numbers[api][:HISTOGRAM_NUMBERS]) for api in sorted(grown)
        ]
