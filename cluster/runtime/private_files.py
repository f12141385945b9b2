"""Files that nobody but their owner may read: keys, passwords."""

import os
import stat
from contextlib import suppress
from pathlib import Path

from cluster.model.errors import UserError


def other_readers(status: os.stat_result) -> str | None:
    """Who can read a file besides its owner: `everybody` or `its group`; None: nobody.

    A group may read what belongs to somebody else, who lets this process read in that way (as
    PostgreSQL takes keys that root owns). Pipes and devices are nobody's matter.
    """
    if not stat.S_ISREG(status.st_mode):
        return None
    if status.st_mode & stat.S_IROTH:
        return "everybody"
    if status.st_mode & stat.S_IRGRP and status.st_uid == os.geteuid():
        return "its group"
    return None


def check_private(path: Path | str, status: os.stat_result, what: str) -> None:
    """Raise UserError with a line for the owner of a file whose secret others can read."""
    readers = other_readers(status)
    if readers is not None:
        mode = stat.S_IMODE(status.st_mode)
        raise UserError(
            f"{readers} can read {what} in {path} (mode {mode:04o}): run `chmod 600 {path}`"
        )


def read_private(path: Path, what: str) -> bytes:
    """What is in a file for its owner alone. Raises OSError, and UserError as `check_private`."""
    with path.open("rb") as file:
        check_private(path, os.fstat(file.fileno()), what)
        return file.read()


def private_directory(path: Path) -> None:
    """Make it with mode 0700, or give it that mode. Raises OSError."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)


def write_private(path: Path, content: bytes | str) -> None:
    """Replace a file atomically by one of mode 0600. Raises OSError."""
    data = content.encode() if isinstance(content, str) else content
    draft = path.with_name(f"{path.name}.new")
    with suppress(FileNotFoundError):  # of a writer that was killed
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
