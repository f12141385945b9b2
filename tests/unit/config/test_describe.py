from cluster.config.describe import Synonym, describe, describe_level
from cluster.config.dynamic import CLUSTER_WIDE, OWN, applied
from cluster.config.effect import remark_of
from cluster.config.kafka_definitions import KAFKA_DEFINITIONS
from cluster.config.settings import broker_settings, topic_settings
from cluster.config.snapshot import Source
from cluster.config.value_type import TypeCode

BROKER = broker_settings({"log.retention.hours": "2"})


def entry(settings, name):
    (found,) = [entry for entry in describe(settings) if entry.name == name]
    return found


def test_a_topic_value_from_its_broker_is_a_default_with_its_origin():
    retention = entry(topic_settings(BROKER, {}), "retention.ms")
    assert retention.value == "7200000"
    assert (retention.source, retention.is_default) == (Source.STATIC_BROKER, True)
    assert retention.type is TypeCode.LONG
    assert retention.synonyms == (
        Synonym("log.retention.hours", "2", Source.STATIC_BROKER),
        Synonym("log.retention.ms", "604800000", Source.DEFAULT),
    )


def test_a_topics_own_value_comes_first():
    retention = entry(topic_settings(BROKER, {"retention.ms": "5"}), "retention.ms")
    assert (retention.value, retention.source, retention.is_default) == (
        "5",
        Source.DYNAMIC_TOPIC,
        False,
    )
    assert [synonym.source for synonym in retention.synonyms] == [
        Source.DYNAMIC_TOPIC,
        Source.STATIC_BROKER,
        Source.DEFAULT,
    ]


def test_a_broker_shows_a_setting_under_each_of_its_names():
    assert entry(BROKER, "log.retention.ms").value == "7200000"
    assert entry(BROKER, "log.retention.minutes").value == "120"
    assert entry(BROKER, "log.retention.hours").value == "2"
    odd = broker_settings({"log.retention.ms": "1"})
    assert entry(odd, "log.retention.hours").value is None


def test_read_only_settings_are_marked():
    assert entry(BROKER, "broker.id").read_only
    assert entry(BROKER, "log.retention.hours").read_only  # its own name is log.retention.ms
    assert not entry(BROKER, "message.max.bytes").read_only
    assert not entry(topic_settings(BROKER, {}), "max.message.bytes").read_only


def test_a_value_for_all_brokers_names_its_source():
    dynamic, _ = applied(BROKER, {CLUSTER_WIDE: {"message.max.bytes": "9"}})
    assert entry(dynamic, "message.max.bytes").source is Source.DYNAMIC_DEFAULT_BROKER
    (only,) = describe_level(dynamic, CLUSTER_WIDE)
    assert (only.name, only.value, only.read_only) == ("message.max.bytes", "9", False)
    assert only.synonyms == (Synonym("message.max.bytes", "9", Source.DYNAMIC_DEFAULT_BROKER),)


def test_protocol_version_and_topic_deletion_are_described_as_tools_expect():
    assert entry(BROKER, "inter.broker.protocol.version").value == "3.9"
    assert entry(BROKER, "delete.topic.enable").value == "true"


def test_absent_values_are_null():
    rack = entry(BROKER, "broker.rack")
    assert (rack.value, rack.synonyms) == (None, ())
    throttled = entry(topic_settings(BROKER, {}), "leader.replication.throttled.replicas")
    assert throttled.value == ""


def test_a_broker_lists_what_current_releases_of_kafka_list_with_their_types():
    listed = {each.name: each for each in describe(BROKER)}
    for of_kafka in KAFKA_DEFINITIONS.values():
        if of_kafka.is_listed:
            assert listed[of_kafka.name].type is of_kafka.type.code
            assert listed[of_kafka.name].sensitive is (of_kafka.type.code is TypeCode.PASSWORD)
    assert (listed["num.network.threads"].value, listed["num.network.threads"].read_only) == (
        "3",
        False,
    )
    assert listed["metric.reporters"].type is TypeCode.LIST
    assert listed["log.retention.hours"].type is TypeCode.INT
    for old_or_internal in ("port", "unstable.api.versions.enable", "leader.replication.throttled"):
        assert old_or_internal not in listed
    given = broker_settings({"port": "9092"})
    assert entry(given, "port").source is Source.STATIC_BROKER


def test_entries_are_sorted_and_documented():
    names = [entry.name for entry in describe(BROKER)]
    assert names == sorted(names)
    assert all(entry.documentation[-1] in ".)" for entry in describe(BROKER))


def test_documentation_ends_with_the_missing_effect():
    assert remark_of(entry(BROKER, "controlled.shutdown.max.retries").documentation) == (
        "accepted, without effect yet:"
        " a stopping broker repeats its request for three seconds, and again if the controller"
        " changes"
    )
    remote = entry(topic_settings(BROKER, {}), "remote.storage.enable")
    assert remote.documentation == (
        "Whether closed segments are copied to a remote tier."
        " (accepted, without effect yet: there is no remote tier)"
    )
    protocols = entry(BROKER, "group.coordinator.rebalance.protocols")
    assert remark_of(protocols.documentation) == (
        "effective in part: there are no streams groups or share groups"
    )
    assert remark_of(entry(BROKER, "message.max.bytes").documentation) is None
    assert remark_of(None) is None


def test_other_names_of_a_setting_do_not_change_in_use():
    dynamic, _ = applied(BROKER, {CLUSTER_WIDE: {"log.retention.ms": "99000"}})
    assert entry(dynamic, "log.retention.ms").value == "99000"
    hours = entry(dynamic, "log.retention.hours")
    assert (hours.value, hours.source, hours.read_only) == ("2", Source.STATIC_BROKER, True)
    assert [each.source for each in hours.synonyms] == [Source.STATIC_BROKER, Source.DEFAULT]


def test_no_password_is_shown_wherever_it_comes_from():
    key = "listener.name.a.plain.sasl.jaas.config"
    started = broker_settings({"ssl.key.password": "s3cret", key: "s3cret"})
    settings, problems = applied(started, {OWN: {"ssl.keystore.password": "s3cret"}})
    assert problems == ()
    assert "s3cret" not in str(describe(settings))
    assert "s3cret" not in str(describe_level(settings, OWN))
    for name in ("ssl.key.password", "ssl.keystore.password", key):
        shown = entry(settings, name)
        assert (shown.value, shown.sensitive, shown.type) == (None, True, TypeCode.PASSWORD)


def test_a_value_of_a_listener_is_shown_with_what_it_stands_over():
    key = "listener.name.a.ssl.keystore.location"
    started = broker_settings({key: "of the listener", "ssl.keystore.location": "of the broker"})
    settings, _ = applied(started, {OWN: {key: "new"}})
    shown = entry(settings, key)
    assert (shown.value, shown.source) == ("new", Source.DYNAMIC_BROKER)
    assert (shown.read_only, shown.is_default) == (False, False)
    assert shown.synonyms == (
        Synonym(key, "new", Source.DYNAMIC_BROKER),
        Synonym(key, "of the listener", Source.STATIC_BROKER),
        Synonym("ssl.keystore.location", "of the broker", Source.STATIC_BROKER),
    )
    assert entry(started, "listener.name.a.ssl.keystore.location").value == "of the listener"
    fixed = broker_settings({"listener.name.a.ssl.client.auth": "none"})
    assert entry(fixed, "listener.name.a.ssl.client.auth").read_only
