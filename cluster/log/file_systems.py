"""Knows on which file systems writing zeros before an append makes the append faster."""

import os
from functools import lru_cache
from pathlib import Path
from typing import Final

_MOUNTS: Final = Path("/proc/self/mountinfo")
_GAINING: Final = frozenset(("ext2", "ext3", "ext4", "xfs"))
"""Their page cache takes large writes in large pages; memory file systems have small ones."""


def gains_from_zeros(descriptor: int) -> bool:
    """Whether copying into a mapping is faster if zeros were written there first.

    False if unknown: on other systems than Linux and on other file systems.
    """
    return _gains(os.fstat(descriptor).st_dev, _MOUNTS)


@lru_cache(maxsize=64)
def _gains(device: int, mounts: Path) -> bool:
    return file_system_of(device, mounts) in _GAINING


def file_system_of(device: int, mounts: Path = _MOUNTS) -> str | None:
    """The type of the file system on a device (`st_dev`), from Linux's mountinfo; None if unknown.

    Source: proc_pid_mountinfo(5). Field 3 is the device, the type follows the separator `-`.
    """
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        lines = mounts.read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    for line in lines:
        fields = line.split()
        if len(fields) > 3 and fields[2] == wanted and "-" in fields[:-1]:
            return fields[fields.index("-") + 1]
    return None
