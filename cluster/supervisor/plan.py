"""What the supervisor is asked to run: data without behaviour, made by `launch.py` and by tests."""

from collections.abc import Callable
from dataclasses import dataclass
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
    """What a child tells its supervisor."""

    ready: Callable[[dict[str, Any]], None]
    """Called once, when it is ready to serve, with facts such as its port."""
    progress: Callable[[RecoveryProgress], None]
    """Called now and then before that, by one that takes longer: its time to start begins anew."""
    view: Callable[[ClusterView], None]
    """Called by a broker with each new view that it has of the cluster, before it is ready too."""


class ListenerAddress(NamedTuple):
    """One listener of a broker."""

    name: str
    protocol: str
    listens_on: str
    """The host of its settings, which may stand for every address."""
    host: str
    """Where this machine reaches it."""
    port: int


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """One child process. `run` returns when the child has stopped cleanly after SIGTERM."""

    name: str
    """`registry`, `dashboard` or `broker-0`: also the name of its log file."""
    label: str
    """`registry`, `dashboard` or `broker 0`: how messages to the user name it."""
    host: str
    """Where the tools connect: of a broker, to its first PLAINTEXT listener, else its first."""
    port: int
    run: Callable[[Reports], None]
    broker_id: int | None = None
    log_dirs: tuple[Path, ...] = ()
    """Where a broker keeps its partitions."""
    listeners: tuple[ListenerAddress, ...] = ()
    """Of a broker, all of them."""
    password_file: Path | None = None
    """Of the dashboard, where its password is; None where it asks for none."""
    held: HeldSocket | None = None
    """Of the dashboard: the socket that it serves on."""
    listens_on: str = ""
    """Of another process the host of its settings, where that is not `host`."""

    @property
    def address(self) -> str:
        """host:port, an address of IPv6 in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """A whole cluster: what to run, where its files are, where the registry answers."""

    data_dir: Path
    registry: ChildSpec | None
    """None where the brokers use an external registry or ZooKeeper."""
    registry_address: str
    """host:port[,host:port...][/chroot]."""
    brokers: tuple[ChildSpec, ...]
    dashboard: ChildSpec | None = None
    """None where there is to be none. The cluster runs on when it fails."""
    registry_access: RegistryAccess = NOBODY
    """Who the brokers are to the registry: so the supervisor may end their sessions."""
    security: "SecurityFiles | None" = None
    """Keys, certificates and passwords of a secure cluster (`start --secure`)."""

    @property
    def children(self) -> tuple[ChildSpec, ...]:
        """Everything to run, in the order of starting."""
        others = [each for each in (self.registry, self.dashboard) if each is not None]
        return (*others, *self.brokers)

    @property
    def dashboard_url(self) -> str | None:
        """Where a browser finds the dashboard."""
        if self.dashboard is None:
            return None
        return f"http://{self.dashboard.address}/"

    @property
    def dashboard_login(self) -> dict[str, str] | None:
        """How to log in to the dashboard: `user`, and `password_file`, which has the password."""
        path = None if self.dashboard is None else self.dashboard.password_file
        return None if path is None else {"user": USER, "password_file": str(path)}

    @property
    def bootstrap(self) -> str:
        """The value for clients' `bootstrap.servers`: every broker's host:port."""
        return ",".join(broker.address for broker in self.brokers)
