import pytest

from cluster.config.kafka_file import KafkaFile, read_kafka_texts, unknown_keys
from cluster.config.properties_file import parse_properties
from cluster.config.remarks import remarks_on
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
    assert all(key in found.texts or key in said for key in given)
    assert found.unknown == ()


def test_kafkas_single_node_file_is_explained():
    found = read(kafka_files.SERVER_4_1)
    assert found.texts["listeners"] == "PLAINTEXT://:9092"
    assert found.texts["advertised.listeners"] == "PLAINTEXT://localhost:9092"
    assert found.texts["node.id"] == "1"
    assert found.remarks == [
        f"listeners: CONTROLLER://:9093 is left out ({QUORUM}).",
        f"advertised.listeners: CONTROLLER://localhost:9093 is left out ({QUORUM}).",
        "Without effect here: controller.listener.names, controller.quorum.bootstrap.servers,"
        f" process.roles ({QUORUM}).",
        "Without effect here: share.coordinator.state.topic.min.isr,"
        " share.coordinator.state.topic.replication.factor (there are no share groups).",
    ]


def test_file_of_plain_settings_is_unchanged():
    texts = {"num.partitions": "3", "listeners": "PLAINTEXT://:9092"}
    assert read_kafka_texts(texts) == (texts, [], ())


def test_an_unknown_key_of_a_file_is_left_out_and_one_of_an_override_stays_to_be_refused():
    found = read_kafka_texts({"no.such.key": "1", "log.segmnt.bytes": "s3cret"}, {"other": "2"})
    assert found == KafkaFile({"other": "2"}, [], ("no.such.key", "log.segmnt.bytes"))
    line = unknown_keys(found.unknown, "a.properties", {"no.such.key": 1, "log.segmnt.bytes": 7})
    assert line == (
        "Warning: a.properties: unknown broker settings are left out: no.such.key (line 1),"
        " log.segmnt.bytes (line 7; did you mean log.segment.bytes?)."
    )


def test_names_of_java_classes_are_told_and_no_password_is():
    found = read(
        "metric.reporters=com.acme.Reporter,com.acme.Other\n"
        "create.topic.policy.class.name=com.acme.Policy\n"
        "sasl.oauthbearer.client.credentials.client.secret=s3cret\n"
        "rsm.config.aws.secret.access.key=s3cret\n"
        "listener.name.a.ssl.engine.factory.class=com.acme.Engine\n"
    )
    assert found.remarks == [
        "Without effect here: create.topic.policy.class.name=com.acme.Policy,"
        " listener.name.a.ssl.engine.factory.class=com.acme.Engine,"
        " metric.reporters=com.acme.Reporter,com.acme.Other (Java classes cannot be loaded).",
        "Without effect here: sasl.oauthbearer.client.credentials.client.secret"
        " (brokers connect to each other by links that are not listeners).",
        "Without effect here: rsm.config.aws.secret.access.key (there is no remote tier).",
    ]


@pytest.mark.parametrize("release", ["2.7", "3.9", "4.1"])
def test_a_file_with_every_setting_of_kafka_at_its_default_is_taken_whole(release):
    texts = kafka_files.every_setting(release)
    assert len(texts) > 150
    found = read_kafka_texts(texts)
    assert found == (texts, [], ())
    remarks = remarks_on(broker_settings(texts))
    assert {each.split()[1] for each in remarks} <= {
        "inter.broker.protocol.version",  # here it is 3.9
        "group.coordinator.rebalance.protocols",  # that of 4.1 has streams groups
    }


@pytest.mark.parametrize(
    ("text", "key", "reason"),
    [
        (kafka_files.CONTROLLER_4_1, "process.roles", "a node without a broker"),
        ("process.roles=boss", "process.roles", "must be broker or broker,controller"),
        ("listeners=PLAINTEXT", "listeners", "must be a comma-separated list of NAME://"),
        ("num.io.threads=many", "num.io.threads", "must be a whole number, 1 or more"),
    ],
)
def test_unsupported_settings_are_refused_by_name(text, key, reason):
    with pytest.raises(SettingError) as refused:
        read(text)
    assert refused.value.name == key
    assert str(refused.value).startswith(key)
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)


def test_identity_settings_are_kept():
    texts = {
        "listeners": "INTERNAL://:19092,EXTERNAL://:9092",
        "listener.security.protocol.map": "INTERNAL:SSL,EXTERNAL:SASL_SSL",
        "inter.broker.listener.name": "INTERNAL",
        "ssl.keystore.location": "/a/keys.p12",
        "ssl.keystore.password": "s3cret",
        "listener.name.external.scram-sha-512.sasl.jaas.config": "a.B required;",
        "super.users": "User:admin",
    }
    assert read_kafka_texts(texts) == (texts, [], ())


def test_settings_that_name_java_classes_have_a_remark():
    found = read("ssl.provider=BC\nlistener.name.a.ssl.trustmanager.algorithm=PKX")
    assert found.remarks == [
        "Without effect here: listener.name.a.ssl.trustmanager.algorithm, ssl.provider"
        " (it selects a part of the Java runtime)."
    ]


def test_a_listener_named_controller_needs_no_mention_in_a_kraft_file():
    found = read("process.roles=broker,controller\nlisteners=PLAINTEXT://:1,CONTROLLER://:2")
    assert found.texts["listeners"] == "PLAINTEXT://:1"
