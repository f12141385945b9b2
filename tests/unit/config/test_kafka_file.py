import pytest

from cluster.config.kafka_file import read_kafka_texts
from cluster.config.properties_file import parse_properties
from cluster.config.setting import SettingError
from cluster.config.settings import broker_settings
from tests.support import kafka_files

QUORUM = "the registry takes the place of KRaft's controller quorum"


def read(text: str):
    return read_kafka_texts(parse_properties(text).texts)


@pytest.mark.parametrize(
    "text",
    [
        kafka_files.SERVER_4_1,
        kafka_files.BROKER_4_1,
        kafka_files.KRAFT_SERVER_3_9,
        kafka_files.KRAFT_BROKER_3_9,
        kafka_files.ZOOKEEPER_SERVER_3_9,
    ],
)
def test_a_brokers_file_of_kafkas_distribution_leaves_valid_settings(text):
    found = read(text)
    broker_settings(found.texts)
    assert found.texts["log.retention.hours"] == "168"
    given = parse_properties(text).texts
    said = " ".join(found.remarks)
    understood = {"listener.security.protocol.map"}
    assert all(key in found.texts or key in said for key in given.keys() - understood)


def test_kafkas_single_node_file_is_explained():
    found = read(kafka_files.SERVER_4_1)
    assert found.texts["listeners"] == "PLAINTEXT://:9092"
    assert found.texts["advertised.listeners"] == "PLAINTEXT://localhost:9092"
    assert found.texts["node.id"] == "1"
    assert found.advertised_host == "localhost"
    assert found.remarks == [
        f"listeners: CONTROLLER://:9093 is left out ({QUORUM}).",
        f"advertised.listeners: CONTROLLER://localhost:9093 is left out ({QUORUM}).",
        "Without effect here: controller.listener.names, controller.quorum.bootstrap.servers,"
        f" process.roles ({QUORUM}).",
        "Without effect here: inter.broker.listener.name"
        " (brokers reach each other by links that are no listeners).",
        "Without effect here: num.io.threads, num.network.threads"
        " (one thread serves a broker, beside a few with fixed tasks).",
        "Without effect here: share.coordinator.state.topic.min.isr,"
        " share.coordinator.state.topic.replication.factor (there are no share groups).",
        "Without effect here: transaction.state.log.min.isr,"
        " transaction.state.log.replication.factor (there are no transactions yet).",
    ]


def test_a_file_of_settings_alone_is_left_as_it_is():
    texts = {"num.partitions": "3", "listeners": "PLAINTEXT://:9092", "no.such.key": "1"}
    assert read_kafka_texts(texts) == (texts, None, [])


@pytest.mark.parametrize(
    ("text", "key", "reason"),
    [
        (kafka_files.CONTROLLER_4_1, "process.roles", "a node without a broker"),
        ("process.roles=boss", "process.roles", "must be broker or broker,controller"),
        ("process.roles=", "process.roles", "must be broker or broker,controller"),
        ("listeners=SSL://:9093", "listeners", "needs the security protocol SSL, which is not"),
        ("advertised.listeners=SASL_SSL://a:1", "advertised.listeners", "protocol SASL_SSL"),
        ("listeners=CLIENTS://:1", "listeners", "needs an entry for CLIENTS in"),
        ("listeners=PLAINTEXT", "listeners", "must be a comma-separated list of NAME://"),
        (
            "listeners=A://:1\nlistener.security.protocol.map=A:SASL_PLAINTEXT",
            "listeners",
            "A://:1 needs the security protocol SASL_PLAINTEXT",
        ),
        (
            "listener.security.protocol.map=A:TLS",
            "listener.security.protocol.map",
            "NAME:PROTOCOL, which A:TLS is not",
        ),
        ("security.inter.broker.protocol=SSL", "security.inter.broker.protocol", "protocol SSL"),
        ("ssl.keystore.location=a.jks", "ssl.keystore.location", "no authentication"),
        ("sasl.enabled.mechanisms=PLAIN", "sasl.enabled.mechanisms", "no authentication"),
        ("super.users=User:a", "super.users", "authorization yet"),
    ],
)
def test_what_cannot_be_had_is_refused_by_name(text, key, reason):
    with pytest.raises(SettingError) as refused:
        read(text)
    assert refused.value.name == key
    assert str(refused.value).startswith(key)
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)


def test_listeners_with_names_of_their_own_are_read_through_the_protocol_map():
    found = read(
        "listeners=INTERNAL://:19092,EXTERNAL://:9092\n"
        "listener.security.protocol.map=INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT\n"
        "security.inter.broker.protocol=PLAINTEXT\n"
    )
    assert found.texts == {"listeners": "PLAINTEXT://:19092"}
    assert found.remarks == [
        "listeners: only INTERNAL://:19092 is used, as brokers have one listener."
    ]


@pytest.mark.parametrize(
    ("listeners", "host"),
    [
        ("listeners=PLAINTEXT://:9092\n", "a"),
        ("listeners=PLAINTEXT://:9093\n", None),
        ("", None),
    ],
)
def test_an_advertised_host_is_for_any_port_where_the_port_is_the_one_listened_on(listeners, host):
    assert read(f"{listeners}advertised.listeners=PLAINTEXT://a:9092").advertised_host == host


def test_a_listener_named_controller_needs_no_mention_in_a_kraft_file():
    found = read("process.roles=broker,controller\nlisteners=PLAINTEXT://:1,CONTROLLER://:2")
    assert found.texts == {"listeners": "PLAINTEXT://:1"}
