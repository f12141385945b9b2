"""Samples the brokers' stats files for as long as the dashboard runs, on a thread of its own."""

import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from cluster.dashboard.live import period_s
from cluster.dashboard.sampling.group_past import GroupTrend
from cluster.dashboard.sampling.recorder import STEP_S, Recorder
from cluster.dashboard.sources import Json
from cluster.model.errors import UserError
from cluster.views.client_states import BrokerStats

log = logging.getLogger(__name__)

_EVENTS_PERIOD_S: Final = 10.0
"""How often the supervisor is asked for its events if no broker has changed its state."""


class Sampler:
    """Reads every two seconds, and less often if a reading takes more than a thirtieth of that."""

    def __init__(
        self,
        read: Callable[[], Sequence[BrokerStats]],
        read_events: Callable[[], Sequence[Mapping[str, Any]]],
    ) -> None:
        """`read` reads the stats files; `read_events` asks the supervisor, and raises UserError if
        it does not answer.
        """
        self._recorder = Recorder(secrets.token_hex(8))
        self._read = read
        self._read_events = read_events
        self._lock = threading.Lock()
        """Guards the recorder."""
        self._asked_s = 0.0
        self._states: list[tuple[int, int, str]] | None = None

    def start(self) -> None:
        """Run until the process ends."""
        threading.Thread(target=self._run, name="sampler", daemon=True).start()

    def _run(self) -> None:
        expected_s = STEP_S
        while True:
            began_s, used_s = time.monotonic(), time.thread_time()
            try:
                self.sample(expected_s)
            except Exception:
                log.exception("a sample of the brokers' figures has failed")  # the next may differ
            expected_s = period_s(time.thread_time() - used_s, STEP_S)
            time.sleep(max(0.0, began_s + expected_s - time.monotonic()))

    def sample(self, expected_s: float = STEP_S) -> None:
        """Take one sample."""
        brokers = self._read()
        states = [(each.broker, each.stats.pid, each.state) for each in brokers]
        if states != self._states or time.monotonic() - self._asked_s > _EVENTS_PERIOD_S:
            self._states, self._asked_s = states, time.monotonic()
            try:
                self.take_events(self._read_events())
            except UserError as problem:
                log.debug("no events: %s", problem)
        with self._lock:
            self._recorder.take(_now_ms(), brokers, expected_s)

    # -- called from any thread ------------------------------------------------------------------

    def take_events(self, events: Iterable[Mapping[str, Any]]) -> None:
        with self._lock:
            self._recorder.take_events(events)

    def series(self, name: str, since_ms: int, since_event: int) -> Json:
        with self._lock:
            return self._recorder.series(name, _now_ms(), since_ms, since_event)

    def clients(self, since_ms: int, client: tuple[str, str] | None) -> Json:
        with self._lock:
            return self._recorder.clients(since_ms, client)

    def group_series(self, group: str, name: str, since_ms: int, since_event: int) -> Json:
        with self._lock:
            return self._recorder.group_series(group, name, _now_ms(), since_ms, since_event)

    def group_trends(self, groups: Iterable[str]) -> dict[str, GroupTrend]:
        with self._lock:
            return {each: self._recorder.group_trend(each) for each in groups}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
