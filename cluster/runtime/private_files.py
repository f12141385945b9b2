"""Files that only their owner may read: keys and passwords."""

import os
import stat
from contextlib import suppress
from pathlib import Path

from cluster.model.errors import UserError


def other_readers(status: os.stat_result) -> str | None:
    """Who besides the owner can read a file: `everybody`, `its group` or None.

    A group may read a file that belongs to another user, who grants this process access that way
    (as PostgreSQL accepts keys that root owns). Pipes and devices are not checked.
    """
    if not stat.S_ISREG(status.st_mode):
        return None
    if status.st_mode & stat.S_IROTH:
        return "everybody"
    if status.st_mode & stat.S_IRGRP and status.st_uid == os.geteuid():
        return "its group"
    return None


def check_private(path: Path | str, status: os.stat_result, what: str) -> None:
    """Raise UserError with instructions if others can read a secret file."""
    readers = other_readers(status)
    if readers is not None:
        mode = stat.S_IMODE(status.st_mode)
        raise UserError(
            f"{readers} can read {what} in {path} (mode {mode:04o}): run `chmod 600 {path}`"
        )


def read_private(path: Path, what: str) -> bytes:
    """Read a file that only its owner may read. Raises OSError, and UserError as
    `check_private`."""
    with path.open("rb") as file:
        check_private(path, os.fstat(file.fileno()), what)
        return file.read()


def private_directory(path: Path) -> None:
    """Create a directory with mode 0700, or change its mode. Raises OSError."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)


def write_private(path: Path, content: bytes | str) -> None:
    """Replace a file atomically, with mode 0600. Raises OSError."""
    data = content.encode() if isinstance(content, str) else content
    draft = path.with_name(f"{path.name}.new")
    with suppress(FileNotFoundError):  # left by a killed writer
        draft.unlink()
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        with suppress(OSError):
            draft.unlink()
        raise
