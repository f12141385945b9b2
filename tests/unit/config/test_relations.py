import pytest

from cluster.config.settings import broker_settings, topic_settings
from cluster.model.errors import ErrorCode, Refused, UserError


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
def test_contradictory_broker_settings_are_refused(texts, message):
    with pytest.raises(UserError, match=message):
        broker_settings(texts)


@pytest.mark.parametrize(
    "texts",
    [
        {"min.compaction.lag.ms": "20", "max.compaction.lag.ms": "10"},
        {"compression.gzip.level": "0"},
        {"remote.storage.enable": "true"},
    ],
)
def test_contradictory_topic_settings_are_refused(texts):
    with pytest.raises(Refused):
        topic_settings(broker_settings({}), texts)


def test_settings_of_different_topics_do_not_conflict():
    broker = broker_settings({})
    topic_settings(broker, {"local.retention.ms": "5", "retention.ms": "10"})
    topic_settings(broker, {"local.retention.ms": "-1", "retention.ms": "-1"})
    # Without a remote tier the two are not compared, as in Kafka 4.1.
    topic_settings(broker, {"local.retention.ms": "20", "retention.ms": "10"})
    topic_settings(broker, {"local.retention.bytes": "-1", "retention.bytes": "10"})


@pytest.mark.parametrize(
    ("texts", "is_valid"),
    [
        ({"cleanup.policy": ""}, True),
        ({"cleanup.policy": "compact,compact"}, True),
        ({"cleanup.policy": " delete , compact "}, True),
        ({"cleanup.policy": "delete,"}, False),
        ({"cleanup.policy": ",delete"}, False),
        ({"cleanup.policy": ","}, False),
        ({"retention.bytes": "-5"}, True),
        ({"retention.ms": "-5"}, False),
        ({"local.retention.ms": "-5"}, False),
        ({"leader.replication.throttled.replicas": "0:1,"}, True),
        ({"leader.replication.throttled.replicas": ""}, True),
        ({"leader.replication.throttled.replicas": " * "}, True),
        ({"follower.replication.throttled.replicas": "0:1, 12:3"}, True),
        ({"follower.replication.throttled.replicas": "*,0:1"}, False),
        ({"follower.replication.throttled.replicas": "none"}, False),
        ({"follower.replication.throttled.replicas": "0:1:2"}, False),
        ({"follower.replication.throttled.replicas": "-1:1"}, False),
        ({"follower.replication.throttled.replicas": "0"}, False),
    ],
)
def test_topic_settings_are_checked_like_in_kafka_4_1(texts, is_valid):
    if is_valid:
        topic_settings(broker_settings({}), texts)
        return
    with pytest.raises(Refused) as refused:
        topic_settings(broker_settings({}), texts)
    assert refused.value.code is ErrorCode.invalid_config
