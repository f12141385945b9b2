"""Notices if the data directory of a running cluster is removed or replaced.

Without its lock and its socket, no command can stop a supervisor, and another `start` could run a
second cluster on the same data. Therefore the supervisor has to stop.
"""

import os
from pathlib import Path
from typing import NamedTuple

from cluster.datadir.paths import DataDir


class _Identity(NamedTuple):
    device: int
    inode: int


class DirectoryWatch:
    """The paths of the data directory that a supervisor depends on, as they were when the watch was
    created: the directory, the lock and the control socket.
    """

    def __init__(self, files: DataDir) -> None:
        """Raises OSError unless all of them exist."""
        self._held = {
            path: _identity(path.stat())
            for path in (files.path, files.lock_file, files.control_socket)
        }

    def lost(self) -> Path | None:
        """The first path that was removed or replaced, the outermost one first."""
        for path, held in self._held.items():
            try:
                found = _identity(path.stat())
            except (FileNotFoundError, NotADirectoryError):
                return path
            except OSError:
                continue  # the path cannot be examined, which proves nothing
            if found != held:
                return path
        return None


def _identity(status: os.stat_result) -> _Identity:
    return _Identity(status.st_dev, status.st_ino)
