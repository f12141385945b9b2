import pytest

from cluster.config.settings import broker_settings, topic_settings
from cluster.model.errors import Refused, UserError


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"log.dirs": ","}, "log.dirs is empty"),
        ({"replica.fetch.wait.max.ms": "20", "replica.lag.time.max.ms": "10"}, "leave the ISR"),
        ({"message.max.bytes": "20", "socket.request.max.bytes": "10"}, "could never arrive"),
        ({"queued.max.request.bytes": "10"}, "would never be read"),
        (
            {
                "log.cleaner.min.compaction.lag.ms": "20",
                "log.cleaner.max.compaction.lag.ms": "10",
            },
            "is above",
        ),
        ({"group.coordinator.rebalance.protocols": "consumer"}, "must have classic"),
        ({"group.consumer.session.timeout.ms": "44999"}, "group.consumer.min.session.timeout.ms"),
        ({"group.consumer.session.timeout.ms": "60001"}, "group.consumer.max.session.timeout.ms"),
        ({"group.consumer.heartbeat.interval.ms": "20000"}, "group.consumer.max.heartbeat"),
        ({"group.consumer.min.heartbeat.interval.ms": "6000"}, "group.consumer.heartbeat"),
        (
            {
                "group.consumer.heartbeat.interval.ms": "45000",
                "group.consumer.max.heartbeat.interval.ms": "45000",
            },
            "must be less than",
        ),
    ],
)
def test_broker_settings_that_contradict_each_other(texts, message):
    with pytest.raises(UserError, match=message):
        broker_settings(texts)


@pytest.mark.parametrize(
    "texts",
    [
        {"min.compaction.lag.ms": "20", "max.compaction.lag.ms": "10"},
        {"compression.gzip.level": "0"},
        {"remote.storage.enable": "true"},
        {"local.retention.ms": "20", "retention.ms": "10"},
        {"local.retention.bytes": "-1", "retention.bytes": "10"},
    ],
)
def test_topic_settings_that_contradict_each_other(texts):
    with pytest.raises(Refused):
        topic_settings(broker_settings({}), texts)


def test_settings_of_different_topics_are_fine():
    broker = broker_settings({})
    topic_settings(broker, {"local.retention.ms": "5", "retention.ms": "10"})
    topic_settings(broker, {"local.retention.ms": "-1", "retention.ms": "-1"})
