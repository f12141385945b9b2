"""How long requests take, and which part of that is due to what: Kafka's RequestMetrics.

Timing one takes some 2 us, so under load only a sample is timed (docs/decisions/038). Pure, apart
from stores into the stats file's memory.
"""

from collections.abc import Callable, Iterable
from itertools import cycle
from typing import Final

from cluster.metrics.histogram import BUCKETS
from cluster.metrics.kafka_names import kafka_api_name
from cluster.metrics.mmap_stats import MmapStats
from cluster.metrics.stats_layout import HISTOGRAM_NUMBERS, PARTS
from cluster.protocol.api import ApiKey, OwnApiKey

TIMED_MAX: Final = 1_000
"""Of a tick (a quarter of a second): when more were timed, a smaller share is in the next one."""
_TIMED_FEW: Final = TIMED_MAX // 8
STEP: Final = 4
WEIGHT_MAX: Final = STEP**3
_LAST: Final = BUCKETS - 1


class RequestTimes:
    """Owned by the broker's thread. Totals since it began, by API."""

    def __init__(self, stats: MmapStats, apis: Iterable[ApiKey | OwnApiKey]) -> None:
        self._stats = stats
        self._rows = {int(api): stats.request_row(kafka_api_name(api.name)) for api in apis}
        self._numbers = {api: [0] * (PARTS * HISTOGRAM_NUMBERS) for api in self._rows}
        self._changed: set[int] = set()
        self._timed_count = 0
        self.weight = 1
        """For how many requests one that is chosen stands."""
        self.is_chosen: Callable[[], bool] = cycle((True,)).__next__
        """Whether the next request is to be timed."""

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
        """A request that was chosen is over. Monotonic times: it had arrived, the thread began with
        it, had no more to do for now, had its answer, tried to send that first, had sent it.
        """
        self._timed_count += 1
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
        self._changed.clear()
        count, self._timed_count = self._timed_count, 0
        if count > TIMED_MAX and self.weight < WEIGHT_MAX:
            self.choose_one_of(self.weight * STEP)
        elif count < _TIMED_FEW and self.weight > 1:
            self.choose_one_of(self.weight // STEP)

    def choose_one_of(self, weight: int) -> None:
        """One of `weight`, at another place each time, as clients have rhythms too."""
        self.weight = weight
        pattern = [
            place == (5 * group + 3) % weight for group in range(weight) for place in range(weight)
        ]
        self.is_chosen = cycle(pattern).__next__
