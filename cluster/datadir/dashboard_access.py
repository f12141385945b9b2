"""Who may use the dashboard: the password in the data directory, and where none is needed."""

import os
import secrets
from pathlib import Path
from typing import Final

from cluster.model.addresses import LOOPBACK
from cluster.model.errors import UserError

USER: Final = "milena"
"""The only user of a dashboard that asks for a password."""
LOOPBACK_NAMES: Final = frozenset({LOOPBACK, "localhost", "::1"})
"""Addresses to listen on that no other machine reaches."""


def needs_password(host: str, *, is_guarded: bool) -> bool:
    """Whether a dashboard that listens there asks for a password.

    That of a cluster whose clients log in or are held by ACLs does everywhere: it shows what they
    do, can kill brokers and in a secure cluster is the administrator, and every user of this
    machine reaches loopback.
    """
    return is_guarded or host not in LOOPBACK_NAMES


def dashboard_password(path: Path) -> str:
    """The password, made when there is none yet, in a file that only its owner can read.

    Raises UserError when the file can be neither read nor written.
    """
    try:
        return _kept(path) or _made(path)
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is not text"
        raise UserError(f"cannot use {path}: {reason}: remove it to have another made") from None


def _kept(path: Path) -> str:
    if not path.exists():
        return ""
    path.chmod(0o600)  # whoever wrote it by hand may have forgotten
    return path.read_text("utf-8").strip()


def _made(path: Path) -> str:
    password = secrets.token_urlsafe()
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{password}\n")
    draft.replace(path)
    return password
