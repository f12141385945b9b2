"""How fast committed offsets rise, from the readings of a group while it is shown. Pure."""

from collections import OrderedDict, deque
from collections.abc import Mapping
from typing import Final

from cluster.client.topic_requests import Place

_OVER_MS: Final = 30_000
"""Consumers commit every 5 s by default: over a short time the rate would jump."""
_MIN_MS: Final = 6_000
_GROUPS_MAX: Final = 20
"""Groups whose readings are kept, the last ones that were shown."""
_READINGS_MAX: Final = 20

_Readings = deque[tuple[int, Mapping[Place, int]]]


class CommitRates:
    """Keeps the readings of the last half minute."""

    def __init__(self) -> None:
        self._groups: OrderedDict[str, _Readings] = OrderedDict()

    def rates(self, group: str, now_ms: int, committed: Mapping[Place, int]) -> dict[Place, float]:
        """Offsets per second of each partition, where enough time has passed since they were set
        back.
        """
        readings = self._groups.setdefault(group, deque(maxlen=_READINGS_MAX))
        self._groups.move_to_end(group)
        while len(self._groups) > _GROUPS_MAX:
            self._groups.popitem(last=False)
        while readings and not now_ms - _OVER_MS <= readings[0][0] <= now_ms:
            readings.popleft()
        found = {}
        for place, offset in committed.items():
            first = _oldest_below(readings, place, offset)
            if first is not None and now_ms - first[0] >= _MIN_MS:
                found[place] = (offset - first[1][place]) * 1_000 / (now_ms - first[0])
        readings.append((now_ms, committed))
        return found


def _oldest_below(
    readings: _Readings, place: Place, offset: int
) -> tuple[int, Mapping[Place, int]] | None:
    """The oldest reading of a partition from which its offset has only risen."""
    oldest = None
    for reading in reversed(readings):
        before = reading[1].get(place)
        if before is None or before > offset:
            break
        oldest, offset = reading, before
    return oldest
