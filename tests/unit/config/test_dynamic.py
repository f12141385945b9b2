"""Dynamic broker settings: which values may be stored, and the effect of stored ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.config import broker
from cluster.config.broker import BROKER_SETTINGS, OWN_SETTINGS
from cluster.config.describe import describe
from cluster.config.dynamic import (
    CLUSTER_WIDE,
    OWN,
    applied,
    check_change,
    is_changeable,
    texts_at,
)
from cluster.config.effect import remark_of
from cluster.config.kafka_definitions import KAFKA_DEFINITIONS
from cluster.config.setting import Update
from cluster.config.settings import broker_settings, topic_settings
from cluster.config.snapshot import Source
from cluster.config.topic import RETENTION_MS
from cluster.model.errors import ErrorCode, Refused
from tests.support.fixed_settings import FIXED_HERE

STARTED = broker_settings({"log.retention.hours": "5", "message.max.bytes": "2000000"})


@pytest.mark.parametrize("setting", OWN_SETTINGS, ids=lambda setting: setting.name)
def test_dynamic_settings_are_those_of_kafka(setting):
    for name in setting.names:
        of_kafka = KAFKA_DEFINITIONS.get(name)
        expected = Update.READ_ONLY if of_kafka is None else of_kafka.update
        if name in FIXED_HERE:
            expected = Update.READ_ONLY
        if setting is broker.REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND:
            expected = Update.PER_BROKER  # `DynamicConfig.Broker`, of which Kafka states no mode
        if setting in (
            broker.LOG_SCRUB_INTERVAL_MS,
            broker.LOG_SCRUB_MAX_BYTES_PER_SECOND,
            broker.METRICS_TOPIC_CLIENT_PRODUCE,
        ):
            expected = Update.CLUSTER_WIDE  # not in Kafka
        assert is_changeable(name) is (expected is not Update.READ_ONLY)
        assert name != setting.name or setting.update is expected


def test_a_brokers_own_value_stands_over_all_brokers_and_both_over_its_file():
    settings, problems = applied(
        STARTED,
        {
            CLUSTER_WIDE: {"log.retention.ms": "99000", "log.segment.bytes": "6000000"},
            OWN: {"log.segment.bytes": "5000000"},
        },
    )
    assert problems == ()
    assert settings[broker.LOG_SEGMENT_BYTES] == 5_000_000
    assert settings[broker.LOG_RETENTION_MS] == 99_000
    assert settings[broker.MESSAGE_MAX_BYTES] == 2_000_000
    sources = [each.source for each in settings.given(broker.LOG_SEGMENT_BYTES)]
    assert sources == [Source.DYNAMIC_BROKER, Source.DYNAMIC_DEFAULT_BROKER]
    assert topic_settings(settings, {})[RETENTION_MS] == 99_000
    assert applied(STARTED, {}).settings[broker.LOG_RETENTION_MS] == 5 * 3_600_000


def test_invalid_stored_values_are_ignored():
    settings, problems = applied(
        STARTED,
        {
            OWN: {
                "log.retention.bytes": "5",
                "nope": "1",
                "log.segment.bytes": "huge",
                "broker.id": "3",
                "log.retention.hours": "1",
                "num.io.threads": "none",
            },
            CLUSTER_WIDE: {"log.segment.bytes": "6000000", "ssl.keystore.password": "s3cret"},
        },
    )
    assert settings[broker.LOG_RETENTION_BYTES] == 5
    assert settings[broker.LOG_SEGMENT_BYTES] == 6_000_000
    assert settings[broker.BROKER_ID] == 0
    told = "\n".join(problems)
    for name in ("nope", "log.segment.bytes=huge", "Set(broker.id)", "Set(log.retention.hours)"):
        assert name in told
    assert len(problems) == 6
    assert "s3cret" not in told


def test_value_that_contradicts_one_of_higher_precedence_is_ignored():
    lags = "log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"
    settings, problems = applied(
        STARTED, {OWN: {lags[0]: "100"}, CLUSTER_WIDE: {lags[1]: "10", "log.segment.bytes": "99"}}
    )
    assert settings[broker.LOG_CLEANER_MIN_COMPACTION_LAG_MS] == 100
    assert settings[broker.LOG_SEGMENT_BYTES] == 99
    assert texts_at(settings, CLUSTER_WIDE) == {"log.segment.bytes": "99"}
    assert len(problems) == 1


@pytest.mark.parametrize(
    ("level", "given_texts", "code", "detail"),
    [
        (
            OWN,
            {"broker.id": "9", "num.partitions": "9", "log.retention.ms": "2"},
            ErrorCode.invalid_request,
            "Cannot update these configs dynamically: Set(broker.id, num.partitions)",
        ),
        (
            OWN,
            {"log.retention.hours": "2"},
            ErrorCode.invalid_request,
            "Cannot update these configs dynamically: Set(log.retention.hours)",
        ),
        (CLUSTER_WIDE, {"log.retention.ms": "soon"}, ErrorCode.invalid_request, "=soon is not"),
        (OWN, {"log.segment.bytes": "1"}, ErrorCode.invalid_request, "14 or more"),
        (OWN, {"log.segment.bytes": ""}, ErrorCode.invalid_request, "log.segment.bytes= is not"),
        (OWN, {"log.segmnt.bytes": "1"}, ErrorCode.invalid_config, "mean log.segment.bytes?"),
        (OWN, {"num.io.threads": "0"}, ErrorCode.invalid_request, "num.io.threads=0 is not valid"),
        (
            CLUSTER_WIDE,
            {"queued.max.requests": "9", "metrics.num.samples": "3"},
            ErrorCode.invalid_request,
            "configs dynamically: Set(queued.max.requests, metrics.num.samples)",
        ),
        (
            CLUSTER_WIDE,
            {"sasl.kerberos.service.name": "kafka"},
            ErrorCode.invalid_request,
            "broker id must be specified: Set(sasl.kerberos.service.name)",
        ),
        (
            CLUSTER_WIDE,
            {"ssl.keystore.password": "1"},
            ErrorCode.invalid_request,
            "at default cluster level, broker id must be specified: Set(ssl.keystore.password)",
        ),
        (
            CLUSTER_WIDE,
            {"listener.name.a.ssl.keystore.location": "1"},
            ErrorCode.invalid_request,
            "broker id must be specified: Set(listener.name.a.ssl.keystore.location)",
        ),
        (
            OWN,
            {"listener.name.a.ssl.client.auth": "none"},
            ErrorCode.invalid_request,
            "update these configs dynamically: Set(listener.name.a.ssl.client.auth)",
        ),
        (
            OWN,
            {"listener.name.a.log.dirs": "x"},
            ErrorCode.invalid_config,
            "Unknown broker setting listener.name.a.log.dirs",
        ),
        (
            OWN,
            {"log.cleaner.min.compaction.lag.ms": "2", "log.cleaner.max.compaction.lag.ms": "1"},
            ErrorCode.invalid_request,
            "lower it",
        ),
    ],
)
def test_change_of_a_fixed_setting_is_refused(level, given_texts, code, detail):
    with pytest.raises(Refused) as refused:
        check_change(
            STARTED, level, {OWN: {}, CLUSTER_WIDE: {}} | {level: given_texts}, given_texts
        )
    assert (refused.value.code, detail in refused.value.detail) == (code, True)


@pytest.mark.parametrize(
    ("level", "name", "value"),
    [
        (CLUSTER_WIDE, "num.network.threads", "9"),
        (CLUSTER_WIDE, "background.threads", "9"),
        (OWN, "background.threads", "9"),
        (CLUSTER_WIDE, "metric.reporters", "com.acme.Reporter"),
        (OWN, "sasl.kerberos.min.time.before.relogin", "58000"),
        (OWN, "listener.name.a.num.network.threads", "5"),
        (OWN, "principal.builder.class", broker.PRINCIPAL_BUILDER_CLASS.default),
    ],
)
def test_a_dynamic_config_without_effect_is_stored_with_a_remark(level, name, value):
    stored = {OWN: {}, CLUSTER_WIDE: {}} | {level: {name: value}}
    check_change(STARTED, level, stored, [name])
    settings, problems = applied(STARTED, stored)
    assert problems == ()
    (entry,) = [each for each in describe(settings) if each.name == name]
    assert (entry.value, entry.source, entry.read_only) == (value, level, False)
    assert "accepted, without effect yet: " in remark_of(entry.documentation)


def test_invalid_stored_values_do_not_prevent_changes():
    stored = {"broker.id": "3", "nope": "x", "log.segment.bytes": "77"}
    check_change(STARTED, OWN, {OWN: stored, CLUSTER_WIDE: {"a": "b"}}, ["log.segment.bytes"])
    check_change(STARTED, OWN, {OWN: stored, CLUSTER_WIDE: {}}, ["removed.long.ago"])


TEXTS = st.dictionaries(
    st.sampled_from([*sorted(name for s in BROKER_SETTINGS for name in s.names), "nope", ""]),
    st.sampled_from(["0", "1", "14", "100", "-1", "true", "delete,compact", "", "x", "2147483648"]),
    max_size=6,
)


@given(own=TEXTS, cluster_wide=TEXTS)
def test_every_stored_value_is_applied_or_reported(own, cluster_wide):
    settings, problems = applied(STARTED, {OWN: own, CLUSTER_WIDE: cluster_wide})
    used_own, used_wide = texts_at(settings, OWN), texts_at(settings, CLUSTER_WIDE)
    assert used_own.items() <= own.items()
    assert used_wide.items() <= cluster_wide.items()
    assert len(problems) == len(own) + len(cluster_wide) - len(used_own) - len(used_wide)
    for setting in BROKER_SETTINGS:
        text = used_own.get(setting.name, used_wide.get(setting.name))
        started = STARTED[setting]
        assert settings[setting] == (started if text is None else setting.parse(setting.name, text))
    again, _ = applied(STARTED, {OWN: used_own, CLUSTER_WIDE: used_wide})
    assert again.layers == settings.layers


@given(stored=TEXTS, added=TEXTS, other=TEXTS)
def test_a_change_that_is_allowed_is_in_force_afterwards(stored, added, other):
    after = {**stored, **added}
    levels = {OWN: after, CLUSTER_WIDE: other}
    try:
        check_change(STARTED, OWN, levels, added)
    except Refused:
        return
    settings, _ = applied(STARTED, levels)
    assert added.items() <= texts_at(settings, OWN).items()
