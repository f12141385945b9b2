"""The known damage of one log: each place is logged once and reported for repair."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from cluster.model.errors import ErrorCode, Refused

_log = logging.getLogger(__name__)

_KEPT_MOST: Final = 1_000
"""Damaged places remembered per log: a file that is all damage has very many."""


class DamagedBatch(Refused):
    """The requested batch is damaged on this broker's disk."""

    def __init__(self, path: Path, position: int) -> None:
        super().__init__(ErrorCode.corrupt_message, f"{path} is damaged at byte {position}")
        self.position = position


class Damage(NamedTuple):
    """A range of a segment that does not hold the expected batch."""

    base_offset: int
    """The segment's."""
    position: int
    offset: int
    """The first one that may be missing."""
    defect: str


class DamageLog:
    """The damaged places of one log. Owned by the log's thread.

    Invariant: each place is reported once, until it is forgotten.
    """

    __slots__ = ("_found", "_on_new", "is_being_repaired")

    def __init__(self, on_new: Callable[[Damage], None] | None = None) -> None:
        """`on_new` is called with each damage that is not known yet."""
        self._found: dict[tuple[int, int], Damage] = {}
        self._on_new = on_new
        self.is_being_repaired = False
        """Whether fetches of the damaged offsets should wait, because a repair is under way."""

    def __iter__(self) -> Iterator[Damage]:
        """Iterate over the current damage."""
        return iter(list(self._found.values()))

    def __len__(self) -> int:
        """The number of damaged places."""
        return len(self._found)

    def knows(self, base_offset: int, position: int) -> bool:
        """Whether a place was already reported."""
        return (base_offset, position) in self._found

    def note(self, path: Path, damage: Damage) -> None:
        """Log and report a damaged place, unless it is already known."""
        key = damage.base_offset, damage.position
        if key in self._found or len(self._found) >= _KEPT_MOST:
            return
        self._found[key] = damage
        _log.error(
            "%s is damaged at byte %d, offset %d; the damaged batch is not served: %s",
            path,
            damage.position,
            damage.offset,
            damage.defect,
        )
        if self._on_new is not None:
            self._on_new(damage)

    def forget(self, base_offset: int, start: int = 0, end: int = 2**63) -> None:
        """Forget the damage in a range of one segment, which may be repaired; it is checked
        again."""
        for key in [k for k in self._found if k[0] == base_offset and start <= k[1] < end]:
            del self._found[key]
