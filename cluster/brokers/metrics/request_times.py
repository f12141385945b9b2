"""How many requests there are, how long they take, and which part of that is due to what: Kafka's
RequestMetrics.

Timing one takes some 2 us, so under load only a sample is timed (docs/decisions/038). Pure, apart
from stores into the stats file's memory.
"""

from collections.abc import Iterable
from typing import Final

from cluster.metrics.histogram import BUCKETS
from cluster.metrics.kafka_names import kafka_api_name
from cluster.metrics.mmap_stats import MmapStats
from cluster.metrics.stats_layout import HISTOGRAM_NUMBERS, PARTS
from cluster.protocol.api import ApiKey, OwnApiKey

TIMED_MAX: Final = 64
"""Of one kind of request in a tick (a quarter of a second): from then on a smaller share is."""
_TIMED_FEW: Final = TIMED_MAX // 8
_STEP: Final = 4
WEIGHT_MAX: Final = _STEP**4
_LAST: Final = BUCKETS - 1


class RequestKind:
    """Requests of one API in one version: counts them, and chooses those to be timed.

    On the path of each request this is one call, `tickets.pop()`: what was handed out and is not
    there any more is the count.
    """

    __slots__ = ("_filled", "_place", "_taken", "_timed", "api", "tickets", "weight")

    def __init__(self, api: int) -> None:
        self.api = api
        self.tickets = [True]
        """The last one is the next request's: whether it is to be timed. `on_timed` fills it up
        then, so it is never empty when a request comes."""
        self.weight = 1
        """For how many requests one that is chosen stands."""
        self._place = 0
        self._filled = 1
        self._taken = 0
        self._timed = 0
        """Since the weight was changed, or the tick began."""

    def on_timed(self) -> int:
        """The request whose ticket was True is timed. Returns how many it stands for."""
        weight = self.weight
        self._timed += 1
        if self._timed > TIMED_MAX and weight < WEIGHT_MAX:
            self._weigh(weight * _STEP)
        else:
            self._fill()
        return weight

    def take_count(self) -> int:
        """How many requests there were since the last call; at the end of each tick."""
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
        # Of each `weight` requests one, at another place each time, as clients have rhythms too.
        place = (self._place + 5) % self.weight
        distance = self.weight + place - self._place
        self._place = place
        self._filled += distance
        self.tickets.append(True)
        self.tickets += [False] * (distance - 1)


class RequestTimes:
    """Owned by the broker's thread. Totals since it began, by API."""

    def __init__(self, stats: MmapStats, apis: Iterable[ApiKey | OwnApiKey]) -> None:
        self._stats = stats
        self._names = {int(api): kafka_api_name(api.name) for api in apis}
        self._rows = {api: stats.request_row(name) for api, name in self._names.items()}
        self._numbers = {api: [0] * (PARTS * HISTOGRAM_NUMBERS) for api in self._rows}
        self._changed: set[int] = set()
        self._grown: set[int] = set()
        """Those that have changed since `take_grown`."""

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
        """A request that was chosen, and stands for `weight`, is over. Monotonic times: it had
        arrived, the thread began with it, had no more to do for now, had its answer, tried to send
        that first, had sent it.
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
        """Write what has changed into the stats file; at the end of each tick."""
        for api in self._changed:
            self._stats.write_times(self._rows[api], self._numbers[api])
        self._grown |= self._changed
        self._changed.clear()

    def take_grown(self) -> list[tuple[int, str, list[int]]]:
        """Key, name and the numbers of the total time of APIs with timed requests since the last
        call, as of the last `store`: the sum in us, then how many requests fell into each bucket.
        """
        grown, self._grown = self._grown, set()
        return [
            (api, self._names[api], self._numbers[api][:HISTOGRAM_NUMBERS]) for api in sorted(grown)
        ]
