"""Notices when the data directory of a running cluster is removed or replaced.

Without its lock and its socket a supervisor cannot be stopped by a command, and another `start`
could run a second cluster on the same data: it has to end.
"""

import os
from pathlib import Path
from typing import NamedTuple

from cluster.datadir.paths import DataDir


class _Identity(NamedTuple):
    device: int
    inode: int


class DirectoryWatch:
    """What a supervisor holds of its data directory, as it was when the watch was made: the
    directory itself, the lock and the control socket.
    """

    def __init__(self, files: DataDir) -> None:
        """Raises OSError unless all of them are there."""
        self._held = {
            path: _identity(path.stat())
            for path in (files.path, files.lock_file, files.control_socket)
        }

    def lost(self) -> Path | None:
        """The first of them that was removed or replaced, the outermost one first."""
        for path, held in self._held.items():
            try:
                found = _identity(path.stat())
            except (FileNotFoundError, NotADirectoryError):
                return path
            except OSError:
                continue  # it cannot be looked at now, which tells nothing
            if found != held:
                return path
        return None


def _identity(status: os.stat_result) -> _Identity:
    return _Identity(status.st_dev, status.st_ino)
