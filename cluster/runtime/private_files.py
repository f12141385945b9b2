"""Files that nobody but their owner may read: keys, passwords."""

import os
from contextlib import suppress
from pathlib import Path


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
