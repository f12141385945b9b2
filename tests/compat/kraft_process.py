"""Apache Kafka without ZooKeeper: one node that is broker and controller, as a process of tests."""

import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from cluster.protocol.api import ApiKey
from tests.compat.kafka_jvm import NEWEST
from tests.compat.kafka_process import require_kafka
from tests.compat.zookeeper_server import HOST, free_port
from tests.support.kafka_wire import WireClient, request
from tests.support.running_cluster import Address
from tests.support.topics import describe
from tests.support.waiting import wait_until

_JAVA: Final = ("java", "-XX:TieredStopAtLevel=1", "-Xmx512m")
_DEADLINE_S: Final = 120.0
_CLUSTER_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"
_NODE_ID: Final = 1
SILENT_BROKER: Final = 77
"""The broker of `add_silent_broker`."""
_UPGRADE, _UNSAFE_DOWNGRADE = 1, 3
# What a broker of Kafka 4.1 supports; a controller registers only one that has them.
_FEATURES: Final = {
    "metadata.version": (7, 27),
    "transaction.version": (0, 2),
    "group.version": (0, 1),
    "kraft.version": (0, 1),
    "eligible.leader.replicas.version": (0, 1),
    "share.version": (0, 1),
    "streams.version": (0, 1),
}


class KraftProcess:
    """A node on a new log directory; a context manager that ends it."""

    def __init__(
        self,
        directory: Path,
        *,
        overrides: Mapping[str, str] | None = None,
        features: Mapping[str, int] | None = None,
        version: str = NEWEST,
    ) -> None:
        """`features` are the levels at which it begins."""
        self.address: Address = (HOST, free_port())
        self._controller: Address = (HOST, free_port())
        self._version = version
        self._features = features or {}
        self.log_dir = directory / "log"
        self._output = directory / "kafka.log"
        self._config = directory / "kafka.properties"
        self._process: subprocess.Popen[bytes] | None = None
        broker, controller = ("{}:{}".format(*each) for each in (self.address, self._controller))
        settings = {
            "process.roles": "broker,controller",
            "node.id": str(_NODE_ID),
            "controller.quorum.bootstrap.servers": controller,
            "listeners": f"PLAINTEXT://{broker},CONTROLLER://{controller}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.log_dir),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **(overrides or {}),
        }
        directory.mkdir(parents=True, exist_ok=True)
        self._config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))

    def format(self) -> None:
        """Make the log directory."""
        arguments = ["format", "--standalone", "-t", _CLUSTER_ID, "-c", str(self._config)]
        for name, level in self._features.items():
            arguments += ["--feature", f"{name}={level}"]
        subprocess.run(
            [*_JAVA, "-cp", require_kafka(self._version), "kafka.tools.StorageTool", *arguments],
            check=True,
            timeout=_DEADLINE_S,
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )

    def start(self) -> Self:
        """Returns when it takes requests of clients."""
        with self._output.open("a") as output:
            self._process = subprocess.Popen(
                [*_JAVA, "-cp", require_kafka(self._version), "kafka.Kafka", str(self._config)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        wait_until(self._serves, "Kafka's start", _DEADLINE_S)
        return self

    def stop(self) -> None:
        """End it cleanly; `start` continues."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(_DEADLINE_S)

    def set_feature(self, name: str, level: int, *, is_upgrade: bool) -> None:
        """Finalize another level, and wait until the broker knows it."""
        asked = request(
            ApiKey.UPDATE_FEATURES,
            1,
            timeout=10_000,
            feature_updates=[
                {
                    "feature": name,
                    "max_version_level": level,
                    "upgrade_type": _UPGRADE if is_upgrade else _UNSAFE_DOWNGRADE,
                }
            ],
            validate_only=False,
        )
        with WireClient(self.address) as client:
            answer = client.call(asked)
            assert answer.error_code == 0, answer

            def is_known() -> bool:
                versions = client.call(
                    request(
                        ApiKey.API_VERSIONS,
                        4,
                        client_software_name="t",
                        client_software_version="1",
                    )
                )
                levels = {each.name: each.max_version_level for each in versions.finalized_features}
                return bool(levels.get(name, 0) == level)

            wait_until(is_known, f"{name} {level}", _DEADLINE_S)

    def add_silent_broker(self) -> None:
        """Register another broker, which is said to live and does not even listen.

        It may lead partitions until its session ends some nine seconds later.
        """
        registration = request(
            ApiKey.BROKER_REGISTRATION,
            4,
            broker_id=SILENT_BROKER,
            cluster_id=_CLUSTER_ID,
            incarnation_id=uuid.uuid4(),
            listeners=[
                {"name": "PLAINTEXT", "host": HOST, "port": free_port(), "security_protocol": 0}
            ],
            features=[
                {"name": name, "min_supported_version": low, "max_supported_version": high}
                for name, (low, high) in _FEATURES.items()
            ],
            rack=None,
            is_migrating_zk_broker=False,
            log_dirs=[uuid.uuid4()],
            previous_broker_epoch=-1,
        )
        with WireClient(self._controller) as client:
            registered = client.call(registration)
            assert registered.error_code == 0, registered
            heartbeat = request(
                ApiKey.BROKER_HEARTBEAT,
                1,
                broker_id=SILENT_BROKER,
                broker_epoch=registered.broker_epoch,
                current_metadata_offset=2**40,
                want_fence=False,
                want_shut_down=False,
                offline_log_dirs=[],
            )
            wait_until(lambda: not client.call(heartbeat).is_fenced, "another broker", _DEADLINE_S)

        def is_known() -> bool:
            view = describe(self.address)
            return view is not None and len(view.brokers) > 1

        wait_until(is_known, "the other broker in metadata", _DEADLINE_S)

    def __enter__(self) -> Self:
        self.format()
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _serves(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._output.read_text()[-4_000:]
        view = describe(self.address)
        return view is not None and bool(view.brokers)
