"""Apache Kafka's command-line tools, unmodified, against a cluster of ours."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from cluster.brokers.dispatch.table import HANDLERS
from cluster.config.broker import OWN_SETTINGS
from cluster.config.setting import Update
from cluster.protocol.api import CLIENT_METRICS_APIS
from cluster.records.batch import Compression, batches_of
from tests.compat.confluent_records import TIMEOUT_S, assigning_consumer, produce, read_all
from tests.compat.kafka_process import ToolShell, run_tool, running_tool
from tests.compat.samples import COMPRESSIONS, NOW_MS, PARTITIONS, SAMPLES
from tests.support.broker_probes import fetched
from tests.support.client_quotas import a_client_id
from tests.support.fixed_settings import FIXED_HERE
from tests.support.kafka_wire import WireClient
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic, describe, leader, unique_name
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.beyond_pypi]

KAFKA_TOPICS = "org.apache.kafka.tools.TopicCommand"
KAFKA_CONFIGS = "kafka.admin.ConfigCommand"
CONSOLE_PRODUCER = "kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
GET_OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
PRODUCER_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
VERIFIABLE_PRODUCER = "org.apache.kafka.tools.VerifiableProducer"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
CLUSTER_TOOL = "org.apache.kafka.tools.ClusterTool"
BROKER_API_VERSIONS = "kafka.admin.BrokerApiVersionsCommand"


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolShell]:
    with ToolShell(tmp_path_factory.mktemp("tools")) as running:
        yield running


Tool = Callable[..., str]


@pytest.fixture
def run(cluster: Cluster, shell: ToolShell) -> Tool:
    """Runs a tool that takes --bootstrap-server; returns what it writes."""

    def run_one(main_class: str, *arguments: str, **options: Any) -> str:
        servers = ("--bootstrap-server", cluster.bootstrap)
        return shell.run(main_class, *servers, *arguments, **options)

    return run_one


# -- topics and their configs -----------------------------------------------------------------


def test_topics_are_created_described_and_deleted(cluster: Cluster, run: Tool) -> None:
    topic = unique_name("tools")
    created = run(
        KAFKA_TOPICS,
        *("--create", "--topic", topic, "--partitions", "3", "--replication-factor", "2"),
        *("--config", "min.insync.replicas=2", "--config", "retention.ms=3600000"),
    )
    assert created == f"Created topic {topic}.\n"

    summary, *partitions = run(KAFKA_TOPICS, "--describe", "--topic", topic).splitlines()
    view = described(cluster, topic)
    facts = dict(field.split(":", 1) for field in summary.split("\t"))
    assert facts["PartitionCount"].strip() == "3"
    assert facts["ReplicationFactor"].strip() == "2"
    configs = set(facts["Configs"].strip().split(","))
    assert configs == {"min.insync.replicas=2", "retention.ms=3600000"}
    for state in view.partitions:
        replicas = ",".join(map(str, state.replica_nodes))
        isr = ",".join(map(str, state.isr_nodes))
        line = f"Partition: {state.partition_index}\tLeader: {state.leader_id}"
        assert f"{line}\tReplicas: {replicas}\tIsr: {isr}" in partitions[state.partition_index]

    run(KAFKA_TOPICS, "--alter", "--topic", topic, "--partitions", "5")
    assert len(described(cluster, topic).partitions) == 5
    assert topic in run(KAFKA_TOPICS, "--list").splitlines()
    run(KAFKA_TOPICS, "--delete", "--topic", topic)
    assert topic not in cluster.command("topics", "--list").stdout.splitlines()


def described(cluster: Cluster, topic: str) -> Any:
    (view,) = describe(cluster.addresses[0], topic).topics
    return view


def test_a_refusal_arrives_with_its_reason(cluster: Cluster, run: Tool) -> None:
    text = run(
        KAFKA_TOPICS,
        *("--create", "--topic", unique_name("tools")),
        *("--replication-factor", str(cluster.size + 1)),
        fails=True,
    )
    assert "InvalidReplicationFactorException" in text
    assert f"larger than available brokers: {cluster.size}" in text


def test_topic_configs_are_changed_and_described(cluster: Cluster, run: Tool) -> None:
    topic = create_topic(cluster, unique_name("tools"))
    entity = ("--entity-type", "topics", "--entity-name", topic)
    run(KAFKA_CONFIGS, "--alter", *entity, "--add-config", "retention.ms=7200000")

    text = run(KAFKA_CONFIGS, "--describe", *entity)

    assert text.splitlines() == [
        f"Dynamic configs for topic {topic} are:",
        "  retention.ms=7200000 sensitive=false synonyms="
        "{DYNAMIC_TOPIC_CONFIG:retention.ms=7200000, DEFAULT_CONFIG:log.retention.ms=604800000}",
    ]
    ours = cluster.command("configs", "--describe", *entity).stdout
    assert "retention.ms=7200000" in ours


# -- records ----------------------------------------------------------------------------------


def test_records_are_deleted(cluster: Cluster, tmp_path: Path, run: Tool) -> None:
    topic = create_topic(cluster, unique_name("tools"), partitions=PARTITIONS)
    produce(cluster.bootstrap, topic, SAMPLES, acks="all")
    file = tmp_path / "offsets.json"
    rows = [{"topic": topic, "partition": 2, "offset": 150}]
    file.write_text(json.dumps({"partitions": rows, "version": 1}))

    theirs = run(DELETE_RECORDS, "--offset-json-file", str(file))

    assert theirs.splitlines() == [
        "Executing records delete operation",
        "Records delete operation completed:",
        f"partition: {topic}-2\tlow_watermark: 150",
    ]
    assert cluster.command("delete-records", "--offset-json-file", str(file)).stdout == theirs


# -- settings of brokers, changed in use -------------------------------------------------------


def test_settings_of_brokers_are_changed_described_and_removed(cluster: Cluster, run: Tool) -> None:
    one = ("--entity-type", "brokers", "--entity-name", "1")
    everyone = ("--entity-type", "brokers", "--entity-default")
    text = run(
        KAFKA_CONFIGS,
        *("--alter", *one, "--add-config", "log.cleanup.policy=[compact,delete],log.roll.ms=77"),
    )
    assert text == "Completed updating config for broker 1.\n"
    text = run(KAFKA_CONFIGS, "--alter", *everyone, "--add-config", "log.roll.ms=78")
    assert text == "Completed updating default config for brokers in the cluster.\n"

    described = (KAFKA_CONFIGS, "--describe", "--entity-type", "brokers")
    # Brokers take settings up from the registry, one by one.
    wait_until(lambda: run(*described).count("=78") == 3, "the brokers to have taken them up")
    text = run(*described)
    assert text.splitlines() == [
        "Dynamic configs for broker 0 are:",
        "Dynamic configs for broker 1 are:",
        "  log.cleanup.policy=compact,delete sensitive=false synonyms="
        "{DYNAMIC_BROKER_CONFIG:log.cleanup.policy=compact,delete,"
        " DEFAULT_CONFIG:log.cleanup.policy=delete}",
        "  log.roll.ms=77 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:log.roll.ms=77,"
        " DYNAMIC_DEFAULT_BROKER_CONFIG:log.roll.ms=78, DEFAULT_CONFIG:log.roll.ms=604800000}",
        "Dynamic configs for broker 2 are:",
        "Default configs for brokers in the cluster are:",
        "  log.roll.ms=78 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:log.roll.ms=78}",
    ]
    ours = cluster.command("configs", "--describe", "--entity-type", "brokers").stdout
    assert [line.split(" sensitive")[0] for line in ours.splitlines()] == [
        line.split(" sensitive")[0] for line in text.splitlines()
    ]

    run(KAFKA_CONFIGS, "--alter", *one, "--delete-config", "log.cleanup.policy,log.roll.ms")
    run(KAFKA_CONFIGS, "--alter", *everyone, "--delete-config", "log.roll.ms")
    text = run(KAFKA_CONFIGS, "--describe", "--entity-type", "brokers")
    assert len(text.splitlines()) == cluster.size + 1


def test_a_setting_of_one_listener_is_changed_described_and_removed(run: Tool) -> None:
    one = ("--entity-type", "brokers", "--entity-name", "1")
    key = "listener.name.clients.ssl.truststore.location"
    run(KAFKA_CONFIGS, "--alter", *one, "--add-config", f"{key}=/trust.p12")
    assert run(KAFKA_CONFIGS, "--describe", *one).splitlines() == [
        "Dynamic configs for broker 1 are:",
        f"  {key}=/trust.p12 sensitive=false synonyms={{DYNAMIC_BROKER_CONFIG:{key}=/trust.p12}}",
    ]
    run(KAFKA_CONFIGS, "--alter", *one, "--delete-config", key)
    assert len(run(KAFKA_CONFIGS, "--describe", *one).splitlines()) == 1
    password = "listener.name.clients.ssl.keystore.password=hunter2"
    text = run(KAFKA_CONFIGS, "--alter", *one, "--add-config", password, fails=True)
    assert "Password encoder secret not configured" in text


def test_dynamic_settings_are_those_that_kafka_documents(shell: ToolShell) -> None:
    page = shell.run("kafka.server.KafkaConfig")  # as for its web site
    modes = dict(
        re.findall(r'brokerconfigs_([\w.]+)".*?<th>Update Mode:</th><td>([\w-]+)<', page, re.DOTALL)
    )
    ours = {
        name: setting.update.value if name == setting.name else Update.READ_ONLY.value
        for setting in OWN_SETTINGS
        for name in setting.names
        if name in modes
    }
    assert len(ours) > 60
    differing = {name for name, mode in ours.items() if modes[name] != mode}
    assert differing == FIXED_HERE & modes.keys(), "bound when a broker starts"


def test_static_settings_are_refused_with_kafkas_message(
    run: Tool,
) -> None:
    text = run(
        KAFKA_CONFIGS,
        *("--alter", "--broker", "0"),
        *("--add-config", "num.partitions=3"),
        fails=True,
    )
    assert "Cannot update these configs dynamically: Set(num.partitions)" in text


def test_levels_of_loggers_are_described_and_changed(cluster: Cluster, run: Tool) -> None:
    loggers = ("--entity-type", "broker-loggers", "--entity-name", "2")
    run(KAFKA_CONFIGS, "--alter", *loggers, "--add-config", "kazoo=WARN")
    described = run(KAFKA_CONFIGS, "--describe", *loggers)
    assert "  kazoo=WARN sensitive=false synonyms={}" in described.splitlines()
    run(KAFKA_CONFIGS, "--alter", *loggers, "--delete-config", "kazoo")
    assert "  kazoo=INFO" in run(KAFKA_CONFIGS, "--describe", *loggers)


def test_a_broker_starts_with_what_the_tool_has_left_in_the_registry(
    new_cluster: Callable[..., Cluster], shell: ToolShell
) -> None:
    with new_cluster(brokers=2) as one:
        one.kill(1, stay_down=True)
        registry = one.state()["registry"]
        broker = ("--entity-type", "brokers", "--entity-name", "1")
        wait_until(lambda: describe(one.addresses[0]).brokers[1:] == (), "the end of its session")
        text = shell.run(
            KAFKA_CONFIGS,
            *("--zookeeper", registry, "--alter", *broker, "--add-config", "log.roll.ms=77"),
        )
        assert "Completed updating config for entity: brokers '1'." in text
        one.restart(1)
        ours = one.command("configs", "--describe", *broker).stdout
        assert "log.roll.ms=77" in ours
        one.command("configs", "--alter", *broker, "--add-config", "log.roll.ms=78")
        one.kill(1, stay_down=True)
        wait_until(lambda: describe(one.addresses[0]).brokers[1:] == (), "the end of its session")
        text = shell.run(KAFKA_CONFIGS, "--zookeeper", registry, "--describe", *broker)
        assert "Configs for brokers '1' are log.roll.ms=78" in text


# -- quotas -----------------------------------------------------------------------------------


def test_quotas_are_set_described_and_removed(cluster: Cluster, run: Tool) -> None:
    client, user = a_client_id(), a_client_id()
    of_client = ("--entity-type", "clients", "--entity-name", client)
    of_user = ("--entity-type", "users", "--entity-name", user)
    any_client_of_user = (*of_user, "--entity-type", "clients", "--entity-default")
    limits = "consumer_byte_rate=20480,request_percentage=50"
    run(KAFKA_CONFIGS, "--alter", *of_client, "--add-config", "producer_byte_rate=10240")
    run(KAFKA_CONFIGS, "--alter", *any_client_of_user, "--add-config", limits)

    listed = rules(cluster)
    assert listed[None, client] == {"producer_byte_rate": 10_240}
    assert listed[user, "<default>"] == {"consumer_byte_rate": 20_480, "request_percentage": 50}
    text = run(KAFKA_CONFIGS, "--describe", *of_client)
    assert f"client-id '{client}' are producer_byte_rate=10240.0" in text
    text = run(KAFKA_CONFIGS, "--describe", *any_client_of_user)
    assert f"user-principal '{user}', the default client-id are" in text
    assert "consumer_byte_rate=20480.0" in text
    assert "request_percentage=50.0" in text

    run(KAFKA_CONFIGS, "--alter", *of_client, "--delete-config", "producer_byte_rate")
    run(
        KAFKA_CONFIGS,
        *("--alter", *any_client_of_user),
        *("--delete-config", "consumer_byte_rate,request_percentage"),
    )
    assert not {(None, client), (user, "<default>")} & rules(cluster).keys()


def rules(cluster: Cluster) -> dict[tuple[str | None, str | None], dict[str, float]]:
    """What our own `quotas list` shows: limits by user and client id."""
    listed = json.loads(cluster.command("quotas", "list", "--json").stdout)
    return {
        (one.pop("user"), one.pop("client_id")): {
            k: v for k, v in one.items() if k not in ("rule", "ip")
        }
        for one in listed
    }


def test_the_performance_tool_is_throttled_by_its_quota(
    cluster: Cluster, run: Tool, shell: ToolShell
) -> None:
    client_id = a_client_id()
    topic = create_topic(cluster, unique_name("tools"))
    quota = ("quotas", "set", "--client-id", client_id, "--producer-byte-rate", "50KiB")
    cluster.command(*quota)
    # One request alone is above the quota: whoever sends it, however slowly, is throttled.
    text = shell.run(
        PRODUCER_PERFORMANCE,
        *("--topic", topic, "--num-records", "2", "--record-size", "100000"),
        *("--throughput", "-1", "--print-metrics", "--producer-props"),
        *(f"bootstrap.servers={cluster.bootstrap}", f"client.id={client_id}", "acks=all"),
    )
    cluster.command("quotas", "unset", "--client-id", client_id, "--producer-byte-rate")

    assert "2 records sent" in text
    assert metric(text, "producer-metrics:produce-throttle-time-max") > 0
    assert metric(text, "producer-metrics:record-error-total") == 0
    assert run(GET_OFFSETS, "--topic", topic) == f"{topic}:0:2\n"


def metric(text: str, name: str) -> float:
    """One value of what `--print-metrics` wrote."""
    found = re.search(rf"^{name}:\S+\s*: ([\d.]+)$", text, re.MULTILINE)
    assert found, text
    return float(found[1])


# -- records ----------------------------------------------------------------------------------


def test_the_console_producer_and_consumer_agree(cluster: Cluster, run: Tool) -> None:
    topic = create_topic(cluster, unique_name("tools"))
    for codec in COMPRESSIONS:
        text = run(
            CONSOLE_PRODUCER,
            *("--topic", topic, "--compression-codec", codec, "--request-required-acks", "all"),
            *("--property", "parse.key=true", "--property", "parse.headers=true"),
            *("--property", "null.marker=NULL"),
            stdin=f"h1:a,h2:b\tkey\t{codec * 20}\nh1:ä\tNULL\tno key\nNULL\tgone\tNULL\n",
        )
        assert text.strip("> \n") == ""

    shown = run_tool(
        CONSOLE_CONSUMER,
        "--bootstrap-server",
        cluster.bootstrap,
        *("--topic", topic, "--partition", "0", "--offset", "earliest"),
        *("--max-messages", str(3 * len(COMPRESSIONS))),
        *("--property", "print.key=true", "--property", "print.headers=true"),
        *("--property", "print.offset=true", "--property", "print.partition=true"),
    )

    lines = []
    for number, codec in enumerate(COMPRESSIONS):
        lines += [
            f"Partition:0\tOffset:{3 * number}\th1:a,h2:b\tkey\t{codec * 20}",
            f"Partition:0\tOffset:{3 * number + 1}\th1:ä\tnull\tno key",
            f"Partition:0\tOffset:{3 * number + 2}\tNO_HEADERS\tgone\tnull",
        ]
    summary = f"Processed a total of {len(lines)} messages"
    assert shown.splitlines() == [*lines, summary]
    with WireClient(cluster.addresses[leader(cluster, topic)]) as client:
        records = fetched(client, topic, 0).records
    headers = [header for header, _ in batches_of(memoryview(records))]
    assert {header.compression for header in headers} == set(Compression)
    assert all(header.producer_id >= 0 for header in headers)  # idempotent by default


def test_earliest_latest_and_timestamp_offsets_are_listed(cluster: Cluster, run: Tool) -> None:
    topic = create_topic(cluster, unique_name("tools"), partitions=PARTITIONS)
    produce(cluster.bootstrap, topic, SAMPLES)

    def offsets(time: str) -> list[str]:
        return run(GET_OFFSETS, "--topic", topic, "--time", time).splitlines()

    assert offsets("latest") == [f"{topic}:0:5", f"{topic}:1:4", f"{topic}:2:200"]
    assert offsets("max-timestamp") == [f"{topic}:0:1", f"{topic}:1:1", f"{topic}:2:199"]
    assert f"{topic}:2:50" in offsets(str(NOW_MS + 50))


def test_javas_idempotent_producer_lives_through_a_leaders_death(
    new_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    cluster = new_cluster().start()
    topic = create_topic(cluster, partitions=PARTITIONS, configs={"min.insync.replicas": "2"})
    config = tmp_path / "producer.properties"
    config.write_text("enable.idempotence=true\nacks=all\nretries=2147483647\n")
    options = {"topic": topic, "max-messages": "4000", "throughput": "1000"}
    arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
    servers = ("--bootstrap-server", cluster.bootstrap, "--producer.config", str(config))

    with (
        assigning_consumer(cluster.bootstrap) as consumer,
        running_tool(VERIFIABLE_PRODUCER, *servers, *arguments) as finish,
    ):

        def busy_leaders() -> set[int]:
            """The leaders of partitions with records; a producer stays with one for a while."""
            return {
                leader(cluster, topic, partition)
                for partition in range(PARTITIONS)
                if consumer.get_watermark_offsets(TopicPartition(topic, partition), TIMEOUT_S)[1]
            }

        cluster.kill(wait_until(busy_leaders, "records", 60).pop(), stay_down=True)
        events = [json.loads(line) for line in finish().splitlines()]
        read = read_all(consumer, topic)

    acknowledged = {
        (event["partition"], event["offset"]): event["value"]
        for event in events
        if event["name"] == "producer_send_success"
    }
    assert acknowledged == {
        (partition, offset): (record.value or b"").decode()
        for partition, records in read.items()
        for offset, record in enumerate(records)
    }
    assert sorted(map(int, acknowledged.values())) == list(range(4_000))


# -- versions ---------------------------------------------------------------------------------


def test_every_broker_lists_its_api_versions(cluster: Cluster, run: Tool) -> None:
    text = run(BROKER_API_VERSIONS)

    for broker, (host, port) in enumerate(cluster.addresses):
        (shown,) = re.findall(
            rf"^{re.escape(host)}:{port} \(id: {broker} rack: null\) -> \((.*?)^\)",
            text,
            re.MULTILINE | re.DOTALL,
        )
        usable = re.findall(r"\((\d+)\): (\d+)(?: to (\d+))? \[usable: \d+\]", shown)
        assert {int(key): (int(low), int(high or low)) for key, low, high in usable} == {
            int(api.key): (
                api.min_version if api.advertised_min is None else api.advertised_min,
                api.max_version,
            )
            for api in (handler.api for handler in HANDLERS)
            if api.is_listed and api.key not in CLIENT_METRICS_APIS
        }


# -- log directories --------------------------------------------------------------------------


def test_log_directories_are_described_as_by_our_own_command(cluster: Cluster, run: Tool) -> None:
    topic = create_topic(cluster, partitions=2)
    text = run(LOG_DIRS, "--describe", "--topic-list", topic, "--broker-list", "0,1")
    ours = cluster.command(
        "log-dirs", "--describe", "--topic-list", topic, "--broker-list", "0,1", "--json"
    )
    (shown,) = [line for line in text.splitlines() if line.startswith("{")]
    theirs = json.loads(shown)
    own = json.loads(ours.stdout)
    assert own["version"] == theirs["version"] == 1
    assert in_order(own) == in_order(theirs)
    (directory,) = own["brokers"][0]["logDirs"]
    assert directory["logDir"] == str(cluster.log_dir(0))
    assert [each["partition"] for each in directory["partitions"]] == [f"{topic}-0", f"{topic}-1"]


def test_a_failed_log_directory_is_named_as_such(
    new_cluster: Callable[..., Cluster], shell: ToolShell
) -> None:
    with new_cluster(brokers=1, overrides={"log.dirs": "one,two"}) as cluster:
        create_topic(cluster, "t", partitions=2, replication_factor=1)
        bad = cluster.data_dir / "one" / "broker-0"
        cluster.kill(0, stay_down=True)
        bad.rename(bad.with_name("aside"))
        bad.write_bytes(b"in the way")
        cluster.restart(0)
        servers = ("--bootstrap-server", cluster.bootstrap)
        text = shell.run(LOG_DIRS, *servers, "--describe", "--topic-list", "t")
        ours = cluster.command("log-dirs", "--describe", "--topic-list", "t", "--json")
    (shown,) = [line for line in text.splitlines() if line.startswith("{")]
    own = json.loads(ours.stdout)
    assert in_order(own) == in_order(json.loads(shown))
    (failed, _) = sorted(own["brokers"][0]["logDirs"], key=lambda each: str(each["logDir"]))
    assert failed == {
        "logDir": str(bad),
        "error": "org.apache.kafka.common.errors.KafkaStorageException",
        "partitions": [],
    }


def in_order(shown: Any) -> Any:
    """What `log-dirs` prints, sorted: Kafka's tool goes by the order of hash tables."""
    return sorted(
        (
            broker["broker"],
            sorted(
                (
                    each["logDir"],
                    each["error"],
                    sorted(each["partitions"], key=lambda row: str(row["partition"])),
                )
                for each in broker["logDirs"]
            ),
        )
        for broker in shown["brokers"]
    )


def test_a_broker_that_is_unknown_or_alive_is_not_unregistered(
    cluster: Cluster, shell: ToolShell
) -> None:
    def refusal(broker: int) -> str:
        words = ("unregister", "--bootstrap-server", cluster.bootstrap, "--id", str(broker))
        return shell.run(CLUSTER_TOOL, *words, fails=True)

    unknown, alive = refusal(99), refusal(1)
    assert "BrokerIdNotRegisteredException" in unknown
    assert "InvalidRequestException" in alive
