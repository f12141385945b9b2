"""Who brokers, supervisor and tools are to a built-in registry that requires logins.

One line, `sasl:USER:PASSWORD`, in a file of mode 0600; with the file there, the registry of that
data directory requires this login. A cluster has it as soon as its own clients log in or are held
by ACLs: whoever may write to the registry could add a user, or an ACL.
"""

import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from cluster.config import broker as keys
from cluster.config.snapshot import Settings
from cluster.coordinator.registry.client.registry_access import NOBODY, SASL, RegistryAccess
from cluster.model.errors import UserError
from cluster.runtime.installation import shown
from cluster.runtime.private_files import read_private
from cluster.supervisor.listener_plan import ListenerPlan
from cluster.supervisor.plan import DataDir

_USER: Final = "milena"
_PASSWORD_BYTES: Final = 24


def guards_clients(texts: Mapping[str, str], listeners: ListenerPlan) -> bool:
    """Whether clients of brokers with these settings log in or are held by ACLs. Raises
    SettingError.
    """
    authorizer = keys.AUTHORIZER_CLASS_NAME
    if authorizer.parse(authorizer.name, texts.get(authorizer.name, "")):
        return True
    return any(protocol.has_sasl for protocol in listeners.protocols(texts))


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


def own_access(
    files: DataDir, texts: Mapping[str, str], note: Callable[[str], None], *, is_guarded: bool
) -> RegistryAccess:
    """Who brokers are to the data directory's registry: somebody where it requires logins."""
    kept = registry_access(files.registry_auth_file)
    own = new_registry_access() if is_guarded and kept == NOBODY else kept
    if own != NOBODY and not is_guarded:
        note(
            f"The registry still takes logins only, by {shown(files.registry_auth_file)}, which a"
            " start with SASL or ACLs made: remove that file while the cluster is stopped to let"
            " everybody in."
        )
    if own != NOBODY and keys.REGISTRY_AUTH.name in texts:
        raise UserError(
            f"{keys.REGISTRY_AUTH.name} is for another registry than the one of {files.path}, which"
            " has a login of its own: leave it out"
        )
    return own


def close_to_others(files: DataDir, own: RegistryAccess) -> None:
    """What clients have to log in for, or need a right for, is not to be had from the files, nor
    at the registry. Raises UserError.
    """
    try:
        files.path.chmod(0o700)
        if own != NOBODY:
            keep_registry_access(files, own)
    except OSError as problem:
        raise UserError(f"cannot use {files.path}: {problem.strerror}") from None


def open_registry_warning(settings: Settings) -> str | None:
    """What is wrong where clients log in or are held by ACLs and a registry of others, with what
    makes them, takes everybody; None where nothing is. For settings whose `guards_clients` holds.
    """
    where = settings[keys.ZOOKEEPER_CONNECT]
    has_login = settings[keys.REGISTRY_AUTH] is not None
    if has_login and settings[keys.ZOOKEEPER_SET_ACL]:
        return None
    if (
        settings[keys.ZOOKEEPER_SSL_CLIENT_ENABLE]
        and settings[keys.ZOOKEEPER_SSL_KEYSTORE_LOCATION]
    ):
        return None  # brokers have a certificate there, so that others may be asked for one too
    missing = "zookeeper.set.acl=true" if has_login else "milena.registry.auth"
    return (
        f"WARNING: whoever reaches {where} can make users and ACLs of this cluster, and so be"
        f" anybody: set {missing}"
        + ("" if has_login else " and zookeeper.set.acl=true, or let it require logins")
        + "."
    )
