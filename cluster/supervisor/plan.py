"""What the supervisor is asked to run: data without behaviour, made by `launch.py` and by tests."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.model.recovery_progress import RecoveryProgress


@dataclass(frozen=True, slots=True)
class Reports:
    """What a child tells its supervisor."""

    ready: Callable[[dict[str, Any]], None]
    """Called once, when it is ready to serve, with facts such as its port."""
    progress: Callable[[RecoveryProgress], None]
    """Called now and then before that, by one that takes longer: its time to start begins anew."""


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """One child process. `run` returns when the child has stopped cleanly after SIGTERM."""

    name: str
    """`registry` or `broker-0`: also the name of its log file."""
    label: str
    """`registry` or `broker 0`: how messages to the user name it."""
    host: str
    port: int
    run: Callable[[Reports], None]
    broker_id: int | None = None
    log_dirs: tuple[Path, ...] = ()
    """Where a broker keeps its partitions."""

    @property
    def address(self) -> str:
        """host:port."""
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """A whole cluster: what to run, where its files are, where the registry answers."""

    data_dir: Path
    registry: ChildSpec | None
    """None where the brokers use an external registry or ZooKeeper."""
    registry_address: str
    """host:port[,host:port...][/chroot]."""
    brokers: tuple[ChildSpec, ...]

    @property
    def children(self) -> tuple[ChildSpec, ...]:
        """Everything to run, in the order of starting."""
        return self.brokers if self.registry is None else (self.registry, *self.brokers)

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

    def session(self, broker_id: int) -> Path:
        """The file that names a broker's registry session, to close it if the broker dies."""
        return self.run / f"broker-{broker_id}.session"

    def broker(self, broker_id: int) -> Path:
        """The log directory of one broker, unless `start` was told others (see `log_dirs`)."""
        return self.path / f"broker-{broker_id}"
