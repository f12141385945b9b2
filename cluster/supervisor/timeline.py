"""The most recent events of a cluster's processes, for `status`, `events` and the page. Pure."""

from collections import deque
from typing import Any, Final

from cluster.model.clocks import WallMs
from cluster.model.event_kinds import EventKind

EVENTS_MAX: Final = 200
"""The limit of kept events; older ones are only in the supervisor's log."""


class Timeline:
    """Owned by the supervisor. Bounded: the newest event evicts the oldest."""

    def __init__(self, at_most: int = EVENTS_MAX) -> None:
        self._events: deque[dict[str, Any]] = deque(maxlen=at_most)
        self._count = 0

    def add(
        self, now_ms: WallMs, kind: EventKind, process: str, text: str, cause: str | None = None
    ) -> None:
        """`text` continues the name of the process: `was killed by SIGKILL`."""
        self._count += 1
        self._events.append(
            {
                "number": self._count,
                "ts": now_ms,
                "kind": kind.value,
                "subject": process,
                "process": process,
                "text": text,
                "cause": cause,
            }
        )

    def to_json(self) -> list[dict[str, Any]]:
        """The events, oldest first; `ts` is in milliseconds since 1970.

        `number` counts all events of this supervisor. `subject` is what the event is about, and
        `process` is there because that is a process.
        """
        return list(self._events)
