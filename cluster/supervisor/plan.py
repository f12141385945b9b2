"""The plan that the supervisor runs: data without behavior, made by `launch.py` and by tests."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cluster.coordinator.registry.client.registry_access import NOBODY, RegistryAccess
from cluster.datadir.dashboard_access import USER
from cluster.model.cluster_view import ClusterView
from cluster.model.recovery_progress import RecoveryProgress
from cluster.runtime.held_socket import HeldSocket

if TYPE_CHECKING:
    from cluster.datadir.security_files import SecurityFiles


@dataclass(frozen=True, slots=True)
class Reports:
    """The reports of a child to its supervisor."""

    ready: Callable[[dict[str, Any]], None]
    """Called once with facts such as its port, when the child is ready to serve."""
    progress: Callable[[RecoveryProgress], None]
    """Called repeatedly before that by a child that takes longer; each call restarts its
    start timeout.
    """
    view: Callable[[ClusterView], None]
    """Called by a broker with each new view of the cluster, also before it is ready."""


class ListenerAddress(NamedTuple):
    """One listener of a broker."""

    name: str
    protocol: str
    listens_on: str
    """The configured host, which may be a wildcard address."""
    host: str
    """The host at which this machine reaches it."""
    port: int


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """One child process. `run` returns when the child has stopped cleanly after SIGTERM."""

    name: str
    """`registry`, `dashboard` or `broker-0`: also the name of its log file."""
    label: str
    """`registry`, `dashboard` or `broker 0`: how messages to the user name it."""
    host: str
    """The address for tools: a broker's first PLAINTEXT listener, or its first one if it
    has none.
    """
    port: int
    run: Callable[[Reports], None]
    broker_id: int | None = None
    log_dirs: tuple[Path, ...] = ()
    """The log directories of a broker."""
    listeners: tuple[ListenerAddress, ...] = ()
    """All listeners of a broker."""
    slot: int = 0
    """Which ports of the cluster's are its; see `launch/listener_plan.py`."""
    rack: str | None = None
    """The rack of a broker, if it has one."""
    session_timeout_ms: int | None = None
    """How long a broker's registry session outlives its last heartbeat."""
    password_file: Path | None = None
    """The file with the dashboard's password; None if the dashboard requires no login."""
    held: HeldSocket | None = None
    """The socket on which the dashboard serves."""
    listens_on: str = ""
    """The configured host of a process other than a broker, if it differs from `host`."""

    @property
    def address(self) -> str:
        """host:port, with an IPv6 address in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class NewBroker(NamedTuple):
    """A broker that is to join a running cluster."""

    id: int | None
    """None: any."""
    rack: str | None = None
    """None: as a start would choose."""
    in_use: Collection[int] = ()
    """Ids that it is not given, beside those of the brokers that are there."""


Grow = Callable[[NewBroker, Sequence[ChildSpec]], ChildSpec]
"""Plans one more broker beside those that are there. Raises UserError."""


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """A whole cluster: its processes, its files, and the address of its registry."""

    data_dir: Path
    registry: ChildSpec | None
    """None if the brokers use an external registry or ZooKeeper."""
    registry_address: str
    """host:port[,host:port...][/chroot]."""
    brokers: tuple[ChildSpec, ...]
    dashboard: ChildSpec | None = None
    """None if there is no dashboard. A failed dashboard does not stop the cluster."""
    registry_access: RegistryAccess = NOBODY
    """The brokers' credentials at the registry, with which the supervisor can end their
    sessions.
    """
    security: "SecurityFiles | None" = None
    """Keys, certificates and passwords of a secure cluster (`start --secure`)."""
    grow: Grow | None = None
    """None if the plan is for these brokers only."""
    chosen_ports: Mapping[str, int] = field(default_factory=dict)
    """The ports that options of `start` have chosen, which the next start takes again."""

    @property
    def children(self) -> tuple[ChildSpec, ...]:
        """All processes, in starting order."""
        others = [each for each in (self.registry, self.dashboard) if each is not None]
        return (*others, *self.brokers)

    @property
    def dashboard_url(self) -> str | None:
        """The URL of the dashboard for a browser."""
        if self.dashboard is None:
            return None
        return f"http://{self.dashboard.address}/"

    @property
    def dashboard_login(self) -> dict[str, str] | None:
        """The login of the dashboard: `user`, and `password_file`, the file with the password."""
        path = None if self.dashboard is None else self.dashboard.password_file
        return None if path is None else {"user": USER, "password_file": str(path)}

    @property
    def bootstrap(self) -> str:
        """The value of `bootstrap.servers` for clients: host:port of every broker."""
        return ",".join(broker.address for broker in self.brokers)
