"""Whether the registry of a data directory requires logins, and what follows from it."""

from collections.abc import Callable, Mapping

from cluster.config import broker as keys
from cluster.config.snapshot import Settings
from cluster.coordinator.registry.client.registry_access import NOBODY, RegistryAccess
from cluster.datadir.paths import DataDir
from cluster.datadir.registry_auth import (
    keep_registry_access,
    new_registry_access,
    registry_access,
)
from cluster.launch.listener_plan import ListenerPlan
from cluster.model.errors import UserError
from cluster.runtime.installation import shown


def guards_clients(texts: Mapping[str, str], listeners: ListenerPlan) -> bool:
    """Whether clients of brokers with these settings log in or are held by ACLs. Raises
    SettingError.
    """
    authorizer = keys.AUTHORIZER_CLASS_NAME
    if authorizer.parse(authorizer.name, texts.get(authorizer.name, "")):
        return True
    return any(protocol.has_sasl for protocol in listeners.protocols(texts))


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
