"""Makes the plan of a cluster from the options of `start`: settings, ports, children.

Everything is validated before the first fork.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.config.broker import LOG_DIR_RESERVE_BYTES, METRICS_ENABLE, REGISTRY_AUTH
from cluster.config.remarks import remarks_on
from cluster.config.setting import SettingError
from cluster.config.settings import Settings, broker_settings, placed
from cluster.config.value_type import Listener
from cluster.coordinator.registry.client.registry_access import NOBODY, RegistryAccess
from cluster.coordinator.registry.client.registry_settings import access_of
from cluster.datadir.log_dirs import own_directories
from cluster.datadir.paths import DataDir
from cluster.datadir.port_holder import port_holder
from cluster.datadir.state_file import KnownBroker, read_state, remembered_brokers
from cluster.launch.broker_identity import check_id, largest_id
from cluster.launch.broker_ids import choose_brokers, free_slots, next_id, parse_broker_ids
from cluster.launch.children import broker_child, dashboard_child, registry_child
from cluster.launch.directories import log_directories, take_shared_directories
from cluster.launch.listener_plan import ListenerPlan, Wishes, plan_listeners
from cluster.launch.options import DEFAULT_BROKERS, StartOptions
from cluster.launch.port_conflicts import conflict
from cluster.launch.port_memory import (
    chosen_ports,
    listener_ports,
    was_chosen,
    with_ports_of_last_start,
)
from cluster.launch.protection import prepare_files, registry_has_tls, tools_protocol
from cluster.launch.racks import rack_of_added, racks_of_brokers, remembered_racks
from cluster.launch.registry_login import (
    close_to_others,
    guards_clients,
    open_registry_warning,
    own_access,
)
from cluster.launch.security_texts import registry_tls_texts, security_texts
from cluster.launch.shared_settings import SharedSettings, read_shared_settings
from cluster.launch.start_room import check_room
from cluster.metrics.stats_layout import DEFAULT_SIZE_BYTES
from cluster.model.addresses import DASHBOARD_PORT, REGISTRY_PORT
from cluster.model.errors import UserError
from cluster.model.security import SecurityProtocol
from cluster.runtime.ports import PortTaken, WantedPort, choose_ports, is_taken
from cluster.runtime.tls_options import StoreSource, TlsOptions
from cluster.runtime.whole_numbers import PORT_MAX
from cluster.supervisor.plan import ChildSpec, ClusterPlan, NewBroker

if TYPE_CHECKING:
    from cluster.datadir.security_files import SecurityFiles


def make_plan(options: StartOptions, note: Callable[[str], None]) -> ClusterPlan:
    """Validate all options and choose ports; `note` shows remarks. Raises UserError."""
    files = DataDir(options.data_dir)
    state = read_state(files.state_file)
    given = options
    options = with_ports_of_last_start(options, state)
    take_shared_directories(files, state, note)
    ids = None if options.broker_ids is None else parse_broker_ids(options.broker_ids)
    before = remembered_brokers(files.state_file)
    brokers = choose_brokers(options.brokers, ids, before, DEFAULT_BROKERS)
    shared = read_shared_settings(options, len(brokers), note)
    _check_ids(brokers, shared)
    racks = racks_of_brokers(
        options.racks,
        shared.texts.get("broker.rack"),
        remembered_racks(state),
        [each.id for each in brokers],
        note,
    )
    basis = _basis(options, files, brokers, shared, note)
    early = basis.settings(brokers[0], basis.listeners.ports_before_they_are_chosen, {})
    # Settings that cannot be used are reported before a port that is taken.
    dashboard_port = _dashboard_port(options, note, is_named=given.dashboard_port is not None)
    last = {} if given.port is not None or options.port != 0 else listener_ports(state)
    wanted = basis.wanted_ports(options, brokers, dashboard_port, last)
    try:
        ports = choose_ports(wanted)
    except PortTaken as taken:
        raise conflict(
            taken.want, wanted, from_last_start=was_chosen(taken.want, given, options)
        ) from None
    if basis.is_guarded:
        close_to_others(files, basis.own)
    dashboard = None
    if dashboard_port is not None:
        dashboard = dashboard_child(options, files, ports.pop(), is_guarded=basis.is_guarded)
    directories = log_directories(
        options.log_dirs or shared.log_dirs, files, [each.id for each in brokers]
    )
    check_room(
        files,
        directories,
        note,
        stats_bytes=DEFAULT_SIZE_BYTES if early[METRICS_ENABLE] else 0,
        reserve_bytes=early[LOG_DIR_RESERVE_BYTES],
        has_registry=shared.registry is None,
    )
    registry = None
    if shared.registry is None:
        tls = basis.registry_tls
        host = options.registry_host
        registry = registry_child(files, host, ports.pop(), basis.own, tls, early)
    address = shared.registry or "" if registry is None else registry.address
    settings = basis.settings_of_brokers(brokers, ports, directories, racks, address)
    _remark_on(settings[0], basis, note)
    specs = tuple(
        broker_child(
            broker,
            files.run,
            each,
            directories[broker.id],
            basis.protocol,
            None if basis.security is None else basis.security.first_user,
        )
        for broker, each in zip(brokers, settings, strict=True)
    )
    access = access_of(settings[0])

    def grow(new: NewBroker, present: Sequence[ChildSpec]) -> ChildSpec:
        return _one_more(new, present, options, files, basis, address)

    return ClusterPlan(
        files.path,
        registry,
        address,
        specs,
        dashboard,
        access,
        basis.security,
        grow,
        chosen_ports(
            options,
            None if registry is None else registry.port,
            None if dashboard is None else dashboard.port,
        ),
    )


def _id_of(new: NewBroker, known: Sequence[KnownBroker], shared: SharedSettings) -> int:
    chosen = new.id
    if chosen is None:
        chosen = next_id({*new.in_use, *(each.id for each in known)}, largest_id(shared.texts))
    if chosen is None:
        raise UserError("no broker id is left: raise reserved.broker.max.id")
    _check_ids([KnownBroker(chosen, 0)], shared)
    return chosen


def _check_ids(brokers: Sequence[KnownBroker], shared: SharedSettings) -> None:
    try:
        check_id(max(each.id for each in brokers), shared.texts)
    except SettingError as problem:
        raise placed(problem, shared.places) from None


def _one_more(
    new: NewBroker,
    present: Sequence[ChildSpec],
    options: StartOptions,
    files: DataDir,
    basis: "_Basis",
    registry: str,
) -> ChildSpec:
    """One more broker of a running cluster, as a start plans it. Raises UserError."""
    known = [KnownBroker(each.broker_id or 0, each.slot) for each in present]
    slots = [each.slot for each in known]
    listeners = _listeners(options, basis.shared, [*slots, max(slots) + 1], basis.protocol)
    listeners = listeners._replace(step=basis.listeners.step)
    slot = next(
        each
        for each in free_slots(known)
        if listeners.has_room(each, slots) and not _are_taken(listeners.wanted(each))
    )
    broker = KnownBroker(_id_of(new, known, basis.shared), slot)
    security = basis.security
    if security is not None:
        has_tls = basis.has_registry_tls
        security = prepare_files(files, [broker.id], listeners, options, has_tls=has_tls)
    wanted = [
        WantedPort(listeners.owner(broker.id, each), each.host, each.port, "--port")
        for each in listeners.wanted(slot)
    ]
    places = [str(path.parent) for path in present[0].log_dirs]
    log_dirs = own_directories(places, files.path, broker.id)
    in_settings = None if options.racks is not None else basis.shared.texts.get("broker.rack")
    racks = {broker.id: rack_of_added(new.rack, in_settings, [each.rack for each in present])}
    own = replace(basis, listeners=listeners, security=security)
    (settings,) = own.settings_of_brokers(
        [broker], choose_ports(wanted), {broker.id: log_dirs}, racks, registry
    )
    return broker_child(broker, files.run, settings, log_dirs, basis.protocol, None)


def _are_taken(listeners: Sequence[Listener]) -> bool:
    """Whether another program listens on one of these; a port that is too high is none's."""
    return any(is_taken(each.host, each.port) for each in listeners if 0 < each.port <= PORT_MAX)


@dataclass(frozen=True, slots=True)
class _Basis:
    """What the settings of every broker are made from."""

    shared: SharedSettings
    listeners: ListenerPlan
    protocol: SecurityProtocol
    """The protocol by which the tools connect."""
    security: "SecurityFiles | None"
    """Of a secure cluster."""
    own: RegistryAccess
    """Who brokers are to the registry of the data directory."""
    is_guarded: bool
    """Clients log in, or are held by ACLs."""
    has_registry_tls: bool

    def settings(
        self, broker: KnownBroker, ports: Sequence[int], own_texts: Mapping[str, str]
    ) -> Settings:
        """A broker's settings, checked. Raises SettingError."""
        own = {} if self.own.text is None else {REGISTRY_AUTH.name: self.own.text}
        tls = {}
        if self.has_registry_tls and self.security is not None:
            tls = registry_tls_texts(self.security)
        return broker_settings(
            {
                **self.shared.texts,
                **security_texts(self.security, broker.id, self.shared.texts),
                **self.listeners.texts(broker.slot, ports),
                **own,
                **tls,
                **own_texts,
            },
            self.shared.places,
        )

    def settings_of_brokers(
        self,
        brokers: Sequence[KnownBroker],
        ports: Sequence[int],
        directories: Mapping[int, Sequence[Path]],
        racks: Mapping[int, str | None],
        registry: str,
    ) -> list[Settings]:
        """The settings of all brokers, whose ports follow one another in `ports`."""
        each_has = len(self.listeners.listened)
        return [
            self.settings(
                broker,
                ports[index * each_has : (index + 1) * each_has],
                {
                    "broker.id": str(broker.id),
                    "log.dirs": ",".join(map(str, directories[broker.id])),
                    "zookeeper.connect": registry,
                    **_rack_texts(racks[broker.id]),
                },
            )
            for index, broker in enumerate(brokers)
        ]

    def wanted_ports(
        self,
        options: StartOptions,
        brokers: Sequence[KnownBroker],
        dashboard: WantedPort | None,
        last: Mapping[tuple[int, str], int],
    ) -> list[WantedPort]:
        """The ports of the brokers, then that of the registry and of the dashboard, if any.

        Where a listener's is any free one, it is that of the last start, if it had one.
        """
        wanted = [
            WantedPort(
                self.listeners.owner(broker.id, each),
                each.host,
                each.port or last.get((broker.id, each.name), 0),
                "--port",
            )
            for broker in brokers
            for each in self.listeners.wanted(broker.slot)
        ]
        if self.shared.registry is None:
            host, port = options.registry_host, options.registry_port
            port = REGISTRY_PORT if port is None else port
            wanted.append(WantedPort("registry", host, port, "--registry-port"))
        return wanted if dashboard is None else [*wanted, dashboard]

    @property
    def registry_tls(self) -> TlsOptions | None:
        """The TLS of the registry to start; None where it speaks plain text."""
        if not self.has_registry_tls or self.security is None:
            return None
        return TlsOptions(StoreSource("keystore", "PEM", str(self.security.registry_key_store)))


def _basis(
    options: StartOptions,
    files: DataDir,
    brokers: Sequence[KnownBroker],
    shared: SharedSettings,
    note: Callable[[str], None],
) -> _Basis:
    protocol = tools_protocol(options, files, note)
    is_secure = protocol is SecurityProtocol.SASL_SSL
    listeners = _listeners(options, shared, [each.slot for each in brokers], protocol)
    has_tls = registry_has_tls(options, shared.registry, is_secure=is_secure)
    security = None
    if is_secure:
        ids = [each.id for each in brokers]
        security = prepare_files(files, ids, listeners, options, has_tls=has_tls)
    try:
        is_guarded = is_secure or guards_clients(shared.texts, listeners)
    except SettingError as problem:
        raise placed(problem, shared.places) from None
    own = NOBODY
    if shared.registry is None:
        own = own_access(files, shared.texts, note, is_guarded=is_guarded)
    return _Basis(shared, listeners, protocol, security, own, is_guarded, has_tls)


def _rack_texts(rack: str | None) -> dict[str, str]:
    return {} if rack is None else {"broker.rack": rack}


def _listeners(
    options: StartOptions,
    shared: SharedSettings,
    slots: Sequence[int],
    protocol: SecurityProtocol,
) -> ListenerPlan:
    wishes = Wishes(options.host, options.port, options.advertised_host)
    try:
        return plan_listeners(shared.texts, wishes, slots, protocol)
    except SettingError as problem:
        raise placed(problem, shared.places) from None


def _remark_on(settings: Settings, basis: _Basis, note: Callable[[str], None]) -> None:
    given = basis.shared.texts
    chosen_here = security_texts(basis.security, 0, given).keys() - given.keys()
    for remark in remarks_on(settings, chosen_here):
        note(remark)
    if basis.shared.registry is not None and basis.is_guarded:
        warning = open_registry_warning(settings)
        if warning is not None:
            note(warning)


def _dashboard_port(
    options: StartOptions, note: Callable[[str], None], *, is_named: bool
) -> WantedPort | None:
    """Its port; None where there is to be no dashboard, or the user named a port that is taken.

    One of the last start is replaced.
    """
    host, port = options.dashboard_host, options.dashboard_port
    if not options.has_dashboard:
        return None
    if port is None:
        return WantedPort("dashboard", host, DASHBOARD_PORT, "--dashboard-port", is_by_default=True)
    if port and is_taken(host, port) and not is_named:
        note(
            f"Port {port} of the dashboard is in use by {port_holder(port)}: the dashboard gets"
            " another one."
        )
        port = 0
    elif port and is_taken(host, port):
        note(
            f"There is no dashboard: port {port} is in use by {port_holder(port)}; choose another"
            " --dashboard-port."
        )
        return None
    return WantedPort("dashboard", host, port, "--dashboard-port")
