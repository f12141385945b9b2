"""A broker's settings, with Kafka's names and defaults; those not in Kafka begin with `milena.`."""

from typing import Final, TypeVar

from cluster.config.effect import EFFECTIVE, Effect, effective_in_part, without_effect
from cluster.config.machine_memory import machine_memory_bytes, queued_request_bytes
from cluster.config.setting import Alias, Scope, Setting, SettingTable, Update
from cluster.config.value_type import (
    DOUBLE_MAX,
    INT_MAX,
    LONG_MAX,
    Listener,
    TypeCode,
    ValueType,
    boolean,
    choice,
    choice_in_any_case,
    double,
    integer,
    list_of,
    listener_list,
    long,
    matching,
    optional_string,
    password,
    string_list,
)

T = TypeVar("T")

SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS
KIB: Final = 1 << 10
MIB: Final = 1 << 20
GIB: Final = 1 << 30

BROKER_SETTINGS: Final = SettingTable("broker")

_SHUTDOWN_IS_TIMED: Final = without_effect(
    "a stopping broker asks for three seconds, and anew when the controller changes"
)
_ONE_CHECKPOINT: Final = without_effect(
    "written together with high watermarks, see replica.high.watermark.checkpoint.interval.ms"
)
_NO_REBALANCE: Final = without_effect(
    "leadership does not move back to preferred replicas by itself"
)


def broker_setting(
    name: str,
    value_type: ValueType[T],
    *,
    default: T,
    doc: str,
    scope: Scope = Scope.BROKER,
    update: Update = Update.READ_ONLY,
    aliases: tuple[Alias, ...] = (),
    effect: Effect = EFFECTIVE,
    sample: T | None = None,
) -> Setting[T]:
    """Define one broker setting and add it to BROKER_SETTINGS."""
    return BROKER_SETTINGS.add(
        Setting(
            name,
            value_type,
            default,
            scope,
            update,
            doc,
            aliases=aliases,
            effect=effect,
            sample=sample,
        )
    )


# ------------------------------------------------------------------- identity and addresses

BROKER_ID: Final = broker_setting(
    "broker.id",
    integer(at_least=0),
    default=0,
    aliases=(Alias("node.id", 1),),
    doc="This broker's number, unique in the cluster.",
)
BROKER_RACK: Final = broker_setting(
    "broker.rack",
    optional_string(),
    default=None,
    doc="Rack of this broker; replicas of a partition are spread over racks.",
)
LISTENERS: Final = broker_setting(
    "listeners",
    listener_list(),
    default=(Listener("PLAINTEXT", "127.0.0.1", 9092),),
    doc="Addresses to listen on; port 0 takes any free port.",
)
ADVERTISED_LISTENERS: Final[Setting[tuple[Listener, ...]]] = broker_setting(
    "advertised.listeners",
    listener_list(),
    default=(),
    doc="Addresses that clients are told; the listeners themselves when empty.",
)
ZOOKEEPER_CONNECT: Final = broker_setting(
    "zookeeper.connect",
    matching(r"[^\s,/]+(,[^\s,/]+)*(/\S*)?", "host:port[,host:port...][/chroot]"),
    default="127.0.0.1:2181",
    scope=Scope.CLUSTER,
    doc="Where the registry answers: the built-in one or a ZooKeeper ensemble.",
)
ZOOKEEPER_SESSION_TIMEOUT_MS: Final = broker_setting(
    "zookeeper.session.timeout.ms",
    integer(at_least=100),
    default=18 * SECOND_MS,
    doc="Silence after which the registry declares this broker dead.",
)
ZOOKEEPER_CONNECTION_TIMEOUT_MS: Final = broker_setting(
    "zookeeper.connection.timeout.ms",
    integer(at_least=100),
    default=18 * SECOND_MS,
    doc="How long a starting broker waits for the registry.",
)
ZOOKEEPER_SET_ACL: Final = broker_setting(
    "zookeeper.set.acl",
    boolean(),
    default=False,
    scope=Scope.CLUSTER,
    doc="Make znodes that only the identity of milena.registry.auth may read and change.",
)
REGISTRY_AUTH: Final = broker_setting(
    "milena.registry.auth",
    password(r"digest:[^:\s]+:\S+", "digest:user:password"),
    default=None,
    scope=Scope.CLUSTER,
    doc="Who brokers are to the registry; best given in a file that others cannot read.",
)
INTER_BROKER_PROTOCOL_VERSION: Final = broker_setting(
    "inter.broker.protocol.version",
    choice("3.9", "3.9-IV0"),
    default="3.9",
    scope=Scope.CLUSTER,
    doc="The Kafka release that brokers name to tools, which read it to learn what works.",
    effect=without_effect("the brokers of a cluster are of one release"),
)
CONTROL_HOST: Final = broker_setting(
    "milena.control.host",
    matching(r"[^\s/:]+|[0-9a-fA-F:]+", "a host name or address"),
    default="127.0.0.1",
    doc="Address on which other brokers reach this one's control and replication endpoints.",
)
CONTROL_PORT: Final = broker_setting(
    "milena.control.port",
    integer(at_least=0, at_most=65_535),
    default=0,
    doc="Port of the control endpoint; 0 takes any free port, announced through the registry.",
)
REPLICATION_PORT: Final = broker_setting(
    "milena.replication.port",
    integer(at_least=0, at_most=65_535),
    default=0,
    doc="Port of the replication endpoint; 0 takes any free port, announced through the registry.",
)

# ------------------------------------------------------------------- topics

NUM_PARTITIONS: Final = broker_setting(
    "num.partitions",
    integer(at_least=1),
    default=1,
    doc="Partitions of a topic created without a number.",
)
DEFAULT_REPLICATION_FACTOR: Final = broker_setting(
    "default.replication.factor",
    integer(at_least=1, at_most=32_767),
    default=1,
    doc="Replicas of a topic created without a number. `start` sets min(3, brokers).",
)
AUTO_CREATE_TOPICS_ENABLE: Final = broker_setting(
    "auto.create.topics.enable",
    boolean(),
    default=True,
    doc="Whether asking for an unknown topic creates it.",
)
DELETE_TOPIC_ENABLE: Final = broker_setting(
    "delete.topic.enable", boolean(), default=True, doc="Whether topics may be deleted."
)
MIN_INSYNC_REPLICAS: Final = broker_setting(
    "min.insync.replicas",
    integer(at_least=1),
    default=1,
    update=Update.CLUSTER_WIDE,
    doc="In-sync replicas that an acks=all produce needs.",
)
UNCLEAN_LEADER_ELECTION_ENABLE: Final = broker_setting(
    "unclean.leader.election.enable",
    boolean(),
    default=False,
    update=Update.CLUSTER_WIDE,
    doc="Whether a replica outside the ISR may lead when none inside is alive; loses records.",
)
AUTO_LEADER_REBALANCE_ENABLE: Final = broker_setting(
    "auto.leader.rebalance.enable",
    boolean(),
    default=True,
    doc="Whether the controller moves leadership back to preferred replicas.",
    effect=_NO_REBALANCE,
)
LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS: Final = broker_setting(
    "leader.imbalance.check.interval.seconds",
    long(at_least=1),
    default=300,
    doc="How often the controller looks for leaders away from their preferred broker.",
    effect=_NO_REBALANCE,
)
LEADER_IMBALANCE_PER_BROKER_PERCENTAGE: Final = broker_setting(
    "leader.imbalance.per.broker.percentage",
    integer(at_least=0, at_most=100),
    default=10,
    doc="Share of a broker's preferred partitions led elsewhere that triggers a rebalance.",
    effect=_NO_REBALANCE,
)
CONTROLLED_SHUTDOWN_ENABLE: Final = broker_setting(
    "controlled.shutdown.enable",
    boolean(),
    default=True,
    doc="Whether a stopping broker hands its leaderships over first.",
)
CONTROLLED_SHUTDOWN_MAX_RETRIES: Final = broker_setting(
    "controlled.shutdown.max.retries",
    integer(at_least=0),
    default=3,
    doc="How often a stopping broker asks again when leaderships remain.",
    effect=_SHUTDOWN_IS_TIMED,
)
CONTROLLED_SHUTDOWN_RETRY_BACKOFF_MS: Final = broker_setting(
    "controlled.shutdown.retry.backoff.ms",
    long(at_least=0),
    default=5 * SECOND_MS,
    doc="Pause between those attempts.",
    effect=_SHUTDOWN_IS_TIMED,
)

# ------------------------------------------------------------------- network

MESSAGE_MAX_BYTES: Final = broker_setting(
    "message.max.bytes",
    integer(at_least=0),
    default=1_048_588,
    update=Update.CLUSTER_WIDE,
    doc="Largest record batch, after compression.",
)
SOCKET_REQUEST_MAX_BYTES: Final = broker_setting(
    "socket.request.max.bytes",
    integer(at_least=1),
    default=100 * MIB,
    doc="Largest request; a connection that announces more is closed.",
)
SOCKET_SEND_BUFFER_BYTES: Final = broker_setting(
    "socket.send.buffer.bytes",
    integer(at_least=-1),
    default=100 * KIB,
    doc="SO_SNDBUF of client connections; -1 leaves it to the system.",
)
SOCKET_RECEIVE_BUFFER_BYTES: Final = broker_setting(
    "socket.receive.buffer.bytes",
    integer(at_least=-1),
    default=100 * KIB,
    doc="SO_RCVBUF of client connections; -1 leaves it to the system.",
)
SOCKET_LISTEN_BACKLOG_SIZE: Final = broker_setting(
    "socket.listen.backlog.size",
    integer(at_least=1),
    default=50,
    doc="Connections that may wait to be accepted.",
)
MAX_CONNECTIONS: Final = broker_setting(
    "max.connections",
    integer(at_least=0),
    default=INT_MAX,
    update=Update.CLUSTER_WIDE,
    doc="Most client connections at a time; more wait in the listen queue.",
)
MAX_CONNECTIONS_PER_IP: Final = broker_setting(
    "max.connections.per.ip",
    integer(at_least=0),
    default=INT_MAX,
    update=Update.CLUSTER_WIDE,
    doc="Most connections from one address.",
)
CONNECTIONS_MAX_IDLE_MS: Final = broker_setting(
    "connections.max.idle.ms",
    long(),
    default=10 * MINUTE_MS,
    doc="A connection silent for longer is closed.",
)
QUEUED_MAX_REQUEST_BYTES: Final = broker_setting(
    "queued.max.request.bytes",
    long(at_least=-1),
    default=queued_request_bytes(machine_memory_bytes()),
    sample=queued_request_bytes(8 * GIB),
    doc="Bytes that requests may take in memory before they have arrived whole, over all"
    " connections; above it the newest wait, the oldest goes on. A quarter as much may be held of"
    " pipelined requests, and a quarter of answers that nobody reads. By default a sixteenth of"
    " the machine's memory, at least 128 MiB and at most 1 GiB (512 MiB on a machine with 8 GiB),"
    " and never less than socket.request.max.bytes; -1 for no limit.",
)
REQUEST_TIMEOUT_MS: Final = broker_setting(
    "request.timeout.ms",
    integer(at_least=1),
    default=30 * SECOND_MS,
    doc="How long one broker waits for another's answer.",
    effect=without_effect("the links between brokers have time limits of their own"),
)
FETCH_MAX_BYTES: Final = broker_setting(
    "fetch.max.bytes",
    integer(at_least=1024),
    default=55 * MIB,
    doc="Most bytes of one fetch response, whatever the client asked for.",
)

# ------------------------------------------------------------------- replication

REPLICA_LAG_TIME_MAX_MS: Final = broker_setting(
    "replica.lag.time.max.ms",
    long(at_least=1),
    default=30 * SECOND_MS,
    doc="How long a follower may trail the leader's log end before it leaves the ISR.",
)
REPLICA_FETCH_MAX_BYTES: Final = broker_setting(
    "replica.fetch.max.bytes",
    integer(at_least=1),
    default=MIB,
    doc="Bytes of one partition in one replica fetch; a larger first batch still travels whole.",
)
REPLICA_FETCH_RESPONSE_MAX_BYTES: Final = broker_setting(
    "replica.fetch.response.max.bytes",
    integer(at_least=1),
    default=10 * MIB,
    doc="Bytes of all partitions in one replica fetch.",
)
REPLICA_FETCH_MIN_BYTES: Final = broker_setting(
    "replica.fetch.min.bytes",
    integer(at_least=1),
    default=1,
    doc="Bytes for which the leader holds a replica fetch back.",
    effect=without_effect("a leader answers a replica fetch as soon as there is a record"),
)
REPLICA_FETCH_WAIT_MAX_MS: Final = broker_setting(
    "replica.fetch.wait.max.ms",
    integer(at_least=1),
    default=500,
    doc="How long a leader parks a replica fetch that finds nothing.",
)
REPLICA_FETCH_BACKOFF_MS: Final = broker_setting(
    "replica.fetch.backoff.ms",
    integer(at_least=0),
    default=SECOND_MS,
    doc="Pause of a partition's replication after an error.",
)
REPLICA_FETCH_SHARED_MEMORY: Final = broker_setting(
    "replica.fetch.shared.memory",
    boolean(),
    default=True,
    doc="Whether followers on the leader's host read its segments through the page cache.",
)
REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS: Final = broker_setting(
    "replica.high.watermark.checkpoint.interval.ms",
    long(at_least=1),
    default=5 * SECOND_MS,
    doc="How often high watermarks are written down.",
)
REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND: Final = broker_setting(
    "replica.alter.log.dirs.io.max.bytes.per.second",
    long(at_least=1),
    default=LONG_MAX,
    update=Update.PER_BROKER,
    doc="How fast a replica is copied to another of the log.dirs.",
)

# ------------------------------------------------------------------- log

LOG_DIRS: Final = broker_setting(
    "log.dirs",
    string_list(TypeCode.STRING, allowed="a comma-separated list of directories"),
    default=("/tmp/milena-logs",),  # as Kafka does; `start` always passes one
    aliases=(Alias("log.dir", 1),),
    doc="Directories that hold the partitions.",
)
NUM_RECOVERY_THREADS_PER_DATA_DIR: Final = broker_setting(
    "num.recovery.threads.per.data.dir",
    integer(at_least=1),
    default=2,  # of Kafka since 4.0 (KIP-1030); 1 before
    update=Update.CLUSTER_WIDE,
    doc="Helper processes that recover the logs of one directory when a broker starts after an"
    " unclean stop; no more than there are processors.",
)
LOG_SEGMENT_BYTES: Final = broker_setting(
    "log.segment.bytes",
    integer(at_least=14),
    default=GIB,
    update=Update.CLUSTER_WIDE,
    doc="Size at which a segment is closed and the next begun.",
)
LOG_ROLL_MS: Final = broker_setting(
    "log.roll.ms",
    long(at_least=1),
    default=7 * DAY_MS,
    update=Update.CLUSTER_WIDE,
    aliases=(Alias("log.roll.hours", HOUR_MS),),
    doc="Age at which a segment is closed even when it is not full.",
)
LOG_ROLL_JITTER_MS: Final = broker_setting(
    "log.roll.jitter.ms",
    long(at_least=0),
    default=0,
    update=Update.CLUSTER_WIDE,
    aliases=(Alias("log.roll.jitter.hours", HOUR_MS),),
    doc="Most that is subtracted at random from that age, so that partitions do not roll at once.",
)
LOG_INDEX_INTERVAL_BYTES: Final = broker_setting(
    "log.index.interval.bytes",
    integer(at_least=0),
    default=4096,
    update=Update.CLUSTER_WIDE,
    doc="Bytes of log between two entries of the offset index.",
)
LOG_INDEX_SIZE_MAX_BYTES: Final = broker_setting(
    "log.index.size.max.bytes",
    integer(at_least=4),
    default=10 * MIB,
    update=Update.CLUSTER_WIDE,
    doc="Largest index; a full one closes its segment.",
)
LOG_PREALLOCATE: Final = broker_setting(
    "log.preallocate",
    boolean(),
    default=False,
    update=Update.CLUSTER_WIDE,
    doc="Whether a segment takes all of its disk space with its first batch, instead of in steps.",
)
LOG_PREALLOCATE_STEP_BYTES: Final = broker_setting(
    "milena.log.preallocate.step.bytes",
    integer(at_least=4096),
    default=16 * MIB,
    doc="Disk space that the active segment takes at a time, so that a full disk is a clean error.",
)
LOG_RETENTION_MS: Final = broker_setting(
    "log.retention.ms",
    long(at_least=-1),
    default=7 * DAY_MS,
    update=Update.CLUSTER_WIDE,
    aliases=(Alias("log.retention.minutes", MINUTE_MS), Alias("log.retention.hours", HOUR_MS)),
    doc="Age after which a segment is deleted; -1 keeps it for ever.",
)
LOG_RETENTION_BYTES: Final = broker_setting(
    "log.retention.bytes",
    long(at_least=-1),
    default=-1,
    update=Update.CLUSTER_WIDE,
    doc="Size of a partition above which old segments are deleted; -1 for no limit.",
)
LOG_RETENTION_CHECK_INTERVAL_MS: Final = broker_setting(
    "log.retention.check.interval.ms",
    long(at_least=1),
    default=5 * MINUTE_MS,
    doc="How often segments are checked for deletion; first 30 s after the start, or earlier.",
)
LOG_SEGMENT_DELETE_DELAY_MS: Final = broker_setting(
    "log.segment.delete.delay.ms",
    long(at_least=0),
    default=MINUTE_MS,
    update=Update.CLUSTER_WIDE,
    doc="How long the files of deleted segments and topics stay on disk, under other names.",
)
LOG_FLUSH_INTERVAL_MESSAGES: Final = broker_setting(
    "log.flush.interval.messages",
    long(at_least=1),
    default=LONG_MAX,
    update=Update.CLUSTER_WIDE,
    doc="Records after which a partition is forced to disk, before the last is acknowledged.",
)
LOG_FLUSH_INTERVAL_MS: Final = broker_setting(
    "log.flush.interval.ms",
    long(at_least=0),
    default=LONG_MAX,
    update=Update.CLUSTER_WIDE,
    doc="Age of the oldest record not yet on disk after which a partition is forced to disk.",
)
LOG_FLUSH_SCHEDULER_INTERVAL_MS: Final = broker_setting(
    "log.flush.scheduler.interval.ms",
    long(at_least=1),
    default=LONG_MAX,
    doc="How often partitions are checked for these two, at least once a second.",
)
LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS: Final = broker_setting(
    "log.flush.offset.checkpoint.interval.ms",
    integer(at_least=1),
    default=MINUTE_MS,
    doc="How often recovery points are written down; a crash rescans what lies after them.",
    effect=_ONE_CHECKPOINT,
)
LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS: Final = broker_setting(
    "log.flush.start.offset.checkpoint.interval.ms",
    integer(at_least=1),
    default=MINUTE_MS,
    doc="How often log start offsets are written down.",
    effect=_ONE_CHECKPOINT,
)
LOG_CLEANUP_POLICY: Final = broker_setting(
    "log.cleanup.policy",
    list_of("delete", "compact"),
    default=("delete",),
    update=Update.CLUSTER_WIDE,
    doc="What happens to old segments: deleted, compacted, or both.",
)
LOG_CLEANER_ENABLE: Final = broker_setting(
    "log.cleaner.enable",
    boolean(),
    default=True,
    doc="Whether topics with the policy `compact` are compacted.",
)
LOG_CLEANER_THREADS: Final = broker_setting(
    "log.cleaner.threads",
    integer(at_least=0),
    default=1,
    update=Update.CLUSTER_WIDE,
    doc="Helper processes that clean logs at the same time, each another log.",
)
LOG_CLEANER_IO_MAX_BYTES_PER_SECOND: Final = broker_setting(
    "log.cleaner.io.max.bytes.per.second",
    double(at_least=0),
    default=DOUBLE_MAX,
    update=Update.CLUSTER_WIDE,
    doc="Bytes that all of them together read and write in a second, once cleaning begins anew.",
)
LOG_CLEANER_DEDUPE_BUFFER_SIZE: Final = broker_setting(
    "log.cleaner.dedupe.buffer.size",
    long(at_least=1 * MIB),
    default=128 * MIB,
    update=Update.CLUSTER_WIDE,
    doc="Memory for the newest offset of each key, 24 bytes a key, shared by the helper processes.",
)
LOG_CLEANER_IO_BUFFER_SIZE: Final = broker_setting(
    "log.cleaner.io.buffer.size",
    integer(at_least=0),
    default=512 * KIB,
    update=Update.CLUSTER_WIDE,
    doc="Memory for input and output, shared by the helper processes; grows for larger batches.",
)
LOG_CLEANER_IO_BUFFER_LOAD_FACTOR: Final = broker_setting(
    "log.cleaner.io.buffer.load.factor",
    double(at_least=0.01, at_most=0.99),
    default=0.9,
    update=Update.CLUSTER_WIDE,
    doc="How full the memory for keys may become; fuller is slower.",
)
LOG_CLEANER_BACKOFF_MS: Final = broker_setting(
    "log.cleaner.backoff.ms",
    long(at_least=1),
    default=15 * SECOND_MS,
    update=Update.CLUSTER_WIDE,
    doc="Pause after no log was dirty enough to be cleaned.",
)
LOG_CLEANER_DELETE_RETENTION_MS: Final = broker_setting(
    "log.cleaner.delete.retention.ms",
    long(at_least=0),
    default=DAY_MS,
    update=Update.CLUSTER_WIDE,
    doc="How long compaction keeps a tombstone for readers that started at the beginning.",
)
LOG_CLEANER_MIN_COMPACTION_LAG_MS: Final = broker_setting(
    "log.cleaner.min.compaction.lag.ms",
    long(at_least=0),
    default=0,
    update=Update.CLUSTER_WIDE,
    doc="Age below which a record is not compacted away.",
)
LOG_CLEANER_MAX_COMPACTION_LAG_MS: Final = broker_setting(
    "log.cleaner.max.compaction.lag.ms",
    long(at_least=1),
    default=LONG_MAX,
    update=Update.CLUSTER_WIDE,
    doc="Age at which a record is compacted whatever the dirty ratio.",
)
LOG_CLEANER_MIN_CLEANABLE_RATIO: Final = broker_setting(
    "log.cleaner.min.cleanable.ratio",
    double(at_least=0, at_most=1),
    default=0.5,
    update=Update.CLUSTER_WIDE,
    doc="Share of a log that must be dirty before it is compacted.",
)
LOG_MESSAGE_TIMESTAMP_TYPE: Final = broker_setting(
    "log.message.timestamp.type",
    choice("CreateTime", "LogAppendTime"),
    default="CreateTime",
    update=Update.CLUSTER_WIDE,
    doc="Whether records carry the producer's time or the broker's.",
)
LOG_MESSAGE_TIMESTAMP_BEFORE_MAX_MS: Final = broker_setting(
    "log.message.timestamp.before.max.ms",
    long(at_least=0),
    default=LONG_MAX,
    update=Update.CLUSTER_WIDE,
    doc="How far a CreateTime timestamp may lie in the past.",
)
LOG_MESSAGE_TIMESTAMP_AFTER_MAX_MS: Final = broker_setting(
    "log.message.timestamp.after.max.ms",
    long(at_least=0),
    default=3_600_000,
    update=Update.CLUSTER_WIDE,
    doc="How far a CreateTime timestamp may lie in the future.",
)
COMPRESSION_TYPE: Final = broker_setting(
    "compression.type",
    choice("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
    default="producer",
    update=Update.CLUSTER_WIDE,
    doc="Codec on disk; `producer` keeps what the producer chose.",
)
COMPRESSION_GZIP_LEVEL: Final = broker_setting(
    "compression.gzip.level",
    integer(at_least=-1, at_most=9),
    default=-1,
    update=Update.CLUSTER_WIDE,
    doc="Level where the broker itself compresses with gzip; -1 is the codec's default.",
)
COMPRESSION_LZ4_LEVEL: Final = broker_setting(
    "compression.lz4.level",
    integer(at_least=1, at_most=17),
    default=9,
    update=Update.CLUSTER_WIDE,
    doc="Level where the broker itself compresses with lz4.",
)
COMPRESSION_ZSTD_LEVEL: Final = broker_setting(
    "compression.zstd.level",
    integer(at_least=-131_072, at_most=22),
    default=3,
    update=Update.CLUSTER_WIDE,
    doc="Level where the broker itself compresses with zstd.",
)
PRODUCER_ID_EXPIRATION_MS: Final = broker_setting(
    "producer.id.expiration.ms",
    integer(at_least=1),
    default=DAY_MS,
    update=Update.CLUSTER_WIDE,
    doc="Silence after which a partition forgets an idempotent producer's sequence.",
    effect=effective_in_part("looked for when a segment is rolled or the broker starts only"),
)
PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS: Final = broker_setting(
    "producer.id.expiration.check.interval.ms",
    integer(at_least=1),
    default=10 * MINUTE_MS,
    doc="How often partitions look for such producers.",
    effect=without_effect("looked for when a segment is rolled or the broker starts"),
)

# ------------------------------------------------------------------- consumer groups

GROUP_MIN_SESSION_TIMEOUT_MS: Final = broker_setting(
    "group.min.session.timeout.ms",
    integer(),
    default=6 * SECOND_MS,
    doc="Shortest session timeout that a member of a group may ask for.",
)
GROUP_MAX_SESSION_TIMEOUT_MS: Final = broker_setting(
    "group.max.session.timeout.ms",
    integer(),
    default=30 * MINUTE_MS,
    doc="Longest session timeout that a member of a group may ask for.",
)
GROUP_INITIAL_REBALANCE_DELAY_MS: Final = broker_setting(
    "group.initial.rebalance.delay.ms",
    integer(),
    default=3 * SECOND_MS,
    doc="How long an empty group waits for further members before its first rebalance, anew for"
    " each that joins. `start` sets 0, as the file that comes with Kafka does.",
)
GROUP_MAX_SIZE: Final = broker_setting(
    "group.max.size",
    integer(at_least=1),
    default=INT_MAX,
    doc="Most members that one group may have.",
)
GROUP_COORDINATOR_REBALANCE_PROTOCOLS: Final = broker_setting(
    "group.coordinator.rebalance.protocols",
    list_of("classic", "consumer", "streams", "share"),
    default=("classic", "consumer"),
    doc="Protocols by which groups share their partitions; classic is always among them.",
    effect=effective_in_part("there are no groups of types streams and share"),
)
GROUP_CONSUMER_SESSION_TIMEOUT_MS: Final = broker_setting(
    "group.consumer.session.timeout.ms",
    integer(at_least=1),
    default=45 * SECOND_MS,
    doc="Session timeout of members of the newer consumer protocol (KIP-848), where their group has"
    " no consumer.session.timeout.ms.",
)
GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS: Final = broker_setting(
    "group.consumer.min.session.timeout.ms",
    integer(at_least=1),
    default=45 * SECOND_MS,
    doc="Shortest such session timeout.",
)
GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS: Final = broker_setting(
    "group.consumer.max.session.timeout.ms",
    integer(at_least=1),
    default=60 * SECOND_MS,
    doc="Longest such session timeout.",
)
GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS: Final = broker_setting(
    "group.consumer.heartbeat.interval.ms",
    integer(at_least=1),
    default=5 * SECOND_MS,
    doc="How often members of that protocol are told to send heartbeats, where their group has no"
    " consumer.heartbeat.interval.ms.",
)
GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS: Final = broker_setting(
    "group.consumer.min.heartbeat.interval.ms",
    integer(at_least=1),
    default=5 * SECOND_MS,
    doc="Shortest such interval.",
)
GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS: Final = broker_setting(
    "group.consumer.max.heartbeat.interval.ms",
    integer(at_least=1),
    default=15 * SECOND_MS,
    doc="Longest such interval.",
)
GROUP_CONSUMER_MAX_SIZE: Final = broker_setting(
    "group.consumer.max.size",
    integer(at_least=1),
    default=INT_MAX,
    doc="Most members of one group of that protocol.",
)
GROUP_CONSUMER_ASSIGNORS: Final = broker_setting(
    "group.consumer.assignors",
    list_of(
        "uniform",
        "range",
        other_names={
            f"org.apache.kafka.coordinator.group.assignor.{name.title()}Assignor": name
            for name in ("uniform", "range")
        },
    ),
    default=("uniform", "range"),
    doc="How partitions are shared among members of that protocol; the first for groups whose"
    " members ask for none. Kafka's names of the two classes are taken too.",
)
GROUP_CONSUMER_MIGRATION_POLICY: Final = broker_setting(
    "group.consumer.migration.policy",
    choice_in_any_case("bidirectional", "upgrade", "downgrade", "disabled"),
    default="bidirectional",
    doc="Whether a group with members may change between the classic and the newer consumer"
    " protocol: to the newer one (upgrade), back (downgrade), both, or neither.",
)
GROUP_CONSUMER_REGEX_REFRESH_INTERVAL_MS: Final = broker_setting(
    "group.consumer.regex.refresh.interval.ms",
    integer(at_least=10 * SECOND_MS),
    default=10 * MINUTE_MS,
    doc="How often the topics are looked for that match the expressions to which members"
    " subscribe.",
)
OFFSET_METADATA_MAX_BYTES: Final = broker_setting(
    "offset.metadata.max.bytes",
    integer(),
    default=4 * KIB,
    doc="Longest text that a client may commit with an offset.",
)
OFFSETS_LOAD_BUFFER_SIZE: Final = broker_setting(
    "offsets.load.buffer.size",
    integer(at_least=1),
    default=5 * MIB,
    doc="Most bytes of a partition of __consumer_offsets that are read at a time when groups are"
    " loaded; a larger batch is read whole.",
)
OFFSETS_TOPIC_NUM_PARTITIONS: Final = broker_setting(
    "offsets.topic.num.partitions",
    integer(at_least=1),
    default=50,
    scope=Scope.CLUSTER,
    doc="Partitions of __consumer_offsets; not to be changed once it exists.",
)
OFFSETS_TOPIC_REPLICATION_FACTOR: Final = broker_setting(
    "offsets.topic.replication.factor",
    integer(at_least=1, at_most=32_767),
    default=3,
    doc="Replicas of __consumer_offsets, which is created once as many brokers are there."
    " `start` sets min(3, brokers).",
)
OFFSETS_TOPIC_SEGMENT_BYTES: Final = broker_setting(
    "offsets.topic.segment.bytes",
    integer(at_least=1),
    default=100 * MIB,
    doc="segment.bytes of __consumer_offsets when it is created: small segments are compacted, and"
    " therefore loaded, sooner.",
)
OFFSETS_TOPIC_COMPRESSION_CODEC: Final = broker_setting(
    "offsets.topic.compression.codec",
    integer(at_least=0, at_most=4),
    default=0,
    doc="Codec of the batches in __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
)
OFFSETS_RETENTION_MINUTES: Final = broker_setting(
    "offsets.retention.minutes",
    integer(at_least=1),
    default=7 * 24 * 60,
    doc="Age after which committed offsets are dropped, counted since the group became empty or,"
    " without members, since the commit (KIP-211).",
)
OFFSETS_RETENTION_CHECK_INTERVAL_MS: Final = broker_setting(
    "offsets.retention.check.interval.ms",
    long(at_least=1),
    default=10 * MINUTE_MS,
    doc="How often committed offsets are checked for their age.",
)
OFFSETS_COMMIT_TIMEOUT_MS: Final = broker_setting(
    "offsets.commit.timeout.ms",
    integer(at_least=1),
    default=5 * SECOND_MS,
    doc="How long a commit, or another change of a group, may wait for the in-sync replicas.",
)

# ------------------------------------------------------------------- quotas

QUOTA_WINDOW_NUM: Final = broker_setting(
    "quota.window.num",
    integer(at_least=1),
    default=11,
    doc="Windows over which a client's rate is measured.",
)
QUOTA_WINDOW_SIZE_SECONDS: Final = broker_setting(
    "quota.window.size.seconds",
    integer(at_least=1),
    default=1,
    doc="Length of one such window.",
)
QUOTA_WINDOW_CREDIT: Final = broker_setting(
    "milena.quota.window.credit",
    choice("elapsed", "kafka"),
    default="elapsed",
    doc="What a client is credited with for the windows before its first use: nothing (elapsed), "
    "or all of them as if they had been empty (kafka), to be used at once.",
)

# ------------------------------------------------------------------- metrics

METRICS_ENABLE: Final = broker_setting(
    "milena.metrics.enable",
    boolean(),
    default=True,
    doc="Whether the broker counts at all; switched off only to measure what counting costs.",
)
METRICS_TOPIC_ENABLE: Final = broker_setting(
    "milena.metrics.topic.enable",
    boolean(),
    default=True,
    doc="Whether the broker writes metric records into the topic __cluster_metrics.",
)
METRICS_INTERVAL_MS: Final = broker_setting(
    "milena.metrics.interval.ms",
    integer(at_least=250),
    default=SECOND_MS,
    doc="How often the broker writes metric records.",
)
METRICS_GROUP_INTERVAL_MS: Final = broker_setting(
    "milena.metrics.group.interval.ms",
    integer(at_least=SECOND_MS),
    default=5 * SECOND_MS,
    doc="How often the broker writes metric records of the consumer groups that it coordinates.",
)
