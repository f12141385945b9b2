"""A topic's settings, under Kafka's names; most follow a broker setting unless overridden."""

from typing import Final, TypeVar

from cluster.config import broker
from cluster.config.effect import EFFECTIVE, Effect, without_effect
from cluster.config.setting import Scope, Setting, SettingTable, Update
from cluster.config.value_type import (
    ValueType,
    boolean,
    long,
    matching,
    throttled_replicas,
)

T = TypeVar("T")

TOPIC_SETTINGS: Final = SettingTable("topic")

_THROTTLED_REPLICAS: Final = throttled_replicas()

_NO_REMOTE_TIER: Final = without_effect("there is no remote tier")
_ONE_FORMAT: Final = without_effect("record batches are stored and sent in format 2 only")


def topic_setting(
    name: str, value_type: ValueType[T], *, default: T, doc: str, effect: Effect = EFFECTIVE
) -> Setting[T]:
    """Define a setting that only topics have, and add it to TOPIC_SETTINGS."""
    return TOPIC_SETTINGS.add(
        Setting(name, value_type, default, Scope.TOPIC, Update.CLUSTER_WIDE, doc, effect=effect)
    )


def follows(broker_setting: Setting[T], name: str) -> Setting[T]:
    """Define a topic setting with the type, default, meaning and effect of a broker setting."""
    return TOPIC_SETTINGS.add(
        Setting(
            name,
            broker_setting.type,
            broker_setting.default,
            Scope.TOPIC,
            Update.CLUSTER_WIDE,
            broker_setting.doc,
            broker_setting=broker_setting,
            effect=broker_setting.effect,
        )
    )


CLEANUP_POLICY: Final = follows(broker.LOG_CLEANUP_POLICY, "cleanup.policy")
COMPRESSION_TYPE: Final = follows(broker.COMPRESSION_TYPE, "compression.type")
COMPRESSION_GZIP_LEVEL: Final = follows(broker.COMPRESSION_GZIP_LEVEL, "compression.gzip.level")
COMPRESSION_LZ4_LEVEL: Final = follows(broker.COMPRESSION_LZ4_LEVEL, "compression.lz4.level")
COMPRESSION_ZSTD_LEVEL: Final = follows(broker.COMPRESSION_ZSTD_LEVEL, "compression.zstd.level")
DELETE_RETENTION_MS: Final = follows(broker.LOG_CLEANER_DELETE_RETENTION_MS, "delete.retention.ms")
FILE_DELETE_DELAY_MS: Final = follows(broker.LOG_SEGMENT_DELETE_DELAY_MS, "file.delete.delay.ms")
FLUSH_MESSAGES: Final = follows(broker.LOG_FLUSH_INTERVAL_MESSAGES, "flush.messages")
FLUSH_MS: Final = follows(broker.LOG_FLUSH_INTERVAL_MS, "flush.ms")
FOLLOWER_REPLICATION_THROTTLED_REPLICAS: Final[Setting[tuple[str, ...]]] = topic_setting(
    "follower.replication.throttled.replicas",
    _THROTTLED_REPLICAS,
    default=(),
    doc="Replicas (partition:broker, or * for all) whose fetches as followers count towards"
    " follower.replication.throttled.rate of their brokers.",
)
INDEX_INTERVAL_BYTES: Final = follows(broker.LOG_INDEX_INTERVAL_BYTES, "index.interval.bytes")
LEADER_REPLICATION_THROTTLED_REPLICAS: Final[Setting[tuple[str, ...]]] = topic_setting(
    "leader.replication.throttled.replicas",
    _THROTTLED_REPLICAS,
    default=(),
    doc="Replicas (partition:broker, or * for all) whose answers as leaders count towards"
    " leader.replication.throttled.rate of their brokers.",
)
LOCAL_RETENTION_BYTES: Final = topic_setting(
    "local.retention.bytes",
    long(at_least=-2),
    default=-2,
    doc="Bytes that remain on local disk once a remote tier has them; -2 for retention.bytes.",
    effect=_NO_REMOTE_TIER,
)
LOCAL_RETENTION_MS: Final = topic_setting(
    "local.retention.ms",
    long(at_least=-2),
    default=-2,
    doc="Age up to which records remain on local disk once a remote tier has them; -2 for"
    " retention.ms.",
    effect=_NO_REMOTE_TIER,
)
MAX_COMPACTION_LAG_MS: Final = follows(
    broker.LOG_CLEANER_MAX_COMPACTION_LAG_MS, "max.compaction.lag.ms"
)
MAX_MESSAGE_BYTES: Final = follows(broker.MESSAGE_MAX_BYTES, "max.message.bytes")
MESSAGE_DOWNCONVERSION_ENABLE: Final = topic_setting(
    "message.downconversion.enable",
    boolean(),
    default=True,
    doc="Whether batches are converted for consumers that only support an older format.",
    effect=_ONE_FORMAT,
)
MESSAGE_FORMAT_VERSION: Final = topic_setting(
    "message.format.version",
    matching(r"\d+\.\d+(\.\d+)*(-IV\d+)?", "a Kafka release such as 3.0-IV1"),
    default="3.0-IV1",
    doc="Format in which batches are stored; a fixed format since KIP-724.",
    effect=_ONE_FORMAT,
)
MESSAGE_TIMESTAMP_AFTER_MAX_MS: Final = follows(
    broker.LOG_MESSAGE_TIMESTAMP_AFTER_MAX_MS, "message.timestamp.after.max.ms"
)
MESSAGE_TIMESTAMP_BEFORE_MAX_MS: Final = follows(
    broker.LOG_MESSAGE_TIMESTAMP_BEFORE_MAX_MS, "message.timestamp.before.max.ms"
)
MESSAGE_TIMESTAMP_TYPE: Final = follows(broker.LOG_MESSAGE_TIMESTAMP_TYPE, "message.timestamp.type")
MIN_CLEANABLE_DIRTY_RATIO: Final = follows(
    broker.LOG_CLEANER_MIN_CLEANABLE_RATIO, "min.cleanable.dirty.ratio"
)
MIN_COMPACTION_LAG_MS: Final = follows(
    broker.LOG_CLEANER_MIN_COMPACTION_LAG_MS, "min.compaction.lag.ms"
)
MIN_INSYNC_REPLICAS: Final = follows(broker.MIN_INSYNC_REPLICAS, "min.insync.replicas")
PREALLOCATE: Final = follows(broker.LOG_PREALLOCATE, "preallocate")
REMOTE_LOG_COPY_DISABLE: Final = topic_setting(
    "remote.log.copy.disable",
    boolean(),
    default=False,
    doc="Whether copying of segments to the remote tier is disabled (KIP-950).",
    effect=_NO_REMOTE_TIER,
)
REMOTE_LOG_DELETE_ON_DISABLE: Final = topic_setting(
    "remote.log.delete.on.disable",
    boolean(),
    default=False,
    doc="Whether the segments in the remote tier are deleted when it is disabled (KIP-950).",
    effect=_NO_REMOTE_TIER,
)
REMOTE_STORAGE_ENABLE: Final = topic_setting(
    "remote.storage.enable",
    boolean(),
    default=False,
    doc="Whether closed segments are copied to a remote tier.",
    effect=_NO_REMOTE_TIER,
)
RETENTION_BYTES: Final = follows(broker.LOG_RETENTION_BYTES, "retention.bytes")
RETENTION_MS: Final = follows(broker.LOG_RETENTION_MS, "retention.ms")
SEGMENT_BYTES: Final = follows(broker.LOG_SEGMENT_BYTES, "segment.bytes")
SEGMENT_INDEX_BYTES: Final = follows(broker.LOG_INDEX_SIZE_MAX_BYTES, "segment.index.bytes")
SEGMENT_JITTER_MS: Final = follows(broker.LOG_ROLL_JITTER_MS, "segment.jitter.ms")
SEGMENT_MS: Final = follows(broker.LOG_ROLL_MS, "segment.ms")
UNCLEAN_LEADER_ELECTION_ENABLE: Final = follows(
    broker.UNCLEAN_LEADER_ELECTION_ENABLE, "unclean.leader.election.enable"
)
