"""The paths of a cluster's files below its data directory."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

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

    def stats(self, broker_id: int) -> Path:
        """The shared-memory file with a broker's counters."""
        return self.run / f"broker-{broker_id}.stats"

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
    def java_properties(self) -> Path:
        """How Kafka's own tools and other Java clients connect to a secure cluster."""
        return self.clients / "java.properties"

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
