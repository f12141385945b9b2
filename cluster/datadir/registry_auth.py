"""Who brokers, supervisor and tools are to a built-in registry that requires logins.

One line, `sasl:USER:PASSWORD`, in a file of mode 0600; with the file there, the registry of that
data directory requires this login. A cluster has it as soon as its own clients log in or are held
by ACLs: whoever may write to the registry could add a user, or an ACL.
"""

import os
import secrets
from pathlib import Path
from typing import Final

from cluster.coordinator.registry.client.registry_access import NOBODY, SASL, RegistryAccess
from cluster.datadir.paths import DataDir
from cluster.model.errors import UserError
from cluster.runtime.private_files import read_private

_USER: Final = "milena"
_PASSWORD_BYTES: Final = 24


def new_registry_access() -> RegistryAccess:
    """A login with a random password, not yet in any file."""
    return RegistryAccess(SASL, _USER, secrets.token_hex(_PASSWORD_BYTES))


def keep_registry_access(files: DataDir, access: RegistryAccess) -> None:
    """Write the login to its file, unless there is one. For who holds the lock of the data
    directory. Raises OSError.
    """
    if files.registry_auth_file.exists():
        return
    files.security.mkdir(mode=0o700, exist_ok=True)
    draft = files.registry_auth_file.with_suffix(".new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{access.text}\n")
    draft.replace(files.registry_auth_file)


def make_registry_auth(files: DataDir) -> None:
    """Choose a login and keep it, unless there is one. Raises OSError."""
    keep_registry_access(files, new_registry_access())


def registry_access(path: Path, *, is_needed: bool = False) -> RegistryAccess:
    """The identity in a file; nobody where there is no file and none is needed, which means that
    the registry takes everybody. Raises UserError for a file that others can read, or that is none.
    """
    try:
        return RegistryAccess.parse(read_private(path, "the password").decode().strip())
    except FileNotFoundError:
        if is_needed:
            raise UserError(f"there is no file {path}") from None
        return NOBODY
    except OSError as problem:
        raise UserError(f"cannot read {path}: {problem.strerror}") from None
    except ValueError as problem:
        raise UserError(f"cannot use {path}: {problem}") from None
