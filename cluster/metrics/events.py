"""What happened on a broker, until it is written as metric records. Pure.

Rare things that explain the numbers beside them: a broker that went, a leader that was elected, a
quota that was set. Each is noted where it is decided, and written with the broker's next records.
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
"""No topic and no group has a longer name; of an entity with two long ones the end is cut."""
EVENTS_MAX: Final = 100
"""Of each kind noted one by one in an interval; the others are counted. Not of all kinds together:
a broker that goes is the cause of a thousand elections, and noted after them."""


class EventKind(StrEnum):
    """The value is the `event` of the metric record."""

    BROKER_UP = "broker-up"
    BROKER_DOWN = "broker-down"
    CONTROLLER = "controller"
    ELECTION = "election"
    ISR_SHRINK = "isr-shrink"
    ISR_EXPAND = "isr-expand"
    QUOTA = "quota"
    REBALANCE = "rebalance"


@dataclass(frozen=True, slots=True)
class Event:
    """`count` of the same happened to `subject` at once."""

    kind: EventKind
    subject: str
    detail: str
    """One line."""
    count: int


class EventLog:
    """One per broker, used by its thread; holds what was noted since it was taken last.

    Bounded, also where nobody takes it: beyond 100 events of a kind the others are one, which
    counts them and names nobody.
    """

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._noted: Counter[EventKind] = Counter()
        self._others: Counter[EventKind] = Counter()

    def has_room(self, kind: EventKind) -> bool:
        """Whether the next event of a kind will have a name: its detail need not be made if not."""
        return self._noted[kind] < EVENTS_MAX

    def note(self, kind: EventKind, subject: str, detail: str, count: int = 1) -> None:
        """Something happened just now."""
        if not self.has_room(kind):
            self._others[kind] += count
            return
        self._noted[kind] += 1
        if len(subject) > SUBJECT_MAX_BYTES // 4:
            subject = _cut(subject)
        self._events.append(Event(kind, subject, shortened(detail), count))

    def take(self) -> list[Event]:
        """What was noted since the last call, oldest first."""
        events, self._events = self._events, []
        others, self._others = self._others, Counter()
        self._noted.clear()
        return events + [
            Event(kind, OTHER, f"more than {EVENTS_MAX} events at once", count)
            for kind, count in others.items()
        ]


def shortened(text: str) -> str:
    """The text on one line, cut where it is too long for a detail."""
    line = one_line(text[: DETAIL_MAX_CHARACTERS + 1], None)
    if len(line) <= DETAIL_MAX_CHARACTERS:
        return line
    return line[: DETAIL_MAX_CHARACTERS - 3] + "..."


def listed(items: Iterable[str], count: int) -> str:
    """The first of `count` items as far as a detail has room, and how many more there are.

    Takes no more of the items than it names, and one.
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
