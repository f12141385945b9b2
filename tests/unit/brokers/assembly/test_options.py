"""Settings of quota windows, group coordination and topics."""

import pytest

from cluster.brokers.assembly.options import (
    advertised_endpoints,
    automatic_topic,
    group_coordinator_options,
    group_options,
    log_options,
    quota_windows,
)
from cluster.brokers.coordinators.options import CoordinatorOptions
from cluster.config.settings import broker_settings
from cluster.coordinator.groups.shared.options import GroupOptions
from cluster.model.cluster import Endpoint
from cluster.model.error_codes import ErrorCode
from cluster.model.errors import UserError
from cluster.model.topics import CONSUMER_OFFSETS_TOPIC, NewTopic
from cluster.quotas.sampled_rate import WindowCredit, WindowOptions
from cluster.records.batch import Compression


def test_quota_windows_default_to_eleven_seconds_without_credit():
    assert quota_windows(broker_settings({})) == WindowOptions(11, 1_000, WindowCredit.ELAPSED)


def test_quota_windows_follow_the_settings():
    settings = broker_settings(
        {
            "milena.quota.window.credit": "kafka",
            "quota.window.num": "5",
            "quota.window.size.seconds": "2",
        }
    )
    assert quota_windows(settings) == WindowOptions(5, 2_000, WindowCredit.KAFKA)


def test_unknown_quota_credit_is_refused():
    with pytest.raises(UserError, match="elapsed or kafka"):
        broker_settings({"milena.quota.window.credit": "much"})


def test_offsets_topic_is_created_with_its_settings():
    compact = {"cleanup.policy": "compact", "compression.type": "producer"}
    by_default = {**compact, "segment.bytes": "104857600"}
    assert automatic_topic(broker_settings({}), CONSUMER_OFFSETS_TOPIC) == NewTopic(
        CONSUMER_OFFSETS_TOPIC, 50, 3, configs=by_default
    )
    settings = broker_settings(
        {
            "offsets.topic.num.partitions": "7",
            "offsets.topic.replication.factor": "2",
            "offsets.topic.segment.bytes": "1048576",
        }
    )
    assert automatic_topic(settings, CONSUMER_OFFSETS_TOPIC) == NewTopic(
        CONSUMER_OFFSETS_TOPIC, 7, 2, configs={**compact, "segment.bytes": "1048576"}
    )
    assert automatic_topic(settings, "orders") == NewTopic("orders")


def test_options_of_the_group_coordinator_follow_the_settings():
    # The defaults of the options are Kafka's, and so are those of the settings.
    settings = broker_settings({})
    assert group_options(settings) == GroupOptions()
    assert group_coordinator_options(settings) == CoordinatorOptions(
        CONSUMER_OFFSETS_TOPIC, ErrorCode.invalid_group_id, 5 << 20, 5_000, Compression.NONE
    )
    settings = broker_settings(
        {
            "group.min.session.timeout.ms": "1",
            "group.max.session.timeout.ms": "2",
            "group.initial.rebalance.delay.ms": "3",
            "group.max.size": "4",
            "offset.metadata.max.bytes": "5",
            "offsets.retention.minutes": "6",
            "offsets.retention.check.interval.ms": "7",
            "offsets.load.buffer.size": "8",
            "offsets.commit.timeout.ms": "9",
            "offsets.topic.compression.codec": "2",
        }
    )
    assert group_options(settings) == GroupOptions(1, 2, 3, 4, 5, 6 * 60_000, 7)
    assert group_coordinator_options(settings) == CoordinatorOptions(
        CONSUMER_OFFSETS_TOPIC, ErrorCode.invalid_group_id, 8, 9, Compression.SNAPPY
    )


def test_invalid_stored_topic_configs_are_ignored(caplog):
    broker = broker_settings({})
    stored = {
        "confluent.tier.enable": "false",
        "segment.bytes": "12345",
        "retention.ms": "-17",
        "min.compaction.lag.ms": "20",
        "max.compaction.lag.ms": "10",
        "min.insync.replicas": "2",
    }

    options, min_insync_replicas = log_options(broker, stored)
    log_options(broker, stored)

    assert options.segment_bytes == 12345
    assert options.segment_ms == log_options(broker, {})[0].segment_ms
    assert min_insync_replicas == 2
    refused = [record.getMessage() for record in caplog.records]
    assert len(refused) == 3  # each said once
    assert "confluent.tier.enable" in refused[0]
    assert "retention.ms=-17" in refused[1]
    assert "min.compaction.lag.ms" in refused[2]


def test_clients_get_only_advertised_listeners_with_their_protocols():
    texts = {
        "listeners": "A://h:1,B://h:0",
        "listener.security.protocol.map": "A:PLAINTEXT,B:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    }
    bound = {"A": 1, "B": 77}
    assert advertised_endpoints(broker_settings(texts), bound) == (
        Endpoint("A", "PLAINTEXT", "h", 1),
        Endpoint("B", "SASL_PLAINTEXT", "h", 77),
    )
    one = broker_settings({**texts, "advertised.listeners": "B://away:9"})
    assert advertised_endpoints(one, bound) == (Endpoint("B", "SASL_PLAINTEXT", "away", 9),)
