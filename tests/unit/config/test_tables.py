import fnmatch

import pytest

from cluster.config.broker import BROKER_SETTINGS, OWN_SETTINGS, SETTINGS_OF_KAFKA
from cluster.config.kafka_definitions import KAFKA_DEFINITIONS
from cluster.config.kafka_keys import WITHOUT_EFFECT
from cluster.config.topic import TOPIC_SETTINGS

TOPIC_NAMES_OF_KAFKA = """
cleanup.policy compression.gzip.level compression.lz4.level compression.type
compression.zstd.level delete.retention.ms file.delete.delay.ms flush.messages flush.ms
follower.replication.throttled.replicas index.interval.bytes
leader.replication.throttled.replicas local.retention.bytes local.retention.ms
max.compaction.lag.ms max.message.bytes message.downconversion.enable message.format.version
message.timestamp.after.max.ms message.timestamp.before.max.ms message.timestamp.type
min.cleanable.dirty.ratio min.compaction.lag.ms min.insync.replicas preallocate
remote.log.copy.disable
remote.log.delete.on.disable remote.storage.enable
retention.bytes retention.ms segment.bytes segment.index.bytes
segment.jitter.ms segment.ms unclean.leader.election.enable
"""


def test_topics_have_the_settings_of_kafka():
    names = sorted(setting.name for setting in TOPIC_SETTINGS)
    assert names == TOPIC_NAMES_OF_KAFKA.split()


@pytest.mark.parametrize(
    "setting", [*BROKER_SETTINGS, *TOPIC_SETTINGS], ids=lambda setting: setting.name
)
def test_a_default_is_a_valid_value_and_reads_back(setting):
    assert setting.parse(setting.name, setting.render(setting.default) or "") == setting.default


@pytest.mark.parametrize("pattern", WITHOUT_EFFECT)
def test_each_reason_for_no_effect_is_for_a_setting_that_is_stated_nowhere_else(pattern):
    of_kafka = [setting.name for setting in SETTINGS_OF_KAFKA]
    if pattern == "sasl.oauthbearer.header.urlencode":
        return  # of 3.9.2 and 4.0.1
    assert fnmatch.filter(of_kafka, pattern)


def test_every_setting_of_kafka_is_in_the_table():
    assert not [name for name in KAFKA_DEFINITIONS if name not in BROKER_SETTINGS]


DIFFERENT_DEFAULTS = {
    "authorizer.class.name",  # null, not an empty text
    "broker.id",
    "group.coordinator.rebalance.protocols",  # no streams groups
    "inter.broker.protocol.version",
    "listener.security.protocol.map",  # in another order
    "listeners",  # loopback only
    "log.dirs",
    "password.encoder.keyfactory.algorithm",
    "queued.max.request.bytes",  # a part of the machine's memory
    "sasl.oauthbearer.expected.audience",
    "zookeeper.connect",
}
NULL_IN_KAFKA = {"log.flush.interval.ms", "log.retention.ms", "log.roll.jitter.ms", "log.roll.ms"}
"""Settings that default to another one in Kafka."""


@pytest.mark.parametrize("setting", OWN_SETTINGS, ids=lambda setting: setting.name)
def test_a_default_is_that_of_kafka(setting):
    of_kafka = KAFKA_DEFINITIONS.get(setting.name)
    if of_kafka is None or setting.name in DIFFERENT_DEFAULTS:
        return
    if setting.name in NULL_IN_KAFKA or setting.name.startswith("zookeeper."):
        assert of_kafka.default is None or of_kafka.default == setting.default
        return
    expected = None if of_kafka.default is None else of_kafka.type.render(of_kafka.default)
    assert setting.render(setting.default) == expected
