"""Kafka's `throttle-time` of a client: the mean throttle time of the last seconds. Pure."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from cluster.metrics.stats_reader import Stats

SPAN_MS: Final = 10_000
"""About Kafka's window: quota.window.num times quota.window.size.seconds."""
_STEP_MS: Final = 2_000

Key = tuple[str, str, str]
"""Quota, user, client id."""


class _Reading(NamedTuple):
    process: tuple[int, int]
    """Process id and start, which differ after a restart."""
    written_ms: int
    throttled: Mapping[Key, tuple[int, float]]
    """The number of throttled requests, and the sum of their throttle times."""


class RecentThrottles:
    """The throttled requests of the last seconds, by broker.

    Several threads may use it: a broker's readings are replaced as a whole.
    """

    def __init__(self) -> None:
        self._kept: dict[int, tuple[_Reading, ...]] = {}

    def means(self, broker: int, stats: Stats) -> dict[Key, float]:
        """Take in a reading, and return the mean throttle times in milliseconds of its clients.

        They cover the requests throttled since a reading some `SPAN_MS` ago, or since the previous
        one if that is older; without one, since each row began. Clients without throttled requests
        are left out.
        """
        process = (stats.pid, stats.started_wall_ms)
        now_ms = stats.written_ms
        throttled = {
            (row.quota, row.user, row.client_id): (row.throttled, row.throttle_ms)
            for row in stats.rows
            if row.throttled
        }
        kept = tuple(each for each in self._kept.get(broker, ()) if each.process == process)
        while len(kept) > 1 and kept[1].written_ms <= now_ms - SPAN_MS:
            kept = kept[1:]
        before = kept[0].throttled if kept and kept[0].written_ms < now_ms else {}
        if not kept or now_ms - kept[-1].written_ms >= _STEP_MS:
            kept += (_Reading(process, now_ms, throttled),)
        self._kept[broker] = kept
        means: dict[Key, float] = {}
        for key, (count, sum_ms) in throttled.items():
            count_before, sum_before_ms = before.get(key, (0, 0.0))
            if count_before > count:  # the row belonged to another client before
                count_before, sum_before_ms = 0, 0.0
            if count > count_before:
                means[key] = (sum_ms - sum_before_ms) / (count - count_before)
        return means
