"""A lock that the kernel releases when its holder dies: one supervisor per data directory."""

import fcntl
import os
from pathlib import Path


def hold_lock(path: Path) -> int | None:
    """Take the lock. Returns a descriptor that holds it until all copies of it are closed.

    Returns None if another process holds the lock.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def is_locked(path: Path) -> bool:
    """Whether some process holds the lock now."""
    try:
        descriptor = hold_lock(path)
    except FileNotFoundError:
        return False
    if descriptor is None:
        return True
    os.close(descriptor)
    return False
