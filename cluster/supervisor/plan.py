"""What the supervisor is asked to run: data without behaviour, made by `launch.py` and by tests."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cluster.coordinator.registry.client.registry_access import NOBODY, RegistryAccess
from cluster.model.cluster_view import ClusterView
from cluster.model.recovery_progress import RecoveryProgress
from cluster.supervisor.dashboard_access import USER
from cluster.supervisor.held_socket import HeldSocket

if TYPE_CHECKING:
    from cluster.supervisor.security_files import SecurityFiles


CLIENT_FILES: Final = {
    "librdkafka.properties": "librdkafka and confluent-kafka, and these commands",
    "java.properties": "Kafka's own tools and other Java clients",
    "kafka-python.json": "the arguments of kafka-python's clients",
    "kcat.conf": "kcat -F FILE",
}
"""The files for clients of a secure cluster, and whose they are; beside them are `ca.pem` and
`truststore.p12`."""
REGISTRY_PROPERTIES: Final = "zookeeper.properties"
"""Among the files for clients: how those of a registry with TLS reach it."""
REGISTRY_JAAS: Final = "zookeeper.jaas"
"""How they log in."""


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


@dataclass(frozen=True, slots=True)
class DataDir:
    """The paths of a cluster's files."""

    path: Path

    @property
    def state_file(self) -> Path:
        """The state of the cluster; its presence marks a directory as made by this program."""
        return self.path / "cluster.json"

    @property
    def run(self) -> Path:
        """Sockets, locks, session files: nothing of use after the processes have ended."""
        return self.path / "run"

    @property
    def control_socket(self) -> Path:
        """The Unix socket on which the supervisor answers requests."""
        return self.run / "supervisor.sock"

    @property
    def lock_file(self) -> Path:
        """Held by the supervisor as long as it lives."""
        return self.run / "supervisor.lock"

    @property
    def logs(self) -> Path:
        """One log per process."""
        return self.path / "logs"

    def log(self, name: str) -> Path:
        """The log of one process."""
        return self.logs / f"{name}.log"

    @property
    def registry_auth_file(self) -> Path:
        """Who we are to our registry; see `registry_auth`."""
        return self.security / "registry.auth"

    def session(self, broker_id: int) -> Path:
        """The file that names a broker's registry session, to close it if the broker dies."""
        return self.run / f"broker-{broker_id}.session"

    @property
    def security(self) -> Path:
        """Keys and certificates of a secure cluster, of mode 0700."""
        return self.path / "security"

    @property
    def clients(self) -> Path:
        """Files with which clients connect to a secure cluster, of mode 0700."""
        return self.path / "clients"

    @property
    def tools_properties(self) -> Path:
        """How the tools connect to a secure cluster: a file that librdkafka's programs read too."""
        return self.clients / "librdkafka.properties"

    @property
    def dashboard_password(self) -> Path:
        """The password of the dashboard, where it asks for one, in a file of mode 0600."""
        return self.path / "dashboard-password"

    @property
    def registry_properties(self) -> Path:
        """How clients reach the registry over TLS; there only where it has TLS."""
        return self.clients / REGISTRY_PROPERTIES

    def broker(self, broker_id: int) -> Path:
        """The log directory of one broker, unless `start` was told others (see `log_dirs`)."""
        return self.path / f"broker-{broker_id}"
