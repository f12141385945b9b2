"""A lock that its holder's death releases: one supervisor per data directory."""

import fcntl
import os
from pathlib import Path


def hold_lock(path: Path) -> int | None:
    """A descriptor that holds the lock until closed everywhere; None if somebody else does."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def is_locked(path: Path) -> bool:
    """Whether somebody holds it now."""
    try:
        descriptor = hold_lock(path)
    except FileNotFoundError:
        return False
    if descriptor is None:
        return True
    os.close(descriptor)
    return False
