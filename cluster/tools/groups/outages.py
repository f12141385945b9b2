"""When brokers could not answer, from the supervisor's events. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

_BROKER: Final = "broker "
_PAUSED: Final = "is paused "
_RESUMED: Final = "is resumed "
_RUNS: Final = ("is running",)
_GOES: Final = ("was killed ", "ended ", "is gone", "is restarted ", "is sent SIG", "could not ")


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
        process, text, at_ms = str(event["process"]), str(event["text"]), int(event["ts"])
        number = process.removeprefix(_BROKER)
        if not process.startswith(_BROKER) or not number.isdecimal():
            continue
        broker = int(number)
        is_paused, is_gone = text.startswith(_PAUSED), text.startswith(_GOES)
        ends = text.startswith((_RESUMED, *_RUNS))
        before = begun.get(broker)
        if before is not None and (ends or (is_gone and before.was_paused)):
            found.append(begun.pop(broker)._replace(until_ms=at_ms))
        if (is_paused or is_gone) and broker not in begun:
            begun[broker] = Outage(broker, at_ms, None, is_paused)
    return sorted([*found, *begun.values()], key=lambda each: each.from_ms)
