"""Disks that are full: small file systems for processes, and a measured one for units."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cluster.log import directory_room
from cluster.log.files import LogFiles

MIB = 1 << 20


class SmallDisk:
    """A file system in memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / "filler"

    @property
    def free_bytes(self) -> int:
        return directory_room.disk_space(self.path).free_bytes

    def resize(self, size_bytes: int) -> None:
        """Give it another size, while it is in use."""
        subprocess.run(["mount", "-o", f"remount,size={size_bytes}", str(self.path)], check=True)

    def fill(self, left_bytes: int) -> None:
        """Somebody else's file takes all but so much."""
        with self._filler.open("wb") as file:
            size = max(0, self.free_bytes - left_bytes)
            if size:
                os.posix_fallocate(file.fileno(), 0, size)

    def empty(self) -> None:
        """That file is gone."""
        self._filler.unlink(missing_ok=True)


@contextmanager
def mounted(path: Path, size_bytes: int) -> Iterator[SmallDisk]:
    """A small file system at a path; the test is skipped where none can be mounted."""
    path.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(path)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a small disk, and only where mounting is allowed")
    try:
        yield SmallDisk(path)
    finally:
        # Lazily: a process that has not ended yet may have files open there.
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def space_of(free_bytes: int, total_bytes: int) -> os.statvfs_result:
    """What `os.statvfs` says of a file system of this size."""
    return os.statvfs_result((1, 1, total_bytes, free_bytes, free_bytes, 0, 0, 0, 0, 255))


class MeasuredDisk:
    """A stand-in for what the system reports about a file system."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, total_bytes: int) -> None:
        self.space = space_of(total_bytes, total_bytes)
        monkeypatch.setattr(LogFiles, "space", staticmethod(lambda _path: self.space))

    def leave(self, free_bytes: int) -> None:
        """So much is free now."""
        self.space = space_of(free_bytes, self.space.f_blocks)
