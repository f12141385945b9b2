"""Reads replicated bytes straight from the leader's page cache into our mapping (REP5).

Only for brokers of one machine. The leader may delete or truncate a file at any time, so it is read
with preadv, which then comes back short, and never mapped.
"""

import os
from collections import OrderedDict
from typing import Final

from cluster.brokers.replication.wire import FileSource

_OPEN_FILES_MAX: Final = 256


class SegmentFiles:
    """A small cache of the leaders' open segment files, least recently used first out."""

    def __init__(self) -> None:
        self._descriptors: OrderedDict[str, int] = OrderedDict()

    def read_into(self, source: FileSource, target: memoryview) -> bool:
        """Fill `target` from the file; False when it cannot be had whole."""
        try:
            descriptor = self._open(source.path)
            filled = 0
            while filled < source.size_bytes:
                count = os.preadv(descriptor, [target[filled:]], source.position + filled)
                if count == 0:
                    break
                filled += count
        except OSError:
            filled = 0
        if filled == source.size_bytes:
            return True
        self._forget(source.path)
        return False

    def close(self) -> None:
        """Close every file."""
        for path in list(self._descriptors):
            self._forget(path)

    def _open(self, path: str) -> int:
        descriptor = self._descriptors.get(path)
        if descriptor is not None:
            self._descriptors.move_to_end(path)
            return descriptor
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._descriptors[path] = descriptor
        if len(self._descriptors) > _OPEN_FILES_MAX:
            os.close(self._descriptors.popitem(last=False)[1])
        return descriptor

    def _forget(self, path: str) -> None:
        descriptor = self._descriptors.pop(path, None)
        if descriptor is not None:
            os.close(descriptor)
