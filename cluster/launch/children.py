"""The child processes of a cluster, each as a callable for the supervisor.

Imports what brokers and registry run, so that they are forked with everything loaded.
"""

from pathlib import Path
from typing import Final

from cluster.brokers.broker import run_broker
from cluster.config.broker import (
    BROKER_RACK,
    CONNECTION_FAILED_AUTHENTICATION_DELAY_MS,
    ZOOKEEPER_4LW_COMMANDS_WHITELIST,
    ZOOKEEPER_SESSION_TIMEOUT_MS,
)
from cluster.config.listener_rules import ANY_ADDRESS
from cluster.config.listeners import client_listeners
from cluster.config.settings import Settings
from cluster.coordinator.registry.client.registry_access import NOBODY, RegistryAccess
from cluster.coordinator.registry.server.options import (
    MIN_FREE_BYTES,
    LoginOptions,
    RegistryOptions,
)
from cluster.coordinator.registry.server.registry_process import run_registry
from cluster.datadir.dashboard_access import dashboard_password, needs_password
from cluster.datadir.paths import DataDir
from cluster.datadir.state_file import KnownBroker
from cluster.launch.options import StartOptions
from cluster.log.directory_room import disk_space
from cluster.model.addresses import LOOPBACK
from cluster.model.security import SecurityProtocol
from cluster.runtime.held_socket import HeldSocket
from cluster.runtime.tls_options import TlsOptions
from cluster.supervisor.plan import ChildSpec, ListenerAddress, Reports

_REGISTRY_SHARE: Final = 32


def registry_child(
    files: DataDir,
    host: str,
    port: int,
    own: RegistryAccess,
    tls: TlsOptions | None,
    settings: Settings,
) -> ChildSpec:
    """The registry. If brokers log in to it as `own`, nobody else may do anything."""
    logins = (
        LoginOptions()
        if own == NOBODY
        else LoginOptions(
            {own.user: own.password},
            is_required=True,
            super_user=own.user,
            failure_delay_ms=settings[CONNECTION_FAILED_AUTHENTICATION_DELAY_MS],
        )
    )
    words = settings[ZOOKEEPER_4LW_COMMANDS_WHITELIST]
    registry = RegistryOptions(
        files.path / "registry",
        host,
        port,
        tls=tls,
        logins=logins,
        min_free_bytes=_registry_min_free(files.path),
        four_letter_words=frozenset(words),
    )

    def run(reports: Reports) -> None:
        run_registry(registry, lambda bound: reports.ready({"port": bound}))

    return ChildSpec("registry", "registry", _reached_at(host), port, run, listens_on=host)


def dashboard_child(
    options: StartOptions, files: DataDir, port: int, *, is_guarded: bool
) -> ChildSpec:
    """The dashboard. `is_guarded`: clients of the cluster log in, so its page asks, too."""
    host = options.dashboard_host
    has_password = needs_password(host, is_guarded=is_guarded)
    if has_password:
        dashboard_password(files.dashboard_password)  # exists before the address is printed

    held = HeldSocket(host, port)

    def run(reports: Reports) -> None:
        # Imported here: brokers need none of it, and every start would wait for it.
        from cluster.dashboard.process import run_dashboard

        run_dashboard(
            files,
            host,
            held,
            lambda: reports.ready({"port": port}),
            has_password=has_password,
            may_change=options.dashboard_actions,
            is_guarded=is_guarded,
        )

    return ChildSpec(
        "dashboard",
        "dashboard",
        _reached_at(host),
        port,
        run,
        listens_on=host,
        held=held,
        password_file=files.dashboard_password if has_password else None,
    )


def broker_child(
    broker: KnownBroker,
    run_dir: Path,
    settings: Settings,
    log_dirs: tuple[Path, ...],
    tools_protocol: SecurityProtocol,
    first_user: Path | None,
) -> ChildSpec:
    """A broker. The tools connect to its first listener of `tools_protocol`, else its first."""

    def run(reports: Reports) -> None:
        run_broker(settings, run_dir, reports.ready, reports.progress, reports.view, first_user)

    addresses = tuple(
        ListenerAddress(each.name, each.protocol, each.host, _reached_at(each.host), each.port)
        for each in client_listeners(settings)
    )
    for_tools = next((each for each in addresses if each.protocol == tools_protocol), addresses[0])
    return ChildSpec(
        f"broker-{broker.id}",
        f"broker {broker.id}",
        for_tools.host,
        for_tools.port,
        run,
        broker.id,
        log_dirs,
        addresses,
        slot=broker.slot,
        rack=settings[BROKER_RACK],
        session_timeout_ms=settings[ZOOKEEPER_SESSION_TIMEOUT_MS],
    )


def _registry_min_free(path: Path) -> int:
    """Less than brokers leave on the disk, also where that is small (decision 048)."""
    try:
        return min(MIN_FREE_BYTES, disk_space(path).total_bytes // _REGISTRY_SHARE)
    except OSError:
        return MIN_FREE_BYTES


def _reached_at(host: str) -> str:
    """The host at which this machine reaches what listens on `host`."""
    return LOOPBACK if host in ANY_ADDRESS else host
