"""Looks at transactional ids periodically, some in each turn. Pure."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from cluster.model.clocks import Moment, MonotonicMs

IDS_PER_TICK: Final = 500


class Sweep:
    """Calls a function for each id of a collection, once per interval."""

    def __init__(
        self,
        ids: Callable[[], Iterable[str]],
        look_at: Callable[[str, Moment], None],
        interval_ms: Callable[[], int],
    ) -> None:
        self._ids = ids
        self._look_at = look_at
        self._interval_ms = interval_ms
        self.due_ms: MonotonicMs | None = None
        """When `work` has something to do."""
        self._left: Iterator[str] | None = None
        """Ids that are still to be looked at; None between two sweeps."""

    def start(self, now: Moment) -> None:
        """Schedule the first sweep after one interval."""
        self.due_ms = MonotonicMs(now.monotonic_ms + self._interval_ms())

    def work(self, now: Moment) -> None:
        """Do a part of the sweep if it is due."""
        if self.due_ms is None or now.monotonic_ms < self.due_ms:
            return
        if self._left is None:
            self._left = iter(list(self._ids()))
        for number, transactional_id in enumerate(self._left, start=1):
            self._look_at(transactional_id, now)
            if number == IDS_PER_TICK:
                self.due_ms = now.monotonic_ms
                return
        self._left = None
        self.start(now)
