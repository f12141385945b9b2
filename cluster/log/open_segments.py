"""How many closed segments of this process may be open at once, whatever their number on disk.

An open segment costs up to three descriptors and two mappings: the log and its index are mapped,
and Python keeps a descriptor for each mapping. Linux allows 65,530 mappings in a process.
"""

import resource
import weakref
from collections import OrderedDict
from typing import Final, Protocol

MOST_OPEN: Final = 1024
_DESCRIPTORS_EACH: Final = 3
_SHARE_OF_DESCRIPTORS: Final = 4
"""A quarter of what the process may open is for closed segments."""


class Releasable(Protocol):
    """A closed segment."""

    def release(self) -> None:
        """Close what is open of it; it opens again when it is read."""
        ...


class OpenSegments:
    """Which closed segments are open: when there are too many, who was opened first goes.

    Whoever reads a segment at that moment keeps its file until it is done. Not the least recently
    used, so that a read of an open segment costs nothing; opening one again takes some 30 us.
    """

    def __init__(self, most: int | None = None) -> None:
        """By default 1,024, or fewer where the process may have few descriptors."""
        self.most = most
        """None until the first one is opened."""
        self._open: OrderedDict[weakref.ref[Releasable], None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def on_opened(self, segment: weakref.ref[Releasable]) -> None:
        """A closed segment was opened, or mapped besides."""
        if segment in self._open:
            return
        self._open[segment] = None
        while len(self._open) > self._limit():
            released = self._open.popitem(last=False)[0]()
            if released is not None:
                released.release()

    def forget(self, segment: weakref.ref[Releasable]) -> None:
        """It is gone, or written to again; nothing happens for one that is not open.

        On any thread: a deleted segment ends where its files are removed.
        """
        self._open.pop(segment, None)

    def _limit(self) -> int:
        if self.most is None:
            allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            self.most = max(
                16, min(MOST_OPEN, allowed // _DESCRIPTORS_EACH // _SHARE_OF_DESCRIPTORS)
            )
        return self.most


OPEN_SEGMENTS: Final = OpenSegments()
"""Of this process: the limits are of processes."""
