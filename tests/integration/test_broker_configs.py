"""Settings changed while brokers run: by clients, by commands, in the registry; over restarts."""

import json
import socket
import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from kazoo.client import KazooClient

from cluster.client.log_dir_requests import describe_log_dirs
from cluster.client.socket_client import SocketClient
from cluster.coordinator.registry.documents import paths, znodes
from cluster.datadir.paths import DataDir
from cluster.views.client_states import read_running
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic, leader, unique_name, wait_for_isr
from tests.support.waiting import DEADLINE_S, wait_until

OWN, DEFAULT = "/config/brokers/{}", "/config/brokers/<default>"
SET = AlterConfigOpType.SET


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("configured")) as cluster:
        yield cluster


@pytest.fixture
def registry(three: Cluster) -> Iterator[KazooClient]:
    """Another tool; what it and the test have changed of brokers goes at the end."""
    client = KazooClient(three.state()["registry"])
    client.start(timeout=30)
    yield client
    for name in client.get_children("/config/brokers"):
        client.set(f"/config/brokers/{name}", b"")
    client.stop()
    client.close()


def write(client: KazooClient, path: str, document: dict[str, str] | bytes) -> None:
    """Change the registry as a tool does that knows nothing of change nodes."""
    client.ensure_path(path)
    is_text = isinstance(document, bytes)
    client.set(path, document if is_text else znodes.encode_entity_config(document))  # type: ignore[arg-type]


def described(cluster: Cluster, broker: int, key: str) -> tuple[str, str]:
    """Value and source of one setting, as the broker itself describes it."""
    text = cluster.command(
        "configs", "--describe", "--broker", str(broker), "--all", "--json"
    ).stdout
    (entry,) = [each for each in json.loads(text)[str(broker)] if each["name"] == key]
    return entry["value"], entry["source"]


def wait_until_in_force(cluster: Cluster, broker: int, key: str, value: str) -> None:
    asked = AdminClient({"bootstrap.servers": "{}:{}".format(*cluster.addresses[broker])})
    resource = ConfigResource(ConfigResource.Type.BROKER, str(broker))

    def is_in_force() -> bool:
        (future,) = asked.describe_configs([resource]).values()
        return bool(future.result(DEADLINE_S)[key].value == value)

    wait_until(is_in_force, f"{key}={value} on broker {broker}")


def produce_error(cluster: Cluster, topic: str, size: int, **config: object) -> int | None:
    """The code that a record's delivery fails with, None when it is acknowledged."""
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "retries": 0, **config})
    producer.produce(topic, bytes(size), on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(DEADLINE_S) == 0
    (error,) = errors
    return None if error is None else error.code()


def change(cluster: Cluster, broker: int, **texts: str) -> None:
    """IncrementalAlterConfigs of one broker by confluent-kafka, which finds that broker itself.

    Raises KafkaException as the broker refuses it.
    """
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    entries = [
        ConfigEntry(key.replace("_", "."), text, incremental_operation=SET)
        for key, text in texts.items()
    ]
    resource = ConfigResource(ConfigResource.Type.BROKER, str(broker), incremental_configs=entries)
    (future,) = admin.incremental_alter_configs([resource]).values()
    future.result(DEADLINE_S)


def test_config_change_of_one_broker_is_in_force_when_it_is_answered(
    three: Cluster, registry: KazooClient
) -> None:
    change(three, 1, log_segment_bytes="123456", log_retention_ms="7200000")
    assert described(three, 1, "log.segment.bytes") == ("123456", "DYNAMIC_BROKER_CONFIG")
    assert described(three, 0, "log.segment.bytes") == ("1073741824", "DEFAULT_CONFIG")
    assert registry.get(OWN.format(1))[0] == (
        b'{"version":1,"config":{"log.segment.bytes":"123456","log.retention.ms":"7200000"}}'
    )


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        ({"broker_id": "7"}, r"Cannot update these configs dynamically: Set\(broker.id\)"),
        ({"log_segment_bytes": "tiny"}, "log.segment.bytes=tiny is not valid"),
        ({"nonsense": "1"}, 'Unknown broker setting nonsense"'),
        ({"metrics_num_samples": "3"}, r"Set\(metrics.num.samples\)"),
    ],
)
def test_refused_config_changes_name_the_reason(
    three: Cluster, texts: dict[str, str], reason: str
) -> None:
    with pytest.raises(KafkaException, match=reason):
        change(three, 0, **texts)


def test_config_without_effect_is_stored_with_a_warning_by_broker_and_tool(
    three: Cluster,
) -> None:
    change(three, 1, sasl_kerberos_min_time_before_relogin="58000")  # as librdkafka's own test
    assert described(three, 1, "sasl.kerberos.min.time.before.relogin") == (
        "58000",
        "DYNAMIC_BROKER_CONFIG",
    )
    altered = three.command(
        *("configs", "--alter", "--broker", "1"),
        *("--add-config", "background.threads=9"),
    )
    assert altered.stderr == (
        "WARNING: background.threads (accepted, without effect yet: one thread does a broker's"
        " work, and a few others have fixed tasks).\n"
    )
    told = three.command("configs", "--describe", "--broker", "1").stdout
    assert "background.threads=9 sensitive=false" in told
    assert told.count("(accepted, without effect yet: ") == 2
    assert (
        "changed in use: background.threads (accepted, without effect yet: one thread does a"
        " broker's work, and a few others have fixed tasks)"
    ) in three.log_text("broker-1")
    three.command(
        *("configs", "--alter", "--broker", "1", "--delete-config"),
        "background.threads,sasl.kerberos.min.time.before.relogin",
    )


def test_message_max_bytes_changes_on_every_broker_at_once(
    three: Cluster, registry: KazooClient
) -> None:
    topics = [create_topic(three, unique_name("sized"), assignments=[[b]]) for b in range(3)]
    own = create_topic(three, unique_name("sized"), configs={"max.message.bytes": "9000"})
    three.command(
        *("configs", "--alter", "--broker-defaults", "--add-config", "message.max.bytes=2000")
    )
    for broker, topic in enumerate(topics):
        wait_until_in_force(three, broker, "message.max.bytes", "2000")
        assert produce_error(three, topic, 5_000) == KafkaError.MSG_SIZE_TOO_LARGE
    assert produce_error(three, own, 5_000) is None

    three.command(
        *("configs", "--alter", "--broker-defaults", "--delete-config", "message.max.bytes")
    )
    for broker, topic in enumerate(topics):
        wait_until_in_force(three, broker, "message.max.bytes", "1048588")
        assert produce_error(three, topic, 5_000) is None


def test_log_and_replication_configs_follow_a_change_in_the_registry(
    three: Cluster, registry: KazooClient
) -> None:
    topic = create_topic(three, unique_name("rolled"), assignments=[[0, 1]])
    write(registry, DEFAULT, {"log.segment.bytes": "4096", "min.insync.replicas": "3"})
    wait_until_in_force(three, 0, "log.segment.bytes", "4096")
    assert produce_error(three, topic, 100, acks="all") == KafkaError.NOT_ENOUGH_REPLICAS
    for _ in range(3):
        assert produce_error(three, topic, 3_000, acks=1) is None
    segments = [*(three.log_dir(0) / f"{topic}-0").glob("*.log")]
    assert len(segments) == 3


def test_connections_of_one_broker_are_limited_and_let_in_again(
    three: Cluster, registry: KazooClient
) -> None:
    def is_closed() -> bool:
        with socket.create_connection(three.addresses[2], 10) as connection:
            connection.settimeout(0.2)
            try:
                return connection.recv(1) == b""
            except TimeoutError:
                return False
            except ConnectionError:
                return True

    with socket.create_connection(three.addresses[2], 10):
        change(three, 2, max_connections_per_ip="1")
        wait_until(is_closed, "the limit")
        write(registry, OWN.format(2), {})
        wait_until(lambda: not is_closed(), "the end of the limit")


def measured_rate(cluster: Cluster, broker: int) -> float:
    brokers = read_running(DataDir(cluster.data_dir))
    (stats,) = [each.stats for each in brokers if each.broker == broker]
    return stats.values["kafka.server:type=LeaderReplication,name=byte-rate"]


def test_a_replication_throttle_slows_a_returning_follower_until_it_is_removed(
    three: Cluster, registry: KazooClient
) -> None:
    """Judged by bytes and an upper bound of their time: a slow machine only makes it slower."""
    rate, batch_bytes = 400_000, 20_000
    throttled = {"leader.replication.throttled.replicas": "0:0"}
    topic = create_topic(three, unique_name("throttled"), assignments=[[0, 1]], configs=throttled)
    three.kill(1, stay_down=True)
    producer = Producer({"bootstrap.servers": three.bootstrap, "acks": 1, "batch.size": 10_000})
    for _ in range(1_000):
        producer.produce(topic, bytes(4_000))
    assert producer.flush(DEADLINE_S) == 0
    change(three, 0, leader_replication_throttled_rate=str(rate))
    three.restart(1)

    with SocketClient.connect([three.addresses[1]], "test") as client:

        def fetched() -> int:
            return sum(
                replica.size_bytes
                for directory in describe_log_dirs(client, [topic])
                for replica in directory.replicas
            )

        wait_until(fetched, "the follower to fetch")
        began, first = time.monotonic(), fetched()
        wait_until(lambda: fetched() > first + rate, "another second's worth")
        moved, elapsed_s = fetched() - first, time.monotonic() - began
        assert moved <= rate * (elapsed_s + 0.1) + batch_bytes
        assert 0 < wait_until(lambda: measured_rate(three, 0), "the metric") <= 1.2 * rate
        write(registry, OWN.format(0), {})
        wait_for_isr(three, topic, 2)
        assert fetched() > 4_000_000


def test_invalid_config_in_the_registry_is_logged_and_the_rest_applied(
    three: Cluster, registry: KazooClient
) -> None:
    write(
        registry,
        OWN.format(0),
        {"log.segment.bytes": "654321", "log.roll.ms": "soon", "broker.id": "9", "no\nkey": "1"},
    )
    wait_until_in_force(three, 0, "log.segment.bytes", "654321")
    (line,) = three.log_lines(0, "log.roll.ms=soon")
    assert "broker.id" in line
    assert "no\\nkey" in line
    write(registry, OWN.format(0), b'{"version')
    wait_until_in_force(three, 0, "log.segment.bytes", "1073741824")
    assert three.log_lines(0, OWN.format(0))


def test_a_topics_config_that_another_tool_changes_is_seen_at_once(
    three: Cluster, registry: KazooClient
) -> None:
    topic = create_topic(three, unique_name("outside"))
    write(registry, f"/config/topics/{topic}", {"max.message.bytes": "2000"})
    change_node = znodes.encode_config_change(paths.entity_path(paths.TOPIC_CONFIGS, topic))
    registry.create(paths.CONFIG_CHANGE_PREFIX, change_node, sequence=True)
    wait_until(
        lambda: produce_error(three, topic, 5_000) == KafkaError.MSG_SIZE_TOO_LARGE,
        "the topic's limit",
    )


def test_levels_of_a_brokers_loggers_are_changed_by_command(three: Cluster) -> None:
    loggers = ("--entity-type", "broker-loggers", "--entity-name", "1")
    name = "cluster.brokers.replication.role_changes"
    for level in ("ERROR", "INFO"):
        three.command("configs", "--alter", *loggers, "--add-config", f"{name}={level}")
        listing = three.command("configs", "--describe", *loggers).stdout.splitlines()
        assert listing[0] == "Dynamic configs for broker-logger 1 are:"
        assert f"  {name}={level} sensitive=false synonyms={{}}" in listing
    refused = three.command(
        *("configs", "--alter", *loggers, "--add-config", "no.such=INFO"), check=False
    )
    assert refused.returncode == 1
    assert "Logger no.such does not exist!" in refused.stderr


def test_values_survive_restarts_of_broker_registry_and_cluster(
    new_cluster: Callable[..., Cluster],
) -> None:
    soon = {"zookeeper.session.timeout.ms": "3000"}  # until the dead brokers' sessions are over
    with new_cluster(brokers=2, overrides=soon) as cluster:
        change(cluster, 1, log_segment_bytes="123456")
        cluster.command(
            *("configs", "--alter", "--broker-defaults", "--add-config", "log.roll.ms=99999")
        )
        cluster.kill("registry")
        wait_until(
            lambda: (
                not cluster.command(
                    *(
                        "configs",
                        "--alter",
                        "--broker-defaults",
                        "--add-config",
                        "max.connections=99",
                    ),
                    check=False,
                ).returncode
            ),
            "a change after the registry's restart",
        )
        for broker in (0, 1):
            wait_until_in_force(cluster, broker, "max.connections", "99")
        cluster.restart(1)
        assert described(cluster, 1, "log.segment.bytes") == ("123456", "DYNAMIC_BROKER_CONFIG")
        cluster.kill_everything()
        cluster.start()
        assert described(cluster, 1, "log.segment.bytes") == ("123456", "DYNAMIC_BROKER_CONFIG")
        for broker in (0, 1):
            told = described(cluster, broker, "log.roll.ms")
            assert told == ("99999", "DYNAMIC_DEFAULT_BROKER_CONFIG")
        (line,) = cluster.log_lines(1, "settings changed in use")[-1:]
        assert "max.connections=99, log.segment.bytes=123456, log.roll.ms=99999" in line
        lines = cluster.log_text("broker-1").splitlines()
        recovered = [at for at, each in enumerate(lines) if "serves {" in each]
        assert lines.index(line) < recovered[-1]


def test_an_unclean_election_is_held_when_it_is_allowed(
    new_cluster: Callable[..., Cluster],
) -> None:
    with new_cluster(brokers=3) as cluster:
        topic = create_topic(cluster, unique_name("unclean"), assignments=[[1, 2]])
        cluster.kill(2, stay_down=True)
        wait_until(lambda: produce_error(cluster, topic, 10, acks="all") is None, "an ISR of one")
        cluster.kill(1, stay_down=True)
        cluster.restart(2)
        assert leader(cluster, topic) == -1
        cluster.command(
            *("configs", "--alter", "--broker-defaults"),
            *("--add-config", "unclean.leader.election.enable=true"),
        )
        wait_until(lambda: leader(cluster, topic) == 2, "the unclean leader")
