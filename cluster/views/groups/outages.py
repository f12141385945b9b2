"""When brokers could not answer, from the supervisor's events. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from cluster.model.event_kinds import EventKind

_BROKER: Final = "broker "
_SERVES: Final = (EventKind.START, EventKind.RESUME)
_GOES: Final = (
    *(EventKind.DEATH, EventKind.STOP, EventKind.FAILURE),
    *(EventKind.RESTART, EventKind.SIGNAL),
)


class Outage(NamedTuple):
    """A time in which a broker answered nobody; wall-clock milliseconds."""

    broker: int
    from_ms: int
    until_ms: int | None
    """None: it still does not answer."""
    was_paused: bool
    """If not, its process was ended or started."""

    def overlaps(self, from_ms: int, until_ms: int) -> bool:
        """Whether any of it lies in that time."""
        return self.from_ms <= until_ms and (self.until_ms is None or self.until_ms >= from_ms)

    def __str__(self) -> str:
        what = "paused" if self.was_paused else "down"
        return f"broker {self.broker} {'is' if self.until_ms is None else 'was'} {what}"


def outages(events: Iterable[Mapping[str, Any]]) -> list[Outage]:
    """The outages of brokers in the events of `status`, which are in order of time."""
    begun: dict[int, Outage] = {}
    found: list[Outage] = []
    for event in events:
        process, kind, at_ms = str(event.get("process")), event.get("kind"), int(event["ts"])
        number = process.removeprefix(_BROKER)
        if not process.startswith(_BROKER) or not number.isdecimal():
            continue
        broker = int(number)
        is_paused, is_gone = kind == EventKind.PAUSE, kind in _GOES
        ends = kind in _SERVES
        before = begun.get(broker)
        if before is not None and (ends or (is_gone and before.was_paused)):
            found.append(begun.pop(broker)._replace(until_ms=at_ms))
        if (is_paused or is_gone) and broker not in begun:
            begun[broker] = Outage(broker, at_ms, None, is_paused)
    return sorted([*found, *begun.values()], key=lambda each: each.from_ms)
