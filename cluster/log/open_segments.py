"""Limits how many closed segments this process has open at once, however many are on disk.

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
    """The open closed segments. When there are too many, the one opened first is released.

    A reader of a segment keeps its file until it is done. The least recently used segment is not
    tracked, so that a read of an open segment costs nothing; opening one takes some 30 us.
    """

    def __init__(self, most: int | None = None) -> None:
        """`most` is 1,024 by default, or fewer if the process may have few descriptors."""
        self.most = most
        """None until the first one is opened."""
        self._open: OrderedDict[weakref.ref[Releasable], None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def on_opened(self, segment: weakref.ref[Releasable]) -> None:
        """A closed segment was opened, or mapped as well."""
        if segment in self._open:
            return
        self._open[segment] = None
        while len(self._open) > self._limit():
            released = self._open.popitem(last=False)[0]()
            if released is not None:
                released.release()

    def forget(self, segment: weakref.ref[Releasable]) -> None:
        """Forget a segment that was freed or is written again; it may not be open.

        On any thread: a deleted segment is freed by the thread that removes its files.
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
