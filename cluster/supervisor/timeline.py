"""The most recent events of a cluster's processes, for `status --json`. Pure."""

from collections import deque
from typing import Any, Final

from cluster.model.clocks import WallMs

EVENTS_MAX: Final = 200
"""The limit of kept events; older ones are only in the supervisor's log."""


class Timeline:
    """Owned by the supervisor. Bounded: the newest event evicts the oldest."""

    def __init__(self, at_most: int = EVENTS_MAX) -> None:
        self._events: deque[dict[str, Any]] = deque(maxlen=at_most)

    def add(self, now_ms: WallMs, process: str, text: str) -> None:
        """`text` continues the name of the process: `was killed by SIGKILL`."""
        self._events.append({"ts": now_ms, "process": process, "text": text})

    def to_json(self) -> list[dict[str, Any]]:
        """The events, oldest first; `ts` is in milliseconds since 1970."""
        return list(self._events)
