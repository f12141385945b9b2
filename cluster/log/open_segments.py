"""Limits how many closed segments this process keeps open, however many are on disk.

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
        """Close the files; the next read opens them again."""
        ...


class OpenSegments:
    """The open closed segments. Above the limit, the segment opened first is released.

    A reader of a segment keeps its file until it is done. Reads are not tracked, so that a read of
    an open segment costs nothing; opening one takes about 30 us.
    """

    def __init__(self, most: int | None = None) -> None:
        """`most` defaults to 1,024, or fewer if the process may have few descriptors."""
        self.most = most
        """None until the first one is opened."""
        self._open: OrderedDict[weakref.ref[Releasable], None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def on_opened(self, segment: weakref.ref[Releasable]) -> None:
        """Register a closed segment that was opened or mapped."""
        if segment in self._open:
            return
        self._open[segment] = None
        while len(self._open) > self._limit():
            released = self._open.popitem(last=False)[0]()
            if released is not None:
                released.release()

    def forget(self, segment: weakref.ref[Releasable]) -> None:
        """Remove a segment, open or not, that was freed or became active again.

        May run on any thread: the thread that removes a deleted segment's files frees it.
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
"""The only instance: the limits are those of a process."""
