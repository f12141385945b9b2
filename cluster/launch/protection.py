"""How a start protects the cluster: `--secure`, a registry with TLS, files for clients."""

import platform
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from cluster.coordinator.registry.client.registry_access import NOBODY
from cluster.datadir.paths import REGISTRY_JAAS, DataDir
from cluster.datadir.registry_auth import make_registry_auth
from cluster.datadir.state_file import read_state
from cluster.launch.listener_plan import ListenerPlan
from cluster.launch.options import StartOptions
from cluster.model.addresses import LOOPBACK, is_loopback
from cluster.model.errors import UserError
from cluster.model.security import SecurityProtocol
from cluster.runtime.installation import shown
from cluster.supervisor.plan import ClusterPlan

if TYPE_CHECKING:
    from cluster.datadir.security_files import SecurityFiles


def tools_protocol(
    options: StartOptions, files: DataDir, note: Callable[[str], None]
) -> SecurityProtocol:
    """The protocol of the listener that the tools use: SASL_SSL in a secure cluster."""
    was_secure = bool((read_state(files.state_file) or {}).get("secure"))
    if not options.secure and not was_secure:
        return SecurityProtocol.PLAINTEXT
    if not options.secure:
        note(f"{shown(files.path)} holds a secure cluster; starting it with --secure.")
    return SecurityProtocol.SASL_SSL


def registry_has_tls(options: StartOptions, external: str | None, *, is_secure: bool) -> bool:
    """Whether the registry to start speaks TLS: if other machines reach it. Raises UserError."""
    host = options.registry_host
    if external is not None and host != LOOPBACK:
        raise UserError(
            f"--registry-host is for the registry that `start` makes, and zookeeper.connect names"
            f" another one ({external}): leave one of them out"
        )
    if is_loopback(host):
        return False
    if not is_secure:
        raise UserError(
            f"a registry on {host} would let others change everything: add --secure, with which it"
            " speaks TLS and takes logins only, or leave --registry-host out"
        )
    return True


def prepare_files(
    files: DataDir,
    brokers: Iterable[int],
    listeners: ListenerPlan,
    options: StartOptions,
    *,
    has_tls: bool,
) -> "SecurityFiles":
    """Keys and passwords of a secure cluster, made where missing. Raises UserError.

    `has_tls`: its registry needs a certificate, too.
    """
    from cluster.datadir.security_files import prepare_security

    local = ["localhost", LOOPBACK, "::1", platform.node()]
    hosts = [*local, *listeners.hosts]
    of_registry = [*local, options.registry_host] if has_tls else []
    try:
        files.path.chmod(0o700)  # records, too, are only for those who may read them
        make_registry_auth(files)
    except OSError as problem:
        raise UserError(f"cannot use {files.path}: {problem.strerror}") from None
    return prepare_security(files.security, brokers, hosts, datetime.now(UTC), of_registry)


def write_files_for_clients(files: DataDir, plan: ClusterPlan) -> None:
    """Write how clients connect and log in, where they have to. Raises UserError."""
    own = NOBODY if plan.registry is None else plan.registry_access
    if plan.security is None and own == NOBODY:
        with suppress(OSError):  # left by a login that was removed
            (files.clients / REGISTRY_JAAS).unlink(missing_ok=True)
        return
    from cluster.datadir.client_files import write_client_files, write_registry_files

    try:
        if plan.security is not None:
            write_client_files(files.clients, plan.bootstrap, plan.security)
        write_registry_files(files.clients, own, plan.security)
    except OSError as problem:
        raise UserError(f"cannot write to {files.clients}: {problem.strerror}") from None
