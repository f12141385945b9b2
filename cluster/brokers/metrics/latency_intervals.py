"""The times of each interval's requests, derived from totals that only grow. Pure."""

from cluster.brokers.metrics.records import LatencyFigures
from cluster.brokers.metrics.request_times import RequestTimes


class LatencyIntervals:
    """Owned by the broker's thread. Does constant work for each API that had requests."""

    def __init__(self, times: RequestTimes) -> None:
        self._times = times
        self._before: dict[int, list[int]] = {}
        """By API key: the total time and the buckets as of the last call."""

    def take(self) -> list[LatencyFigures]:
        """The figures of APIs with timed requests since the last call.

        They cover the time from a request's arrival to the last byte of its response.
        """
        found = []
        for api, name, totals in self._times.take_grown():
            before = self._before.get(api) or [0] * len(totals)
            self._before[api] = totals
            total_us, *buckets = (now - then for now, then in zip(totals, before, strict=True))
            requests = sum(buckets)
            while buckets and not buckets[-1]:
                buckets.pop()
            found.append(LatencyFigures(name, requests, total_us, buckets))
        return found
