"""What the dashboard remembers: samples at two resolutions, clients, events. Pure."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from cluster.dashboard.sampling.changes import (
    Change,
    Elections,
    LimitChanges,
    Rebalances,
    group_subject,
)
from cluster.dashboard.sampling.client_past import ClientPast
from cluster.dashboard.sampling.figures import figures, kept
from cluster.dashboard.sampling.group_past import GroupPast, GroupTrend
from cluster.dashboard.sampling.rings import Ring
from cluster.dashboard.sources import Json
from cluster.metrics.stats_reader import Stats
from cluster.views.client_states import BrokerStats
from cluster.views.group_lags import GroupLags, group_lags, shown_group

STEP_S: Final = 2.0
EVENTS_MAX: Final = 1_000
_MINUTE_S: Final = 60
RANGES_S: Final = {
    "2m": 2 * _MINUTE_S,
    "15m": 15 * _MINUTE_S,
    "1h": 60 * _MINUTE_S,
    "6h": 360 * _MINUTE_S,
}
"""The ranges that are in memory: the first two in steps of 2 s, the others in steps of 20 s."""


class _Tier:
    """A ring, and the reading that its next sample is compared with.

    Each tier compares readings of its own, so that a rate or a percentile covers the whole step.
    """

    def __init__(self, step_s: float, span_s: float) -> None:
        self.ring = Ring(step_s, span_s)
        self._former: Mapping[int, Stats] | None = None

    def take(
        self, now_ms: int, brokers: Sequence[BrokerStats], lag: float | None, expected_s: float
    ) -> None:
        if not self.ring.is_due(now_ms):
            return
        if self._former is not None:
            self.ring.add(now_ms, figures(brokers, self._former, lag), expected_s)
        self._former = kept(brokers)


class Recorder:
    """Not thread-safe. Times are in ms since 1970."""

    def __init__(self, run: str = "") -> None:
        """`run` identifies the process, in which samples and the numbers of events continue."""
        self._run = run
        self._event_count = 0
        self._fine = _Tier(STEP_S, RANGES_S["15m"])
        self._coarse = _Tier(10 * STEP_S, RANGES_S["6h"])
        self._clients = ClientPast()
        self._group_past = GroupPast()
        self._limits = LimitChanges()
        self._rebalances = Rebalances()
        self._elections = Elections()
        self._groups: tuple[list[bytes], list[GroupLags]] = ([], [])
        self._events: deque[Json] = deque(maxlen=EVENTS_MAX)
        self._newest: tuple[int, int] = (0, 0)
        """Time and number of the newest event of the supervisor."""

    def take(self, now_ms: int, brokers: Sequence[BrokerStats], expected_s: float = STEP_S) -> None:
        """Take a reading at that wall-clock time; the next one is expected after `expected_s`."""
        groups = self._groups_of(now_ms, brokers)
        lag = float(sum(each.lag for each in groups)) if groups else 0.0
        for tier in (self._fine, self._coarse):
            tier.take(now_ms, brokers, lag, expected_s)
        self._clients.add(now_ms, brokers)
        self._group_past.take(now_ms, groups)
        for change in (
            *self._limits.take(now_ms, brokers),
            *self._rebalances.take(groups),
            *self._elections.take(brokers),
        ):
            self._add_event(now_ms, change)

    def take_events(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Take the supervisor's events; those that are known are skipped."""
        for event in events:
            key = (event["ts"], event["number"])
            if key > self._newest:
                self._newest = key
                change = Change(event["kind"], event["subject"], event["text"])
                self._add_event(event["ts"], change)

    def _add_event(self, ts: int, change: Change) -> None:
        self._event_count += 1
        self._events.append({"number": self._event_count, "ts": ts, **change._asdict()})

    def _groups_of(self, now_ms: int, brokers: Sequence[BrokerStats]) -> list[GroupLags]:
        """Groups change every few seconds, and parsing them takes longer than all else."""
        texts = [each.stats.groups for each in brokers]
        if texts != self._groups[0]:
            self._groups = (texts, group_lags(brokers, now_ms))
        return self._groups[1]

    def series(self, name: str, now_ms: int, since_ms: int, since_event: int = 0) -> Json:
        """The samples of a range in `RANGES_S` after that time, and its events after that number.

        An event may become known later than samples after it: the supervisor is asked now and then.
        """
        ring = (self._fine if RANGES_S[name] <= RANGES_S["15m"] else self._coarse).ring
        return {
            **self._head(name, now_ms),
            "step_s": ring.step_s,
            **ring.to_json(max(since_ms, _begin_ms(name, now_ms))),
            "events": self._events_of(name, now_ms, since_event),
        }

    def group_series(
        self, group: str, name: str, now_ms: int, since_ms: int, since_event: int = 0
    ) -> Json:
        """The same of one group: its lag, and its rebalances."""
        since_ms = max(since_ms, _begin_ms(name, now_ms))
        subject = group_subject(shown_group(group))
        return {
            **self._head(name, now_ms),
            **self._group_past.to_json(group, RANGES_S[name], since_ms),
            "events": [
                each
                for each in self._events_of(name, now_ms, since_event)
                if each["subject"] == subject
            ],
        }

    def group_trend(self, group: str) -> GroupTrend:
        """How a group has done lately."""
        return self._group_past.trend(group)

    def _head(self, name: str, now_ms: int) -> Json:
        return {
            "range": name,
            "run": self._run,
            "from_ms": _begin_ms(name, now_ms),
            "to_ms": now_ms,
        }

    def _events_of(self, name: str, now_ms: int, since_event: int) -> list[Json]:
        begin_ms = _begin_ms(name, now_ms)
        found = [
            each for each in self._events if each["number"] > since_event and each["ts"] > begin_ms
        ]
        return sorted(found, key=lambda each: int(each["ts"]))

    def clients(self, since_ms: int, client: tuple[str, str] | None) -> Json:
        return self._clients.to_json(since_ms, client)


def _begin_ms(name: str, now_ms: int) -> int:
    return now_ms - RANGES_S[name] * 1_000
