"""Turns the options of `start` into a plan: settings, ports, one callable per child.

Imports what the children run, so that they are forked with everything loaded.
"""

import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from cluster.brokers.broker import run_broker
from cluster.config.broker import (
    BROKER_SETTINGS,
    CONNECTION_FAILED_AUTHENTICATION_DELAY_MS,
    LOG_DIR_RESERVE_BYTES,
    METRICS_ENABLE,
    REGISTRY_AUTH,
    ZOOKEEPER_4LW_COMMANDS_WHITELIST,
)
from cluster.config.kafka_file import read_kafka_texts, unknown_keys
from cluster.config.listener_rules import ANY_ADDRESS
from cluster.config.listeners import client_listeners
from cluster.config.properties_file import PropertiesFile, read_properties_file
from cluster.config.remarks import remarks_on
from cluster.config.setting import SettingError
from cluster.config.settings import (
    Settings,
    broker_settings,
    parse_override,
    placed,
)
from cluster.coordinator.registry.client.registry_access import NOBODY, RegistryAccess
from cluster.coordinator.registry.client.registry_settings import access_of
from cluster.coordinator.registry.server.options import (
    MIN_FREE_BYTES,
    LoginOptions,
    RegistryOptions,
)
from cluster.coordinator.registry.server.registry_process import run_registry
from cluster.datadir.dashboard_access import dashboard_password, needs_password
from cluster.datadir.lock_file import hold_lock
from cluster.datadir.log_dirs import (
    DEFAULT_PLACES,
    check_places,
    missing_directories,
    own_directories,
    parse_places,
    places_of,
    remembered_directories,
)
from cluster.datadir.paths import REGISTRY_JAAS, DataDir
from cluster.datadir.registry_auth import make_registry_auth
from cluster.datadir.state_file import draft_of, read_state, remembered_brokers
from cluster.log.directory_room import disk_space
from cluster.metrics.stats_layout import DEFAULT_SIZE_BYTES
from cluster.model.addresses import is_loopback
from cluster.model.errors import UserError
from cluster.model.security import SecurityProtocol
from cluster.runtime.held_socket import HeldSocket
from cluster.runtime.installation import shown
from cluster.runtime.ports import WantedPort, choose_ports, is_taken
from cluster.runtime.private_files import other_readers
from cluster.runtime.tls_options import StoreSource, TlsOptions
from cluster.supervisor.daemon import run_in_background
from cluster.supervisor.listener_plan import LOOPBACK, ListenerPlan, Wishes, plan_listeners
from cluster.supervisor.plan import ChildSpec, ClusterPlan, ListenerAddress, Reports
from cluster.supervisor.registry_auth import (
    close_to_others,
    guards_clients,
    open_registry_warning,
    own_access,
)
from cluster.supervisor.security_texts import registry_tls_texts, security_texts
from cluster.supervisor.start_room import check_room
from cluster.supervisor.supervise import supervise

if TYPE_CHECKING:
    from cluster.datadir.security_files import SecurityFiles

DEFAULT_BROKERS: Final = 3
DASHBOARD_PORT: Final = 9292
"""Of the dashboard, unless it is taken."""
_REGISTRY_SHARE: Final = 32
_PER_BROKER: Final = ("broker.id", "node.id")
"""Keys whose values differ from broker to broker, so that `--override` refuses them."""
_LOG_DIRS: Final = ("log.dirs", "log.dir")
"""Their values are shared out among the brokers; the first one counts, as in Kafka."""


@dataclass(frozen=True, slots=True)
class StartOptions:
    """The options of `start`; a port of 0 means any free port.

    How host, advertised host and port go together with settings of listeners says
    `supervisor/listener_plan.py`.
    """

    data_dir: Path
    brokers: int | None = None
    """None: as many as the data directory was last started with, else 3."""
    host: str | None = None
    advertised_host: str | None = None
    port: int | None = None
    registry_host: str = LOOPBACK
    registry_port: int = 2181
    config: Path | None = None
    overrides: tuple[str, ...] = ()
    """`key=value`, strongest last."""
    log_dirs: str | None = None
    """Places of log directories, by commas; see `datadir/log_dirs.py`. None: those of the
    settings, else as the data directory was last started with, else the data directory."""
    detach: bool = False
    has_dashboard: bool = True
    dashboard_host: str = LOOPBACK
    dashboard_port: int | None = None
    """None: `DASHBOARD_PORT`, or any free one where that is taken."""
    dashboard_actions: bool = False
    """Whether a dashboard that other machines can reach may change something."""
    secure: bool = False
    """TLS, logins and ACLs; a data directory that was secure once remains so."""


def start(options: StartOptions, began_ms: int, note: Callable[[str], None]) -> int:
    """Start the cluster and, unless detached, stay until it has stopped. Returns the exit status.

    `began_ms`: when the command began, on the monotonic clock. `note` shows a remark to the user.
    Raises UserError.
    """
    files = DataDir(options.data_dir)
    _claim(files, options.log_dirs)
    try:
        lock = hold_lock(files.lock_file)
    except OSError as problem:
        raise UserError(f"cannot use {files.path}: {problem.strerror}") from None
    if lock is None:
        raise UserError(f"another start or stop is at work in {files.path}: try again in a moment")
    plan = make_plan(options, note)
    _write_client_files(files, plan)
    if not options.detach:
        return supervise(plan, lock, began_ms)
    return run_in_background(
        lambda on_up: supervise(plan, lock, began_ms, on_up=on_up), files.log("supervisor")
    )


class _Shared(NamedTuple):
    """Settings that are the same for all brokers."""

    texts: Mapping[str, str]
    places: Mapping[str, str]
    """For each key from the file, its place for error messages, e.g. `FILE, line 3`."""
    log_dirs: str | None
    """The list that the settings name, if any."""


def make_plan(options: StartOptions, note: Callable[[str], None]) -> ClusterPlan:
    """Validate all options and choose ports, before the first fork. Raises UserError."""
    files = DataDir(options.data_dir)
    count = _broker_count(options, files)
    shared = _shared(options, count, note)
    tools_protocol = _tools_protocol(options, files, note)
    is_secure = tools_protocol is SecurityProtocol.SASL_SSL
    listeners = _listeners(options, shared, count, tools_protocol)
    external = shared.texts.get("zookeeper.connect")
    has_tls = _registry_has_tls(options, external, is_secure=is_secure)
    security = _security(files, count, listeners, options, has_tls=has_tls) if is_secure else None
    is_guarded = is_secure or _guards_clients(shared, listeners)
    own = NOBODY if external else own_access(files, shared.texts, note, is_guarded=is_guarded)
    of_registry = registry_tls_texts(security) if has_tls and security is not None else {}

    def checked(broker: int, ports: Sequence[int], own_texts: Mapping[str, str]) -> Settings:
        return broker_settings(
            {
                **shared.texts,
                **security_texts(security, broker, shared.texts),
                **listeners.texts(broker, ports),
                **({} if own.text is None else {REGISTRY_AUTH.name: own.text}),
                **of_registry,
                **own_texts,
            },
            shared.places,
        )

    early = checked(
        0, listeners.ports_before_they_are_chosen, {}
    )  # rather told than a port that is taken
    wanted = [
        WantedPort(listeners.owner(broker, each), each.host, each.port, "--port")
        for broker in range(count)
        for each in listeners.wanted(broker)
    ]
    if external is None:
        host, port = options.registry_host, options.registry_port
        wanted.append(WantedPort("registry", host, port, "--registry-port"))
    dashboard_port = _dashboard_port(options, note)
    if dashboard_port is not None:
        wanted.append(dashboard_port)
    ports = choose_ports(wanted)
    if is_guarded:
        close_to_others(files, own)
    dashboard = (
        None
        if dashboard_port is None
        else _dashboard(options, files, ports.pop(), is_guarded=is_guarded)
    )
    each_has = len(listeners.listened)
    directories = _log_directories(options.log_dirs or shared.log_dirs, files, count)
    check_room(
        files,
        directories,
        note,
        stats_bytes=DEFAULT_SIZE_BYTES if early[METRICS_ENABLE] else 0,
        reserve_bytes=early[LOG_DIR_RESERVE_BYTES],
        has_registry=external is None,
    )
    registry = None
    if external is None:
        tls = None
        if has_tls and security is not None:
            tls = TlsOptions(StoreSource("keystore", "PEM", str(security.registry_key_store)))
        registry = _registry(files, options.registry_host, ports[-1], own, tls, early)
    address = external or "" if registry is None else registry.address
    settings = [
        checked(
            broker,
            ports[broker * each_has : (broker + 1) * each_has],
            {
                "broker.id": str(broker),
                "log.dirs": ",".join(map(str, directories[broker])),
                "zookeeper.connect": address,
            },
        )
        for broker in range(count)
    ]
    chosen_here = security_texts(security, 0, shared.texts).keys() - shared.texts.keys()
    for remark in remarks_on(settings[0], chosen_here):
        note(remark)
    warning = open_registry_warning(settings[0]) if external and is_guarded else None
    if warning is not None:
        note(warning)
    brokers = tuple(
        _broker(
            broker,
            files.run,
            settings[broker],
            directories[broker],
            tools_protocol,
            None if security is None else security.first_user,
        )
        for broker in range(count)
    )
    access = access_of(settings[0])
    return ClusterPlan(files.path, registry, address, brokers, dashboard, access, security)


def _claim(files: DataDir, log_dirs: str | None) -> None:
    """Create the data directory. Raises UserError if it holds files that are not this program's.

    Places for partitions may have been made before, to mount disks on them.
    """
    try:
        files.path.mkdir(parents=True, exist_ok=True)
        draft = draft_of(files.state_file).name  # of a first start that was killed
        ours = {files.run.name, files.logs.name, files.state_file.name, draft, "rollup"}
        ours |= {files.security.name, files.clients.name, files.dashboard_password.name}
        for place in parse_places(log_dirs or "."):
            ours.update(Path(place).parts[:1])
        present = {entry.name for entry in files.path.iterdir()}
        if files.state_file.name not in present and not present <= ours:
            raise UserError(
                f"{files.path} holds files that are not Milena's: choose another --data-dir"
            )
        files.run.mkdir(mode=0o700, exist_ok=True)
        files.logs.mkdir(exist_ok=True)
    except OSError as problem:
        raise UserError(f"cannot use {files.path}: {problem.strerror}") from None


def _broker_count(options: StartOptions, files: DataDir) -> int:
    before = remembered_brokers(files.state_file)
    count = options.brokers or before or DEFAULT_BROKERS
    if before is not None and count < before:
        raise UserError(
            f"{files.path} holds the data of {before} brokers, and {count} would lose replicas:"
            f" use --brokers {before}, another --data-dir, or `stop --purge` first"
        )
    return count


def _log_directories(named: str | None, files: DataDir, count: int) -> list[tuple[Path, ...]]:
    """Where each broker keeps its partitions. Raises UserError."""
    before = remembered_directories(read_state(files.state_file), files.path)
    places = parse_places(named) if named is not None else places_of(before) or DEFAULT_PLACES
    check_places(places, files.path)
    directories = [own_directories(places, files.path, broker) for broker in range(count)]
    missing = missing_directories(before, directories)
    if missing:
        raise UserError(
            f"{missing[0]} holds replicas, which would be lost: keep {missing[0].parent} in"
            " --log-dirs, or `stop --purge` first"
        )
    return directories


def _shared(options: StartOptions, count: int, note: Callable[[str], None]) -> _Shared:
    """Read the settings from --config, then from --override, which is stronger."""
    file = (
        PropertiesFile({}, {}) if options.config is None else read_properties_file(options.config)
    )
    given = dict(map(parse_override, options.overrides))
    for key in _PER_BROKER:
        if key in given:
            raise UserError(
                f"--override {key} cannot be given for all brokers: `start` numbers them"
            )
    places = {
        key: f"{options.config}, line {line}"
        for key, line in file.lines.items()
        if key not in given
    }
    try:
        read = read_kafka_texts(file.texts, given)
    except SettingError as problem:
        raise placed(problem, places) from None
    if options.config is not None and any(map(BROKER_SETTINGS.is_secret, file.texts)):
        readers = other_readers(options.config.stat())
        if readers is not None:
            note(
                f"Warning: {readers} can read the passwords in {options.config}:"
                f" run `chmod 600 {options.config}`."
            )
    seen = [key for key in given if BROKER_SETTINGS.is_secret(key)]
    if seen:
        note(
            f"Warning: everybody on this machine can read {', '.join(seen)} on the command line:"
            " use --config with a file that others cannot read."
        )
    replicas = str(min(3, count))
    texts = {
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "group.initial.rebalance.delay.ms": "0",
        **read.texts,
    }
    replaced = [key for key in _PER_BROKER if texts.pop(key, None) is not None]
    if replaced:
        note(f"From {options.config}, `start` sets itself: {', '.join(replaced)}.")
    named = [text for key in _LOG_DIRS if (text := texts.pop(key, None)) is not None]
    log_dirs = named[0] if named else None
    if log_dirs is not None and options.log_dirs is None:
        note(
            f"Each broker keeps its partitions in a directory of its own below {log_dirs}"
            " (--log-dirs . keeps them in the data directory)."
        )
    if read.unknown:
        note(unknown_keys(read.unknown, str(options.config), file.lines))
    for remark in read.remarks:
        note(remark)
    return _Shared(texts, places, log_dirs)


def _listeners(
    options: StartOptions, shared: _Shared, count: int, default: SecurityProtocol
) -> ListenerPlan:
    wishes = Wishes(options.host, options.port, options.advertised_host)
    try:
        return plan_listeners(shared.texts, wishes, count, default)
    except SettingError as problem:
        raise placed(problem, shared.places) from None


def _guards_clients(shared: _Shared, listeners: ListenerPlan) -> bool:
    try:
        return guards_clients(shared.texts, listeners)
    except SettingError as problem:
        raise placed(problem, shared.places) from None


def _tools_protocol(
    options: StartOptions, files: DataDir, note: Callable[[str], None]
) -> SecurityProtocol:
    """That of the listener that the tools use: whether the cluster is a secure one."""
    was_secure = bool((read_state(files.state_file) or {}).get("secure"))
    if not options.secure and not was_secure:
        return SecurityProtocol.PLAINTEXT
    if not options.secure:
        note(f"{shown(files.path)} is of a secure cluster: it starts with --secure.")
    return SecurityProtocol.SASL_SSL


def _registry_has_tls(options: StartOptions, external: str | None, *, is_secure: bool) -> bool:
    """Whether the registry that is started speaks TLS: where others reach it. Raises UserError."""
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


def _security(
    files: DataDir, count: int, listeners: ListenerPlan, options: StartOptions, *, has_tls: bool
) -> "SecurityFiles":
    """Keys and passwords of a secure cluster, made if necessary; of its registry, where that has
    TLS. Raises UserError.
    """
    from cluster.datadir.security_files import prepare_security

    local = ["localhost", LOOPBACK, "::1", platform.node()]
    hosts = [*local, *listeners.hosts]
    of_registry = [*local, options.registry_host] if has_tls else []
    try:
        files.path.chmod(0o700)  # records, too, are for those only who may read them
        make_registry_auth(files)
    except OSError as problem:
        raise UserError(f"cannot use {files.path}: {problem.strerror}") from None
    return prepare_security(files.security, count, hosts, datetime.now(UTC), of_registry)


def _write_client_files(files: DataDir, plan: ClusterPlan) -> None:
    own = NOBODY if plan.registry is None else plan.registry_access
    if plan.security is None and own == NOBODY:
        with suppress(OSError):  # of a login that was removed
            (files.clients / REGISTRY_JAAS).unlink(missing_ok=True)
        return
    from cluster.datadir.client_files import write_client_files, write_registry_files

    try:
        if plan.security is not None:
            write_client_files(files.clients, plan.bootstrap, plan.security)
        write_registry_files(files.clients, own, plan.security)
    except OSError as problem:
        raise UserError(f"cannot write to {files.clients}: {problem.strerror}") from None


def _registry_min_free(path: Path) -> int:
    """Less than brokers leave on the disk, also where that is small (decision 048)."""
    try:
        return min(MIN_FREE_BYTES, disk_space(path).total_bytes // _REGISTRY_SHARE)
    except OSError:
        return MIN_FREE_BYTES


def _registry(
    files: DataDir,
    host: str,
    port: int,
    own: RegistryAccess,
    tls: TlsOptions | None,
    settings: Settings,
) -> ChildSpec:
    """The registry; where brokers log in, nobody else may do anything."""
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


def _dashboard_port(options: StartOptions, note: Callable[[str], None]) -> WantedPort | None:
    """Its port; None where there is to be no dashboard, or the user named a port that is taken."""
    host, port = options.dashboard_host, options.dashboard_port
    if not options.has_dashboard:
        return None
    if port is None:
        return WantedPort("dashboard", host, DASHBOARD_PORT, "--dashboard-port", is_by_default=True)
    if port and is_taken(host, port):
        note(f"There is no dashboard: port {port} is in use; choose another --dashboard-port.")
        return None
    return WantedPort("dashboard", host, port, "--dashboard-port")


def _dashboard(options: StartOptions, files: DataDir, port: int, *, is_guarded: bool) -> ChildSpec:
    host = options.dashboard_host
    shown_host = LOOPBACK if host in ANY_ADDRESS else host
    has_password = needs_password(host, is_guarded=is_guarded)
    if has_password:
        dashboard_password(files.dashboard_password)  # there before anybody is told where it is

    held = HeldSocket(host, port)

    def run(reports: Reports) -> None:
        # Only here: brokers need nothing of it, and a start would wait for it.
        from cluster.dashboard.process import run_dashboard

        run_dashboard(
            files,
            host,
            held,
            lambda: reports.ready({"port": port}),
            has_password=has_password,
            may_change=options.dashboard_actions,
        )

    return ChildSpec(
        "dashboard",
        "dashboard",
        shown_host,
        port,
        run,
        listens_on=host,
        held=held,
        password_file=files.dashboard_password if has_password else None,
    )


def _broker(
    broker_id: int,
    run_dir: Path,
    settings: Settings,
    log_dirs: tuple[Path, ...],
    tools_protocol: SecurityProtocol,
    first_user: Path | None,
) -> ChildSpec:
    def run(reports: Reports) -> None:
        run_broker(settings, run_dir, reports.ready, reports.progress, reports.view, first_user)

    addresses = tuple(
        ListenerAddress(each.name, each.protocol, each.host, _reached_at(each.host), each.port)
        for each in client_listeners(settings)
    )
    for_tools = next((each for each in addresses if each.protocol == tools_protocol), addresses[0])
    return ChildSpec(
        f"broker-{broker_id}",
        f"broker {broker_id}",
        for_tools.host,
        for_tools.port,
        run,
        broker_id,
        log_dirs,
        addresses,
    )


def _reached_at(host: str) -> str:
    """Where this machine's own tools reach what listens there."""
    return LOOPBACK if host in ANY_ADDRESS else host
