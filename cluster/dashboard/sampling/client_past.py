"""The last five minutes of clients: the highest rate of a broker, and its limit. Pure."""

import math
from array import array
from collections.abc import Sequence
from typing import Any, Final

from cluster.dashboard.live_rows import Key, shown_rate
from cluster.metrics.stats_layout import QuotaRow
from cluster.views.client_states import BrokerStats

SAMPLES: Final = 150
"""Five minutes of samples, two seconds apart."""
SERIES_MAX: Final = 1_500
"""500 clients that produce, fetch and use request time. The first that come are kept, until they
have been idle for the whole time."""
SHOWN_MAX: Final = 200
"""Series in one answer, those with the highest use of their limits first."""


class _Series:
    __slots__ = ("last_used", "limits", "rates", "use")

    def __init__(self) -> None:
        self.rates = array("f", [math.nan]) * SAMPLES
        self.limits = array("f", [math.nan]) * SAMPLES
        self.last_used = 0
        self.use = 0.0


class ClientPast:
    """A value of every series at every sample, in arrays that are used in a circle."""

    def __init__(self) -> None:
        self._times: list[int] = [0] * SAMPLES
        self._count = 0
        self._series: dict[Key, _Series] = {}

    def __len__(self) -> int:
        return len(self._series)

    def add(self, now_ms: int, brokers: Sequence[BrokerStats]) -> None:
        """Add a sample of every client with a rate, and of those that had one before."""
        at = self._count % SAMPLES
        self._times[at] = now_ms
        for series in self._series.values():
            series.rates[at] = series.limits[at] = math.nan
        for key, row in _nearest(brokers).items():
            if key not in self._series:
                if row.rate <= 0 or len(self._series) >= SERIES_MAX:
                    continue
                self._series[key] = _Series()
            series = self._series[key]
            if row.rate > 0:
                series.last_used = self._count
            series.rates[at] = row.rate
            series.limits[at] = math.nan if row.limit is None else row.limit
            series.use = row.utilization or 0.0
        self._count += 1
        if at == SAMPLES - 1:
            oldest = self._count - SAMPLES
            self._series = {
                key: each for key, each in self._series.items() if each.last_used >= oldest
            }

    def to_json(self, since_ms: int, client: tuple[str, str] | None = None) -> dict[str, Any]:
        """Times, and the key, rates and limits of each series; None is a gap.

        It has all series of one client, or the `SHOWN_MAX` nearest to their limits.
        """
        first = max(0, self._count - SAMPLES)
        places = [at % SAMPLES for at in range(first, self._count)]
        places = [at for at in places if self._times[at] > since_ms]
        keys = [key for key in self._series if client is None or key[:2] == client]
        keys.sort(key=lambda key: (-self._series[key].use, key))
        return {
            "ts": [self._times[at] for at in places],
            "series": [
                [*key, _shown(key[2], each.rates, places), _shown(key[2], each.limits, places)]
                for key in keys[:SHOWN_MAX]
                for each in [self._series[key]]
            ],
        }


def _nearest(brokers: Sequence[BrokerStats]) -> dict[Key, QuotaRow]:
    """The rows of live brokers where each client is nearest to its limit, by client and quota."""
    found: dict[Key, QuotaRow] = {}
    for broker in brokers:
        if broker.is_dead:
            continue
        for row in broker.stats.rows:
            key = (row.user, row.client_id, row.quota)
            other = found.get(key)
            if other is None or _use(row) > _use(other):
                found[key] = row
    return found


def _use(row: QuotaRow) -> tuple[float, float]:
    used = row.utilization
    return -1.0 if used is None else used, row.rate


def _shown(quota: str, values: "array[float]", places: Sequence[int]) -> list[float | None]:
    found = [values[at] for at in places]
    return [None if math.isnan(value) else shown_rate(quota, value) for value in found]
