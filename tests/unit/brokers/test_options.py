"""Settings that choose how the quota core measures, and what is made of a topic's configs."""

import pytest

from cluster.brokers.options import log_options, quota_windows
from cluster.brokers.quotas.sampled_rate import WindowCredit, WindowOptions
from cluster.config.settings import broker_settings
from cluster.model.errors import UserError


def test_windows_are_eleven_seconds_without_credit_unless_set():
    assert quota_windows(broker_settings({})) == WindowOptions(11, 1_000, WindowCredit.ELAPSED)


def test_kafkas_credit_and_other_windows():
    settings = broker_settings(
        {
            "milena.quota.window.credit": "kafka",
            "quota.window.num": "5",
            "quota.window.size.seconds": "2",
        }
    )
    assert quota_windows(settings) == WindowOptions(5, 2_000, WindowCredit.KAFKA)


def test_another_credit_is_refused():
    with pytest.raises(UserError, match="elapsed or kafka"):
        broker_settings({"milena.quota.window.credit": "much"})


def test_a_topic_has_the_configs_that_are_understood(caplog):
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
