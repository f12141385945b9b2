import fnmatch

import pytest

from cluster.config.broker import BROKER_SETTINGS
from cluster.config.kafka_keys import WITHOUT_EFFECT
from cluster.config.topic import TOPIC_SETTINGS

TOPIC_NAMES_OF_KAFKA_3_9 = """
cleanup.policy compression.gzip.level compression.lz4.level compression.type
compression.zstd.level delete.retention.ms file.delete.delay.ms flush.messages flush.ms
follower.replication.throttled.replicas index.interval.bytes
leader.replication.throttled.replicas local.retention.bytes local.retention.ms
max.compaction.lag.ms max.message.bytes message.downconversion.enable message.format.version
message.timestamp.after.max.ms message.timestamp.before.max.ms message.timestamp.type
min.cleanable.dirty.ratio min.compaction.lag.ms min.insync.replicas preallocate
remote.storage.enable retention.bytes retention.ms segment.bytes segment.index.bytes
segment.jitter.ms segment.ms unclean.leader.election.enable
"""


def test_topics_have_the_settings_of_kafka():
    names = sorted(setting.name for setting in TOPIC_SETTINGS)
    assert names == TOPIC_NAMES_OF_KAFKA_3_9.split()


@pytest.mark.parametrize(
    "setting", [*BROKER_SETTINGS, *TOPIC_SETTINGS], ids=lambda setting: setting.name
)
def test_a_default_is_a_valid_value_and_reads_back(setting):
    assert setting.parse(setting.name, setting.render(setting.default) or "") == setting.default


def test_a_key_without_effect_is_not_a_setting_as_well():
    names = [name for setting in BROKER_SETTINGS for name in setting.names]
    assert not [key for key in WITHOUT_EFFECT if fnmatch.filter(names, key)]
