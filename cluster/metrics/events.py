"""Events on a broker, kept until they are written as metric records. Pure.

They are rare and explain the numbers beside them: a broker left, a leader was elected, a quota was
set. Each is noted where it is decided, and written with the broker's next records.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from cluster.metrics.declarations import OTHER
from cluster.model.printable import one_line

DETAIL_MAX_CHARACTERS: Final = 500
SUBJECT_MAX_BYTES: Final = 32_767
"""Topics and groups have no longer names; an entity with two long names is cut."""
EVENTS_MAX: Final = 100
"""Events of one kind that are noted one by one in an interval; the rest is counted.

The bound holds for each kind by itself: a broker's failure causes a thousand elections, and is
noted after them."""


class EventKind(StrEnum):
    """The value is the `event` of the metric record."""

    BROKER_UP = "broker-up"
    BROKER_DOWN = "broker-down"
    CONTROLLER = "controller"
    ELECTION = "election"
    ISR_SHRINK = "isr-shrink"
    ISR_EXPAND = "isr-expand"
    REASSIGNMENT = "reassignment"
    QUOTA = "quota"
    REBALANCE = "rebalance"


@dataclass(frozen=True, slots=True)
class Event:
    """`count` events of one kind that happened to `subject` at the same time."""

    kind: EventKind
    subject: str
    detail: str
    """A single line."""
    count: int


class EventLog:
    """The events since they were last taken; one per broker, used by its thread.

    It is bounded even if nobody takes them: beyond 100 events of a kind, the rest becomes one event
    with a count and no subject.
    """

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._noted: Counter[EventKind] = Counter()
        self._others: Counter[EventKind] = Counter()

    def has_room(self, kind: EventKind) -> bool:
        """Whether the next event of a kind will keep its detail; if not, the detail need not be
        made.
        """
        return self._noted[kind] < EVENTS_MAX

    def note(self, kind: EventKind, subject: str, detail: str, count: int = 1) -> None:
        """Note an event that happened just now."""
        if not self.has_room(kind):
            self._others[kind] += count
            return
        self._noted[kind] += 1
        if len(subject) > SUBJECT_MAX_BYTES // 4:
            subject = _cut(subject)
        self._events.append(Event(kind, subject, shortened(detail), count))

    def take(self) -> list[Event]:
        """Remove and return the events since the last call, oldest first."""
        events, self._events = self._events, []
        others, self._others = self._others, Counter()
        self._noted.clear()
        return events + [
            Event(kind, OTHER, f"more than {EVENTS_MAX} events at once", count)
            for kind, count in others.items()
        ]


def shortened(text: str) -> str:
    """The text on one line, cut to the length of a detail."""
    line = one_line(text[: DETAIL_MAX_CHARACTERS + 1], None)
    if len(line) <= DETAIL_MAX_CHARACTERS:
        return line
    return line[: DETAIL_MAX_CHARACTERS - 3] + "..."


def listed(items: Iterable[str], count: int) -> str:
    """Name as many of the `count` items as fit into a detail, and the number of the others.

    Takes at most one item more than it names.
    """
    room = DETAIL_MAX_CHARACTERS - len(f", and {count} more")
    text = ""
    named = 0
    for item in items:
        longer = f"{text}, {item}" if text else item
        if len(longer) > room:
            break
        text = longer
        named += 1
    if named == count:
        return text
    return f"{text}, and {count - named} more" if named else f"{count} of them"


def _cut(subject: str) -> str:
    return subject.encode("utf-8", "replace")[:SUBJECT_MAX_BYTES].decode("utf-8", "ignore")
