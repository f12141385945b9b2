"""A broker's settings, with Kafka's names and defaults; names not in Kafka begin with `milena.`."""

from typing import Final, TypeVar

from cluster.config.effect import EFFECTIVE, Effect, effective_in_part, without_effect
from cluster.config.kafka_keys import settings_without_effect
from cluster.config.machine_memory import machine_memory_bytes, queued_request_bytes
from cluster.config.setting import Alias, Narrowed, Scope, Setting, SettingTable, Update
from cluster.config.value_type import (
    DOUBLE_MAX,
    INT_MAX,
    LONG_MAX,
    Listener,
    TypeCode,
    ValueType,
    any_of,
    boolean,
    choice,
    choice_in_any_case,
    class_name,
    double,
    integer,
    list_of,
    listener_list,
    long,
    matching,
    optional_string,
    optional_url,
    password,
    principals,
    protocol_map,
    secret,
    string,
    string_list,
)
from cluster.model.addresses import BROKER_PORT, LOOPBACK, REGISTRY_PORT
from cluster.model.security import SaslMechanism, SecurityProtocol

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
    "a stopping broker repeats its request for three seconds, and again if the controller changes"
)
_ONE_CHECKPOINT: Final = without_effect(
    "written together with high watermarks, see replica.high.watermark.checkpoint.interval.ms"
)
_BROKERS_LINKED: Final = without_effect(
    "brokers connect to each other by links that are not listeners"
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
    narrowed: Narrowed = Narrowed.NEVER,
    is_listed: bool = True,
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
            narrowed=narrowed,
            is_listed=is_listed,
        )
    )


# ------------------------------------------------------------------- identity and addresses

BROKER_ID: Final = broker_setting(
    "broker.id",
    integer(at_least=0),
    default=0,
    aliases=(Alias("node.id", 1),),
    doc="Id of this broker, unique in the cluster. Without one, or with -1, `bin/cluster broker`"
    " uses that of meta.properties, else a generated one.",
)
BROKER_ID_GENERATION_ENABLE: Final = broker_setting(
    "broker.id.generation.enable",
    boolean(),
    default=True,
    scope=Scope.CLUSTER,
    doc="Whether a broker without broker.id gets an id above reserved.broker.max.id from the"
    " registry; ids that are given are then at most reserved.broker.max.id.",
)
RESERVED_BROKER_MAX_ID: Final = broker_setting(
    "reserved.broker.max.id",
    integer(at_least=0),
    default=1000,
    scope=Scope.CLUSTER,
    doc="The largest broker.id that may be given if broker.id.generation.enable.",
)
BROKER_RACK: Final = broker_setting(
    "broker.rack",
    optional_string(),
    default=None,
    doc="Rack of this broker; the replicas of a partition are spread over racks. `start --racks`"
    " gives brokers racks of their own.",
)
LISTENERS: Final = broker_setting(
    "listeners",
    listener_list(),
    default=(Listener("PLAINTEXT", LOOPBACK, BROKER_PORT),),
    doc="Names and addresses to listen on; port 0 selects any free port. A name that is not that"
    " of a security protocol needs an entry in listener.security.protocol.map.",
)
LISTENER_SECURITY_PROTOCOL_MAP: Final = broker_setting(
    "listener.security.protocol.map",
    protocol_map(),
    default={protocol.value: protocol for protocol in SecurityProtocol},
    doc="The security protocol of each listener name.",
)
INTER_BROKER_LISTENER_NAME: Final = broker_setting(
    "inter.broker.listener.name",
    optional_string(),
    default=None,
    doc="The listener that other brokers use.",
    effect=_BROKERS_LINKED,
)
SECURITY_INTER_BROKER_PROTOCOL: Final = broker_setting(
    "security.inter.broker.protocol",
    choice(*SecurityProtocol),
    default="PLAINTEXT",
    doc="The security protocol, and so the name, of the listener that other brokers use.",
    effect=_BROKERS_LINKED,
)
ADVERTISED_LISTENERS: Final[Setting[tuple[Listener, ...]]] = broker_setting(
    "advertised.listeners",
    listener_list(),
    default=(),
    doc="Addresses that clients of each listener receive; if empty, those of the listeners.",
)
ZOOKEEPER_CONNECT: Final = broker_setting(
    "zookeeper.connect",
    matching(r"[^\s,/]+(,[^\s,/]+)*(/\S*)?", "host:port[,host:port...][/chroot]"),
    default=f"{LOOPBACK}:{REGISTRY_PORT}",
    scope=Scope.CLUSTER,
    doc="Addresses of the registry: the built-in one or a ZooKeeper ensemble.",
)
ZOOKEEPER_SESSION_TIMEOUT_MS: Final = broker_setting(
    "zookeeper.session.timeout.ms",
    integer(at_least=100),
    default=18 * SECOND_MS,
    doc="Time without a heartbeat after which the registry declares this broker dead.",
)
ZOOKEEPER_CONNECTION_TIMEOUT_MS: Final = broker_setting(
    "zookeeper.connection.timeout.ms",
    integer(at_least=100),
    default=18 * SECOND_MS,
    doc="How long a starting broker waits for the registry.",
)
ZOOKEEPER_SSL_CLIENT_ENABLE: Final = broker_setting(
    "zookeeper.ssl.client.enable",
    boolean(),
    default=False,
    doc="Whether brokers connect to the registry over TLS. (Kafka also needs"
    " zookeeper.clientCnxnSocket for it.)",
)
ZOOKEEPER_CLIENT_CNXN_SOCKET: Final = broker_setting(
    "zookeeper.clientCnxnSocket",
    optional_string(),
    default=None,
    doc="The class with which Kafka connects to ZooKeeper over TLS.",
    effect=without_effect("only zookeeper.ssl.client.enable matters"),
)
ZOOKEEPER_SSL_TRUSTSTORE_LOCATION: Final = broker_setting(
    "zookeeper.ssl.truststore.location",
    optional_string(),
    default=None,
    doc="File with the certificates of the authorities that may sign the registry's certificate;"
    " null for the system's.",
)
ZOOKEEPER_SSL_TRUSTSTORE_PASSWORD: Final = broker_setting(
    "zookeeper.ssl.truststore.password",
    secret(),
    default=None,
    doc="Password of the trust store, if it is a PKCS12 file.",
)
ZOOKEEPER_SSL_TRUSTSTORE_TYPE: Final = broker_setting(
    "zookeeper.ssl.truststore.type",
    matching(r"\w+", "PEM or PKCS12"),
    default="PEM",
    doc="Format of the trust store; Java's own format, JKS, is not supported.",
)
ZOOKEEPER_SSL_KEYSTORE_LOCATION: Final = broker_setting(
    "zookeeper.ssl.keystore.location",
    optional_string(),
    default=None,
    doc="File with the broker's key and certificate, for a registry that requests one.",
)
ZOOKEEPER_SSL_KEYSTORE_PASSWORD: Final = broker_setting(
    "zookeeper.ssl.keystore.password",
    secret(),
    default=None,
    doc="Password of the key store.",
)
ZOOKEEPER_SSL_KEYSTORE_TYPE: Final = broker_setting(
    "zookeeper.ssl.keystore.type",
    matching(r"\w+", "PEM or PKCS12"),
    default="PEM",
    doc="Format of the key store.",
)
ZOOKEEPER_SSL_ENDPOINT_IDENTIFICATION: Final = broker_setting(
    "zookeeper.ssl.endpoint.identification.algorithm",
    matching("HTTPS|", "HTTPS, or nothing"),
    default="HTTPS",
    doc="HTTPS requires the registry's certificate to name its host.",
)
ZOOKEEPER_SSL_PROTOCOL: Final = broker_setting(
    "zookeeper.ssl.protocol",
    choice("TLSv1.2", "TLSv1.3"),
    default="TLSv1.2",
    doc="TLS version, unless zookeeper.ssl.enabled.protocols is set.",
)
ZOOKEEPER_SSL_ENABLED_PROTOCOLS: Final = broker_setting(
    "zookeeper.ssl.enabled.protocols",
    string_list(pattern=r"TLSv1\.[23]", allowed="a comma-separated list of TLSv1.2 and TLSv1.3"),
    default=(),
    doc="TLS versions; if empty, that of zookeeper.ssl.protocol.",
)
ZOOKEEPER_SSL_CIPHER_SUITES: Final = broker_setting(
    "zookeeper.ssl.cipher.suites",
    string_list(),
    default=(),
    doc="Cipher suites, by their standard names (TLS_...); if empty, all that are considered"
    " secure.",
)
ZOOKEEPER_SET_ACL: Final = broker_setting(
    "zookeeper.set.acl",
    boolean(),
    default=False,
    scope=Scope.CLUSTER,
    doc="Whether brokers create znodes that only the identity of milena.registry.auth may read and"
    " change.",
)
REGISTRY_AUTH: Final = broker_setting(
    "milena.registry.auth",
    password(r"(digest|sasl):[^:\s]+:\S+", "digest:user:password or sasl:user:password"),
    default=None,
    scope=Scope.CLUSTER,
    doc="Identity with which brokers log in to the registry, by addauth or by SASL (DIGEST-MD5);"
    " preferably set in a file that others cannot read.",
)
ZOOKEEPER_4LW_COMMANDS_WHITELIST: Final = broker_setting(
    "zookeeper.4lw.commands.whitelist",
    string_list(
        pattern=r"\*|conf|cons|crst|dirs|dump|envi|isro|mntr|ruok|srst|srvr|stat|wch[cps]",
        allowed="a comma-separated list of four-letter words of ZooKeeper, or * for all",
    ),
    default=("srvr",),
    scope=Scope.CLUSTER,
    doc="Four-letter words that the registry started with the brokers answers, to any client and"
    " without a login; ZooKeeper's setting of that name.",
)
INTER_BROKER_PROTOCOL_VERSION: Final = broker_setting(
    "inter.broker.protocol.version",
    matching(r"\d+\.\d+(\.\d+)*(-IV\d+)?", "a Kafka release such as 3.9-IV0"),
    default="3.9",
    scope=Scope.CLUSTER,
    doc="The Kafka release that brokers report to tools, which infer supported features from it.",
    effect=without_effect("all brokers of a cluster have the same release"),
)
CONTROL_HOST: Final = broker_setting(
    "milena.control.host",
    matching(r"[^\s/:]+|[0-9a-fA-F:]+", "a host name or address"),
    default=LOOPBACK,
    doc="Address at which other brokers connect to this broker's control and replication"
    " endpoints; an address other than loopback needs milena.registry.auth, with which links are"
    " encrypted and authenticated.",
)
CONTROL_PORT: Final = broker_setting(
    "milena.control.port",
    integer(at_least=0, at_most=65_535),
    default=0,
    doc="Port of the control endpoint; 0 selects any free port, announced through the registry.",
)
REPLICATION_PORT: Final = broker_setting(
    "milena.replication.port",
    integer(at_least=0, at_most=65_535),
    default=0,
    doc="Port of the replication endpoint; 0 selects any free port, announced through the"
    " registry.",
)

# ------------------------------------------------------------------- topics

NUM_PARTITIONS: Final = broker_setting(
    "num.partitions",
    integer(at_least=1),
    default=1,
    doc="Number of partitions of a topic created without one.",
)
DEFAULT_REPLICATION_FACTOR: Final = broker_setting(
    "default.replication.factor",
    integer(at_least=1, at_most=32_767),
    default=1,
    doc="Replication factor of a topic created without one. `start` sets min(3, brokers).",
)
AUTO_CREATE_TOPICS_ENABLE: Final = broker_setting(
    "auto.create.topics.enable",
    boolean(),
    default=True,
    doc="Whether a metadata request for an unknown topic creates it.",
)
DELETE_TOPIC_ENABLE: Final = broker_setting(
    "delete.topic.enable", boolean(), default=True, doc="Whether topics may be deleted."
)
MIN_INSYNC_REPLICAS: Final = broker_setting(
    "min.insync.replicas",
    integer(at_least=1),
    default=1,
    update=Update.CLUSTER_WIDE,
    doc="Number of in-sync replicas that a produce request with acks=all needs.",
)
UNCLEAN_LEADER_ELECTION_ENABLE: Final = broker_setting(
    "unclean.leader.election.enable",
    boolean(),
    default=False,
    update=Update.CLUSTER_WIDE,
    doc="Whether a replica outside the ISR may become the leader if none in the ISR is alive; this"
    " loses records.",
)
AUTO_LEADER_REBALANCE_ENABLE: Final = broker_setting(
    "auto.leader.rebalance.enable",
    boolean(),
    default=True,
    doc="Whether the controller returns leadership to preferred replicas.",
)
LEADER_REBALANCE_DELAY_MS: Final = broker_setting(
    "milena.leader.rebalance.delay.ms",
    long(at_least=-1),
    default=1_000,
    doc="Time after which a preferred replica that is in sync again becomes the leader again, if"
    " auto.leader.rebalance.enable is true; -1 to wait for the next of Kafka's checks"
    " (leader.imbalance.check.interval.seconds).",
)
LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS: Final = broker_setting(
    "leader.imbalance.check.interval.seconds",
    long(at_least=1),
    default=300,
    doc="How often the controller checks for partitions that their preferred replica does not"
    " lead.",
)
LEADER_IMBALANCE_PER_BROKER_PERCENTAGE: Final = broker_setting(
    "leader.imbalance.per.broker.percentage",
    integer(at_least=0, at_most=100),
    default=10,
    doc="Percentage of a broker's preferred partitions that other brokers lead, above which a"
    " rebalance is triggered.",
)
CONTROLLED_SHUTDOWN_ENABLE: Final = broker_setting(
    "controlled.shutdown.enable",
    boolean(),
    default=True,
    doc="Whether a stopping broker first transfers its leaderships.",
)
CONTROLLED_SHUTDOWN_MAX_RETRIES: Final = broker_setting(
    "controlled.shutdown.max.retries",
    integer(at_least=0),
    default=3,
    doc="How many times a stopping broker repeats its request if leaderships remain.",
    effect=_SHUTDOWN_IS_TIMED,
)
CONTROLLED_SHUTDOWN_RETRY_BACKOFF_MS: Final = broker_setting(
    "controlled.shutdown.retry.backoff.ms",
    long(at_least=0),
    default=5 * SECOND_MS,
    doc="Pause between these attempts.",
    effect=_SHUTDOWN_IS_TIMED,
)

# ------------------------------------------------------------------- network

MESSAGE_MAX_BYTES: Final = broker_setting(
    "message.max.bytes",
    integer(at_least=0),
    default=1_048_588,
    update=Update.CLUSTER_WIDE,
    doc="Maximum size of a record batch, after compression.",
)
SOCKET_REQUEST_MAX_BYTES: Final = broker_setting(
    "socket.request.max.bytes",
    integer(at_least=1),
    default=100 * MIB,
    doc="Maximum size of a request; a connection that announces a larger one is closed.",
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
    doc="Maximum number of connections that wait to be accepted.",
)
MAX_CONNECTIONS: Final = broker_setting(
    "max.connections",
    integer(at_least=0),
    default=INT_MAX,
    update=Update.CLUSTER_WIDE,
    doc="Maximum number of client connections at a time, also for one listener; further ones wait"
    " in the listen queue.",
    narrowed=Narrowed.LISTENER,
)
MAX_CONNECTIONS_PER_IP: Final = broker_setting(
    "max.connections.per.ip",
    integer(at_least=0),
    default=INT_MAX,
    update=Update.CLUSTER_WIDE,
    doc="Maximum number of connections from one address.",
)
MAX_CONNECTIONS_PER_IP_OVERRIDES: Final = broker_setting(
    "max.connections.per.ip.overrides",
    matching(
        r"|[^\s,]+:\d+(\s*,\s*[^\s,]+:\d+)*", "a comma-separated list of host:count, possibly empty"
    ),
    default="",
    update=Update.CLUSTER_WIDE,
    doc="Maximum number of connections from each of these host names or addresses, in place of"
    " max.connections.per.ip.",
)
MAX_CONNECTION_CREATION_RATE: Final = broker_setting(
    "max.connection.creation.rate",
    integer(at_least=0),
    default=INT_MAX,
    update=Update.CLUSTER_WIDE,
    doc="Maximum number of connections accepted per second, also for one listener.",
    narrowed=Narrowed.LISTENER,
)
CONNECTIONS_MAX_IDLE_MS: Final = broker_setting(
    "connections.max.idle.ms",
    long(),
    default=10 * MINUTE_MS,
    doc="Idle time after which a connection is closed.",
)
QUEUED_MAX_REQUEST_BYTES: Final = broker_setting(
    "queued.max.request.bytes",
    long(at_least=-1),
    default=queued_request_bytes(machine_memory_bytes()),
    sample=queued_request_bytes(8 * GIB),
    doc="Maximum memory for requests that have not arrived completely, over all connections; above"
    " it the newest wait and the oldest continues. Pipelined requests may take a quarter of it,"
    " and so may responses that clients do not read. By default it is a sixteenth of the machine's"
    " memory, at least 128 MiB and at most 1 GiB (512 MiB on a machine with 8 GiB), and never less"
    " than socket.request.max.bytes; -1 for no limit.",
)
REQUEST_TIMEOUT_MS: Final = broker_setting(
    "request.timeout.ms",
    integer(at_least=1),
    default=30 * SECOND_MS,
    doc="How long the transaction coordinator waits until the replicas have a record of its topic."
    " The links between brokers have timeouts of their own.",
)
FETCH_MAX_BYTES: Final = broker_setting(
    "fetch.max.bytes",
    integer(at_least=1024),
    default=55 * MIB,
    doc="Maximum size of a fetch response, whatever the client requested.",
)
MAX_REQUEST_PARTITION_SIZE_LIMIT: Final = broker_setting(
    "max.request.partition.size.limit",
    integer(at_least=1),
    default=2_000,
    doc="Maximum number of partitions in one answer to DescribeTopicPartitions, whatever the client"
    " requested.",
)
MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS: Final = broker_setting(
    "max.incremental.fetch.session.cache.slots",
    integer(at_least=0),
    default=1000,
    doc="Maximum number of fetch sessions; clients that get none send full fetch requests.",
)

# ------------------------------------------------------------------- replication

REPLICA_LAG_TIME_MAX_MS: Final = broker_setting(
    "replica.lag.time.max.ms",
    long(at_least=1),
    default=30 * SECOND_MS,
    doc="How long a follower may be behind the leader's log end before it is removed from the ISR.",
)
REPLICA_FETCH_MAX_BYTES: Final = broker_setting(
    "replica.fetch.max.bytes",
    integer(at_least=1),
    default=MIB,
    doc="Maximum bytes of one partition in a replica fetch; a larger first batch is sent whole.",
)
REPLICA_FETCH_RESPONSE_MAX_BYTES: Final = broker_setting(
    "replica.fetch.response.max.bytes",
    integer(at_least=1),
    default=10 * MIB,
    doc="Maximum bytes of all partitions in a replica fetch.",
)
REPLICA_FETCH_MIN_BYTES: Final = broker_setting(
    "replica.fetch.min.bytes",
    integer(at_least=1),
    default=1,
    doc="Minimum bytes for which the leader delays the response to a replica fetch.",
    effect=without_effect("a leader answers a replica fetch as soon as a record is available"),
)
REPLICA_FETCH_WAIT_MAX_MS: Final = broker_setting(
    "replica.fetch.wait.max.ms",
    integer(at_least=1),
    default=500,
    doc="How long a leader parks a replica fetch that finds no records.",
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
    doc="How often high watermarks are written to disk.",
)
REPLICA_SELECTOR_CLASS: Final = broker_setting(
    "replica.selector.class",
    class_name(
        None,
        "org.apache.kafka.common.replica.LeaderSelector",
        "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    ),
    default=None,
    scope=Scope.CLUSTER,
    doc="RackAwareReplicaSelector lets consumers with a client.rack read from a follower in that"
    " rack, and tells followers each high watermark at once. Otherwise they read from leaders.",
)
REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND: Final = broker_setting(
    "replica.alter.log.dirs.io.max.bytes.per.second",
    long(at_least=1),
    default=LONG_MAX,
    update=Update.PER_BROKER,
    doc="Maximum rate at which a replica is copied to another of the log.dirs.",
)
LEADER_REPLICATION_THROTTLED_RATE: Final = broker_setting(
    "leader.replication.throttled.rate",
    long(at_least=0),
    default=LONG_MAX,
    update=Update.CLUSTER_WIDE,
    doc="Maximum bytes per second that a broker sends as the leader of the replicas in"
    " leader.replication.throttled.replicas. In-sync followers are not held back.",
    is_listed=False,
)
FOLLOWER_REPLICATION_THROTTLED_RATE: Final = broker_setting(
    "follower.replication.throttled.rate",
    long(at_least=0),
    default=LONG_MAX,
    update=Update.CLUSTER_WIDE,
    doc="Maximum bytes per second that a broker fetches for the replicas in"
    " follower.replication.throttled.replicas. In-sync replicas are not held back.",
    is_listed=False,
)
REPLICATION_QUOTA_WINDOW_NUM: Final = broker_setting(
    "replication.quota.window.num",
    integer(at_least=1),
    default=11,
    doc="Number of windows over which the rate of throttled replication is measured.",
)
REPLICATION_QUOTA_WINDOW_SIZE_SECONDS: Final = broker_setting(
    "replication.quota.window.size.seconds",
    integer(at_least=1),
    default=1,
    doc="Length of one such window.",
)

# ------------------------------------------------------------------- log

LOG_DIRS: Final = broker_setting(
    "log.dirs",
    string_list(TypeCode.STRING, allowed="a comma-separated list of directories"),
    default=("/tmp/milena-logs",),  # as in Kafka; `start` always passes one
    aliases=(Alias("log.dir", 1),),
    doc="Directories that hold the partitions.",
)
NUM_RECOVERY_THREADS_PER_DATA_DIR: Final = broker_setting(
    "num.recovery.threads.per.data.dir",
    integer(at_least=1),
    default=2,  # Kafka's value since 4.0 (KIP-1030); 1 before
    update=Update.CLUSTER_WIDE,
    doc="Number of helper processes that recover the logs of one directory when a broker starts"
    " after an unclean stop; at most the number of processors.",
)
LOG_SEGMENT_BYTES: Final = broker_setting(
    "log.segment.bytes",
    integer(at_least=14),
    default=GIB,
    update=Update.CLUSTER_WIDE,
    doc="Size at which a segment is closed and the next one is started.",
)
LOG_ROLL_MS: Final = broker_setting(
    "log.roll.ms",
    long(at_least=1),
    default=7 * DAY_MS,
    update=Update.CLUSTER_WIDE,
    aliases=(Alias("log.roll.hours", HOUR_MS),),
    doc="Age at which a segment is closed even if it is not full.",
)
LOG_ROLL_JITTER_MS: Final = broker_setting(
    "log.roll.jitter.ms",
    long(at_least=0),
    default=0,
    update=Update.CLUSTER_WIDE,
    aliases=(Alias("log.roll.jitter.hours", HOUR_MS),),
    doc="Maximum random time that is subtracted from that age, so that partitions do not roll at"
    " the same time.",
)
LOG_INDEX_INTERVAL_BYTES: Final = broker_setting(
    "log.index.interval.bytes",
    integer(at_least=0),
    default=4096,
    update=Update.CLUSTER_WIDE,
    doc="Bytes of the log between two entries of the offset index.",
)
LOG_INDEX_SIZE_MAX_BYTES: Final = broker_setting(
    "log.index.size.max.bytes",
    integer(at_least=4),
    default=10 * MIB,
    update=Update.CLUSTER_WIDE,
    doc="Maximum size of an index; when it is full, its segment is closed.",
)
LOG_PREALLOCATE: Final = broker_setting(
    "log.preallocate",
    boolean(),
    default=False,
    update=Update.CLUSTER_WIDE,
    doc="Whether all disk space of a segment is allocated with its first batch, instead of in"
    " steps.",
)
LOG_PREALLOCATE_STEP_BYTES: Final = broker_setting(
    "milena.log.preallocate.step.bytes",
    integer(at_least=4096),
    default=16 * MIB,
    doc="Disk space that is allocated for the active segment at a time, so that a full disk causes"
    " a clean error.",
)
LOG_DIR_RESERVE_BYTES: Final = broker_setting(
    "milena.log.dir.reserve.bytes",
    long(at_least=0),
    default=16 * MIB,
    doc="Disk space that is kept free of records, at most a tenth of the disk; a log directory"
    " with less free space accepts no records, and other in-sync replicas become leaders.",
)
LOG_SCRUB_INTERVAL_MS: Final = broker_setting(
    "milena.log.scrub.interval.ms",
    long(at_least=0),
    default=DAY_MS,
    update=Update.CLUSTER_WIDE,
    doc="How often every log is read completely and its checksums are verified; 0 for never.",
)
LOG_SCRUB_MAX_BYTES_PER_SECOND: Final = broker_setting(
    "milena.log.scrub.max.bytes.per.second",
    long(at_least=64 * KIB),
    default=10 * MIB,
    update=Update.CLUSTER_WIDE,
    doc="Maximum bytes that the broker reads per second for that; it uses at most a twentieth of a"
    " processor.",
)
LOG_RETENTION_MS: Final = broker_setting(
    "log.retention.ms",
    long(at_least=-1),
    default=7 * DAY_MS,
    update=Update.CLUSTER_WIDE,
    aliases=(Alias("log.retention.minutes", MINUTE_MS), Alias("log.retention.hours", HOUR_MS)),
    doc="Age after which a segment is deleted; -1 keeps it forever.",
)
LOG_RETENTION_BYTES: Final = broker_setting(
    "log.retention.bytes",
    long(),
    default=-1,
    update=Update.CLUSTER_WIDE,
    doc="Size of a partition above which old segments are deleted; a negative value means no"
    " limit.",
)
LOG_RETENTION_CHECK_INTERVAL_MS: Final = broker_setting(
    "log.retention.check.interval.ms",
    long(at_least=1),
    default=5 * MINUTE_MS,
    doc="How often segments are checked for deletion; the first check is at most 30 s after the"
    " start.",
)
LOG_SEGMENT_DELETE_DELAY_MS: Final = broker_setting(
    "log.segment.delete.delay.ms",
    long(at_least=0),
    default=MINUTE_MS,
    update=Update.CLUSTER_WIDE,
    doc="How long the files of deleted segments and topics remain on disk, under other names.",
)
LOG_FLUSH_INTERVAL_MESSAGES: Final = broker_setting(
    "log.flush.interval.messages",
    long(at_least=1),
    default=LONG_MAX,
    update=Update.CLUSTER_WIDE,
    doc="Number of records after which a partition is synced to disk, before the last one is"
    " acknowledged.",
)
LOG_FLUSH_INTERVAL_MS: Final = broker_setting(
    "log.flush.interval.ms",
    long(at_least=0),
    default=LONG_MAX,
    update=Update.CLUSTER_WIDE,
    doc="Age of the oldest record not yet on disk after which a partition is synced to disk.",
)
LOG_FLUSH_SCHEDULER_INTERVAL_MS: Final = broker_setting(
    "log.flush.scheduler.interval.ms",
    long(at_least=1),
    default=LONG_MAX,
    doc="How often partitions are checked for these two limits, at least once a second.",
)
LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS: Final = broker_setting(
    "log.flush.offset.checkpoint.interval.ms",
    integer(at_least=1),
    default=MINUTE_MS,
    doc="How often recovery points are written to disk; after a crash, the log after them is"
    " scanned.",
    effect=_ONE_CHECKPOINT,
)
LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS: Final = broker_setting(
    "log.flush.start.offset.checkpoint.interval.ms",
    integer(at_least=1),
    default=MINUTE_MS,
    doc="How often log start offsets are written to disk.",
    effect=_ONE_CHECKPOINT,
)
LOG_CLEANUP_POLICY: Final = broker_setting(
    "log.cleanup.policy",
    any_of("delete", "compact"),
    default=("delete",),
    update=Update.CLUSTER_WIDE,
    doc="Treatment of old segments: delete, compact, both, or none if empty.",
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
    doc="Number of helper processes that clean logs in parallel, one log each.",
)
LOG_CLEANER_IO_MAX_BYTES_PER_SECOND: Final = broker_setting(
    "log.cleaner.io.max.bytes.per.second",
    double(at_least=0),
    default=DOUBLE_MAX,
    update=Update.CLUSTER_WIDE,
    doc="Maximum bytes per second that all of them together read and write; a change applies to"
    " the next cleaning.",
)
LOG_CLEANER_DEDUPE_BUFFER_SIZE: Final = broker_setting(
    "log.cleaner.dedupe.buffer.size",
    long(at_least=1 * MIB),
    default=128 * MIB,
    update=Update.CLUSTER_WIDE,
    doc="Memory for the newest offset of each key, 24 bytes per key, divided among the helper"
    " processes.",
)
LOG_CLEANER_IO_BUFFER_SIZE: Final = broker_setting(
    "log.cleaner.io.buffer.size",
    integer(at_least=0),
    default=512 * KIB,
    update=Update.CLUSTER_WIDE,
    doc="Memory for input and output, divided among the helper processes; it grows for larger"
    " batches.",
)
LOG_CLEANER_IO_BUFFER_LOAD_FACTOR: Final = broker_setting(
    "log.cleaner.io.buffer.load.factor",
    double(at_least=0.01, at_most=0.99),
    default=0.9,
    update=Update.CLUSTER_WIDE,
    doc="Maximum load factor of the memory for keys; a higher one is slower.",
)
LOG_CLEANER_BACKOFF_MS: Final = broker_setting(
    "log.cleaner.backoff.ms",
    long(at_least=1),
    default=15 * SECOND_MS,
    update=Update.CLUSTER_WIDE,
    doc="Pause if no log was dirty enough to be cleaned.",
)
LOG_CLEANER_DELETE_RETENTION_MS: Final = broker_setting(
    "log.cleaner.delete.retention.ms",
    long(at_least=0),
    default=DAY_MS,
    update=Update.CLUSTER_WIDE,
    doc="How long compaction keeps a tombstone for consumers that read from the beginning.",
)
LOG_CLEANER_MIN_COMPACTION_LAG_MS: Final = broker_setting(
    "log.cleaner.min.compaction.lag.ms",
    long(at_least=0),
    default=0,
    update=Update.CLUSTER_WIDE,
    doc="Age below which a record is not removed by compaction.",
)
LOG_CLEANER_MAX_COMPACTION_LAG_MS: Final = broker_setting(
    "log.cleaner.max.compaction.lag.ms",
    long(at_least=1),
    default=LONG_MAX,
    update=Update.CLUSTER_WIDE,
    doc="Age at which a record is compacted regardless of the dirty ratio.",
)
LOG_CLEANER_MIN_CLEANABLE_RATIO: Final = broker_setting(
    "log.cleaner.min.cleanable.ratio",
    double(at_least=0, at_most=1),
    default=0.5,
    update=Update.CLUSTER_WIDE,
    doc="Dirty share of a log from which on it is compacted.",
)
LOG_MESSAGE_TIMESTAMP_TYPE: Final = broker_setting(
    "log.message.timestamp.type",
    choice("CreateTime", "LogAppendTime"),
    default="CreateTime",
    update=Update.CLUSTER_WIDE,
    doc="Whether records have the producer's timestamp or the broker's.",
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
    doc="Codec on disk; `producer` keeps the codec of the producer.",
)
COMPRESSION_GZIP_LEVEL: Final = broker_setting(
    "compression.gzip.level",
    integer(at_least=-1, at_most=9),
    default=-1,
    update=Update.CLUSTER_WIDE,
    doc="Compression level if the broker itself compresses with gzip; -1 is the codec's default.",
)
COMPRESSION_LZ4_LEVEL: Final = broker_setting(
    "compression.lz4.level",
    integer(at_least=1, at_most=17),
    default=9,
    update=Update.CLUSTER_WIDE,
    doc="Compression level if the broker itself compresses with lz4.",
)
COMPRESSION_ZSTD_LEVEL: Final = broker_setting(
    "compression.zstd.level",
    integer(at_least=-131_072, at_most=22),
    default=3,
    update=Update.CLUSTER_WIDE,
    doc="Compression level if the broker itself compresses with zstd.",
)
PRODUCER_ID_EXPIRATION_MS: Final = broker_setting(
    "producer.id.expiration.ms",
    integer(at_least=1),
    default=DAY_MS,
    update=Update.CLUSTER_WIDE,
    doc="Inactivity after which a partition discards an idempotent producer's sequence.",
)
PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS: Final = broker_setting(
    "producer.id.expiration.check.interval.ms",
    integer(at_least=1),
    default=10 * MINUTE_MS,
    doc="How often a broker looks for such producers.",
)

# ------------------------------------------------------------------- transactions

TRANSACTION_STATE_LOG_NUM_PARTITIONS: Final = broker_setting(
    "transaction.state.log.num.partitions",
    integer(at_least=1),
    default=50,
    scope=Scope.CLUSTER,
    doc="Number of partitions of __transaction_state; must not be changed once the topic exists.",
)
TRANSACTION_STATE_LOG_REPLICATION_FACTOR: Final = broker_setting(
    "transaction.state.log.replication.factor",
    integer(at_least=1, at_most=32_767),
    default=3,
    doc="Replication factor of __transaction_state, which is created once that many brokers are"
    " running. `start` sets min(3, brokers).",
)
TRANSACTION_STATE_LOG_MIN_ISR: Final = broker_setting(
    "transaction.state.log.min.isr",
    integer(at_least=1),
    default=2,
    doc="min.insync.replicas of __transaction_state when it is created. `start` sets it to at most"
    " the number of brokers.",
)
TRANSACTION_STATE_LOG_SEGMENT_BYTES: Final = broker_setting(
    "transaction.state.log.segment.bytes",
    integer(at_least=1),
    default=100 * MIB,
    doc="segment.bytes of __transaction_state when it is created: small segments are compacted, and"
    " therefore loaded, sooner.",
)
TRANSACTION_STATE_LOG_LOAD_BUFFER_SIZE: Final = broker_setting(
    "transaction.state.log.load.buffer.size",
    integer(at_least=1),
    default=5 * MIB,
    doc="Maximum bytes of a partition of __transaction_state that are read at a time when"
    " transactions are loaded; a larger batch is read whole.",
)
TRANSACTION_MAX_TIMEOUT_MS: Final = broker_setting(
    "transaction.max.timeout.ms",
    integer(at_least=1),
    default=15 * MINUTE_MS,
    doc="Longest transaction.timeout.ms that a producer may ask for: an open transaction holds"
    " consumers with isolation.level=read_committed back.",
)
TRANSACTIONAL_ID_EXPIRATION_MS: Final = broker_setting(
    "transactional.id.expiration.ms",
    integer(at_least=1),
    default=7 * DAY_MS,
    doc="Inactivity after which a transactional id without an open transaction is removed.",
)
TRANSACTION_ABORT_TIMED_OUT_TRANSACTION_CLEANUP_INTERVAL_MS: Final = broker_setting(
    "transaction.abort.timed.out.transaction.cleanup.interval.ms",
    integer(at_least=1),
    default=10 * SECOND_MS,
    doc="How often transactions that are open for longer than their timeout are aborted.",
)
TRANSACTION_REMOVE_EXPIRED_TRANSACTION_CLEANUP_INTERVAL_MS: Final = broker_setting(
    "transaction.remove.expired.transaction.cleanup.interval.ms",
    integer(at_least=1),
    default=60 * MINUTE_MS,
    doc="How often transactional ids that have expired are removed.",
)
TRANSACTION_PARTITION_VERIFICATION_ENABLE: Final = broker_setting(
    "transaction.partition.verification.enable",
    boolean(),
    default=True,
    update=Update.CLUSTER_WIDE,
    doc="Whether the first batch of a transaction in a partition is accepted only if the"
    " transaction coordinator knows that the partition belongs to it (KIP-890).",
)
ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MAX_MS: Final = broker_setting(
    "add.partitions.to.txn.retry.backoff.max.ms",
    integer(at_least=0),
    default=100,
    doc="How long a request waits at the transaction coordinator until the transaction before has"
    " ended, before the client is told to try again (CONCURRENT_TRANSACTIONS).",
)

# ------------------------------------------------------------------- consumer groups

GROUP_MIN_SESSION_TIMEOUT_MS: Final = broker_setting(
    "group.min.session.timeout.ms",
    integer(),
    default=6 * SECOND_MS,
    doc="Minimum session timeout that a member of a group may request.",
)
GROUP_MAX_SESSION_TIMEOUT_MS: Final = broker_setting(
    "group.max.session.timeout.ms",
    integer(),
    default=30 * MINUTE_MS,
    doc="Maximum session timeout that a member of a group may request.",
)
GROUP_INITIAL_REBALANCE_DELAY_MS: Final = broker_setting(
    "group.initial.rebalance.delay.ms",
    integer(),
    default=3 * SECOND_MS,
    doc="How long an empty group waits for further members before its first rebalance; the wait"
    " restarts with each member that joins. `start` sets 0, as the file that comes with Kafka"
    " does.",
)
GROUP_MAX_SIZE: Final = broker_setting(
    "group.max.size",
    integer(at_least=1),
    default=INT_MAX,
    doc="Maximum number of members of a group.",
)
GROUP_COORDINATOR_REBALANCE_PROTOCOLS: Final = broker_setting(
    "group.coordinator.rebalance.protocols",
    list_of("classic", "consumer", "streams", "share"),
    default=("classic", "consumer"),
    doc="Protocols by which groups assign their partitions; classic is always included.",
    effect=effective_in_part("there are no streams groups or share groups"),
)
GROUP_CONSUMER_SESSION_TIMEOUT_MS: Final = broker_setting(
    "group.consumer.session.timeout.ms",
    integer(at_least=1),
    default=45 * SECOND_MS,
    doc="Session timeout of members of the newer consumer protocol (KIP-848), if their group has"
    " no consumer.session.timeout.ms.",
)
GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS: Final = broker_setting(
    "group.consumer.min.session.timeout.ms",
    integer(at_least=1),
    default=45 * SECOND_MS,
    doc="Minimum of this session timeout.",
)
GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS: Final = broker_setting(
    "group.consumer.max.session.timeout.ms",
    integer(at_least=1),
    default=60 * SECOND_MS,
    doc="Maximum of this session timeout.",
)
GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS: Final = broker_setting(
    "group.consumer.heartbeat.interval.ms",
    integer(at_least=1),
    default=5 * SECOND_MS,
    doc="Heartbeat interval of members of the newer consumer protocol, if their group has no"
    " consumer.heartbeat.interval.ms.",
)
GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS: Final = broker_setting(
    "group.consumer.min.heartbeat.interval.ms",
    integer(at_least=1),
    default=5 * SECOND_MS,
    doc="Minimum of this heartbeat interval.",
)
GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS: Final = broker_setting(
    "group.consumer.max.heartbeat.interval.ms",
    integer(at_least=1),
    default=15 * SECOND_MS,
    doc="Maximum of this heartbeat interval.",
)
GROUP_CONSUMER_MAX_SIZE: Final = broker_setting(
    "group.consumer.max.size",
    integer(at_least=1),
    default=INT_MAX,
    doc="Maximum number of members of a group of the newer consumer protocol.",
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
    doc="Assignors of the newer consumer protocol; groups whose members request none use the"
    " first. Kafka's names of the two classes are accepted too.",
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
    doc="How often the regular expressions to which members subscribe are matched with topics"
    " again.",
)
OFFSET_METADATA_MAX_BYTES: Final = broker_setting(
    "offset.metadata.max.bytes",
    integer(),
    default=4 * KIB,
    doc="Maximum length of the text that a client may commit with an offset.",
)
OFFSETS_LOAD_BUFFER_SIZE: Final = broker_setting(
    "offsets.load.buffer.size",
    integer(at_least=1),
    default=5 * MIB,
    doc="Maximum bytes of a partition of __consumer_offsets that are read at a time when groups"
    " are loaded; a larger batch is read whole.",
)
OFFSETS_TOPIC_NUM_PARTITIONS: Final = broker_setting(
    "offsets.topic.num.partitions",
    integer(at_least=1),
    default=50,
    scope=Scope.CLUSTER,
    doc="Number of partitions of __consumer_offsets; must not be changed once the topic exists.",
)
OFFSETS_TOPIC_REPLICATION_FACTOR: Final = broker_setting(
    "offsets.topic.replication.factor",
    integer(at_least=1, at_most=32_767),
    default=3,
    doc="Replication factor of __consumer_offsets, which is created once that many brokers are"
    " running. `start` sets min(3, brokers).",
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
    doc="Age after which committed offsets are removed, counted from when the group became empty"
    " or, without members, from the commit (KIP-211).",
)
OFFSETS_RETENTION_CHECK_INTERVAL_MS: Final = broker_setting(
    "offsets.retention.check.interval.ms",
    long(at_least=1),
    default=10 * MINUTE_MS,
    doc="How often the age of committed offsets is checked.",
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
    doc="Number of windows over which a client's rate is measured.",
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
    doc="Credit of a client for the windows before its first use: none (elapsed), or all of them"
    " as if they had been empty (kafka), which can be used at once.",
)

CONTROLLER_QUOTA_WINDOW_NUM: Final = broker_setting(
    "controller.quota.window.num",
    integer(at_least=1),
    default=11,
    doc="Number of windows over which the rate of topic changes is measured; the sum of what they"
    " allow can be used at once.",
)
CONTROLLER_QUOTA_WINDOW_SIZE_SECONDS: Final = broker_setting(
    "controller.quota.window.size.seconds",
    integer(at_least=1),
    default=1,
    doc="Length of one such window.",
)

# ------------------------------------------------------------------- who clients are: TLS

SSL_KEYSTORE_TYPE: Final = broker_setting(
    "ssl.keystore.type",
    matching(r"\w+", "PEM or PKCS12"),
    default="JKS",
    update=Update.PER_BROKER,
    narrowed=Narrowed.LISTENER,
    doc="Format of the key store. Java's own format, JKS, is not supported.",
)
SSL_KEYSTORE_LOCATION: Final = broker_setting(
    "ssl.keystore.location",
    optional_string(),
    default=None,
    update=Update.PER_BROKER,
    narrowed=Narrowed.LISTENER,
    doc="File with the broker's private key and certificates.",
)
SSL_KEYSTORE_PASSWORD: Final = broker_setting(
    "ssl.keystore.password",
    secret(),
    default=None,
    update=Update.PER_BROKER,
    narrowed=Narrowed.LISTENER,
    doc="Password of a PKCS12 key store.",
)
SSL_KEY_PASSWORD: Final = broker_setting(
    "ssl.key.password",
    secret(),
    default=None,
    update=Update.PER_BROKER,
    narrowed=Narrowed.LISTENER,
    doc="Password of the private key.",
)
SSL_KEYSTORE_KEY: Final = broker_setting(
    "ssl.keystore.key",
    secret(),
    default=None,
    update=Update.PER_BROKER,
    narrowed=Narrowed.LISTENER,
    doc="The private key itself, as the text of a PEM file (PKCS#8), in place of a key store.",
)
SSL_KEYSTORE_CERTIFICATE_CHAIN: Final = broker_setting(
    "ssl.keystore.certificate.chain",
    secret(),
    default=None,
    update=Update.PER_BROKER,
    narrowed=Narrowed.LISTENER,
    doc="The certificates of ssl.keystore.key, as the text of a PEM file, the broker's own first.",
)
SSL_TRUSTSTORE_TYPE: Final = broker_setting(
    "ssl.truststore.type",
    matching(r"\w+", "PEM or PKCS12"),
    default="JKS",
    update=Update.PER_BROKER,
    narrowed=Narrowed.LISTENER,
    doc="Format of the trust store. Java's own format, JKS, is not supported.",
)
SSL_TRUSTSTORE_LOCATION: Final = broker_setting(
    "ssl.truststore.location",
    optional_string(),
    default=None,
    update=Update.PER_BROKER,
    narrowed=Narrowed.LISTENER,
    doc="File with the certificates of the authorities that may sign clients' certificates.",
)
SSL_TRUSTSTORE_PASSWORD: Final = broker_setting(
    "ssl.truststore.password",
    secret(),
    default=None,
    update=Update.PER_BROKER,
    narrowed=Narrowed.LISTENER,
    doc="Password of a PKCS12 trust store.",
)
SSL_TRUSTSTORE_CERTIFICATES: Final = broker_setting(
    "ssl.truststore.certificates",
    secret(),
    default=None,
    update=Update.PER_BROKER,
    narrowed=Narrowed.LISTENER,
    doc="These certificates as the text of a PEM file, in place of a trust store.",
)
SSL_CLIENT_AUTH: Final = broker_setting(
    "ssl.client.auth",
    choice("required", "requested", "none"),
    default="none",
    narrowed=Narrowed.LISTENER,
    doc="Whether clients must present a certificate (required), may do so (requested), or are not"
    " asked (none).",
)
SSL_PRINCIPAL_MAPPING_RULES: Final = broker_setting(
    "ssl.principal.mapping.rules",
    string(),
    default="DEFAULT",
    narrowed=Narrowed.LISTENER,
    doc="Rules that map the subject of a client's certificate to a user name: DEFAULT, or"
    " RULE:pattern/replacement/, optionally followed by L or U (lower or upper case); the first"
    " match applies (KIP-371).",
)
SSL_PROTOCOL: Final = broker_setting(
    "ssl.protocol",
    choice("TLSv1.3", "TLSv1.2", "TLS"),
    default="TLSv1.3",
    narrowed=Narrowed.LISTENER,
    update=Update.PER_BROKER,
    doc="Preferred TLS version.",
    effect=without_effect(
        "the newest version of ssl.enabled.protocols that the client supports is used"
    ),
)
SSL_ENABLED_PROTOCOLS: Final = broker_setting(
    "ssl.enabled.protocols",
    list_of("TLSv1.2", "TLSv1.3"),
    default=("TLSv1.2", "TLSv1.3"),
    narrowed=Narrowed.LISTENER,
    doc="TLS versions that clients may use.",
)
SSL_CIPHER_SUITES: Final = broker_setting(
    "ssl.cipher.suites",
    string_list(),
    default=(),
    narrowed=Narrowed.LISTENER,
    doc="Cipher suites that clients may use, by their standard names (TLS_...); if empty, all that"
    " are considered secure.",
)
SSL_ALLOW_DN_CHANGES: Final = broker_setting(
    "ssl.allow.dn.changes",
    boolean(),
    default=False,
    doc="Whether a replaced key store may name another subject (KIP-978).",
)
SSL_ALLOW_SAN_CHANGES: Final = broker_setting(
    "ssl.allow.san.changes",
    boolean(),
    default=False,
    doc="Whether a replaced key store may lack host names of the former one.",
)

# ------------------------------------------------------------------- who clients are: SASL

SASL_ENABLED_MECHANISMS: Final = broker_setting(
    "sasl.enabled.mechanisms",
    list_of("GSSAPI", *SaslMechanism),
    default=("GSSAPI",),
    narrowed=Narrowed.LISTENER,
    doc="SASL mechanisms that clients may use to log in. GSSAPI (Kerberos) is the default, as in"
    " Kafka, but not implemented: a listener with SASL needs another one.",
)
SASL_MECHANISM_INTER_BROKER_PROTOCOL: Final = broker_setting(
    "sasl.mechanism.inter.broker.protocol",
    string(),
    default="GSSAPI",
    update=Update.PER_BROKER,
    doc="SASL mechanism with which brokers log in to each other.",
    effect=_BROKERS_LINKED,
)
SASL_JAAS_CONFIG: Final = broker_setting(
    "sasl.jaas.config",
    secret(),
    default=None,
    narrowed=Narrowed.MECHANISM,
    doc="Users, passwords or options of one mechanism on one listener, in Java's JAAS format; set"
    " under listener.name.NAME.MECHANISM, both in lower case.",
)
SASL_SERVER_CALLBACK_HANDLER_CLASS: Final = broker_setting(
    "sasl.server.callback.handler.class",
    class_name(
        None,
        "org.apache.kafka.common.security.plain.internals.PlainServerCallbackHandler",
        "org.apache.kafka.common.security.scram.internals.ScramServerCallbackHandler",
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
        "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
        "org.apache.kafka.common.security.oauthbearer.internals.unsecured"
        ".OAuthBearerUnsecuredValidatorCallbackHandler",
    ),
    default=None,
    narrowed=Narrowed.MECHANISM,
    doc="Class that verifies clients' credentials. OAUTHBEARER tokens are unsecured by default,"
    " and must be signed with Kafka's OAuthBearerValidatorCallbackHandler.",
)
SASL_SERVER_MAX_RECEIVE_SIZE: Final = broker_setting(
    "sasl.server.max.receive.size",
    integer(at_least=0),
    default=512 * KIB,
    narrowed=Narrowed.LISTENER,
    doc="Maximum size of a request before a client has logged in; a connection that announces a"
    " larger one is closed.",
)
CONNECTIONS_MAX_REAUTH_MS: Final = broker_setting(
    "connections.max.reauth.ms",
    long(),
    default=0,
    narrowed=Narrowed.MECHANISM,
    doc="How long a SASL login is valid before the client must log in again on the same connection"
    " (KIP-368); 0 for no limit.",
)
CONNECTION_FAILED_AUTHENTICATION_DELAY_MS: Final = broker_setting(
    "connection.failed.authentication.delay.ms",
    integer(at_least=0),
    default=100,
    doc="Delay of the response to a failed login, after which the connection is closed; it applies"
    " to listeners and to the registry started with the brokers.",
)
SASL_OAUTHBEARER_JWKS_ENDPOINT_URL: Final = broker_setting(
    "sasl.oauthbearer.jwks.endpoint.url",
    optional_url("http", "https", "file"),
    default=None,
    narrowed=Narrowed.MECHANISM,
    doc="Location of the keys that verify the signatures of tokens: a JWKS at an http, https or"
    " file URL.",
)
SASL_OAUTHBEARER_JWKS_ENDPOINT_REFRESH_MS: Final = broker_setting(
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    long(),
    default=HOUR_MS,
    narrowed=Narrowed.MECHANISM,
    doc="How often these keys are fetched.",
)
SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MS: Final = broker_setting(
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    long(),
    default=100,
    narrowed=Narrowed.MECHANISM,
    doc="Pause after a failed fetch of these keys; it doubles with each further failure.",
)
SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MAX_MS: Final = broker_setting(
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    long(),
    default=10 * SECOND_MS,
    narrowed=Narrowed.MECHANISM,
    doc="Maximum of this pause.",
)
SASL_OAUTHBEARER_CLOCK_SKEW_SECONDS: Final = broker_setting(
    "sasl.oauthbearer.clock.skew.seconds",
    integer(),
    default=30,
    narrowed=Narrowed.MECHANISM,
    doc="Maximum difference between the clock of a token's issuer and the broker's.",
)
SASL_OAUTHBEARER_EXPECTED_AUDIENCE: Final = broker_setting(
    "sasl.oauthbearer.expected.audience",
    string_list(),
    default=(),
    narrowed=Narrowed.MECHANISM,
    doc="Audiences of which a token must name one; if empty, any is accepted.",
)
SASL_OAUTHBEARER_EXPECTED_ISSUER: Final = broker_setting(
    "sasl.oauthbearer.expected.issuer",
    optional_string(),
    default=None,
    narrowed=Narrowed.MECHANISM,
    doc="Required issuer of a token; if empty, any is accepted.",
)
SASL_OAUTHBEARER_SCOPE_CLAIM_NAME: Final = broker_setting(
    "sasl.oauthbearer.scope.claim.name",
    string(),
    default="scope",
    narrowed=Narrowed.MECHANISM,
    doc="Name of the claim of a token that contains its scopes.",
)
SASL_OAUTHBEARER_SUB_CLAIM_NAME: Final = broker_setting(
    "sasl.oauthbearer.sub.claim.name",
    string(),
    default="sub",
    narrowed=Narrowed.MECHANISM,
    doc="Name of the claim of a token that contains its user.",
)
PRINCIPAL_BUILDER_CLASS: Final = broker_setting(
    "principal.builder.class",
    class_name("org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"),
    default="org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
    narrowed=Narrowed.LISTENER,
    update=Update.PER_BROKER,
    doc="Class that derives a client's user from its credentials.",
    effect=without_effect("only the behavior of this class is implemented"),
)

# ------------------------------------------------------------------- what clients may do

AUTHORIZER_CLASS_NAME: Final = broker_setting(
    "authorizer.class.name",
    class_name(
        None,
        "kafka.security.authorizer.AclAuthorizer",
        "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    ),
    default=None,
    scope=Scope.CLUSTER,
    doc="Enables ACLs: both of Kafka's classes select this broker's only authorizer. If empty, all"
    " users may do everything.",
)
SUPER_USERS: Final = broker_setting(
    "super.users",
    principals(),
    default=frozenset(),
    scope=Scope.CLUSTER,
    doc="Users who may do everything.",
)
ALLOW_EVERYONE_IF_NO_ACL_FOUND: Final = broker_setting(
    "allow.everyone.if.no.acl.found",
    boolean(),
    default=False,
    scope=Scope.CLUSTER,
    doc="Whether all users may access resources without an ACL.",
)
DELEGATION_TOKEN_SECRET_KEY: Final = broker_setting(
    "delegation.token.secret.key",
    secret(),
    default=None,
    scope=Scope.CLUSTER,
    aliases=(Alias("delegation.token.master.key", 1),),
    doc="Secret with which delegation tokens are signed (KIP-48); without it, delegation tokens"
    " are disabled.",
)
DELEGATION_TOKEN_MAX_LIFETIME_MS: Final = broker_setting(
    "delegation.token.max.lifetime.ms",
    long(at_least=1),
    default=7 * DAY_MS,
    doc="Age above which a delegation token cannot be renewed.",
)
DELEGATION_TOKEN_EXPIRY_TIME_MS: Final = broker_setting(
    "delegation.token.expiry.time.ms",
    long(at_least=1),
    default=DAY_MS,
    doc="How long a delegation token is valid if it is not renewed.",
)
DELEGATION_TOKEN_EXPIRY_CHECK_INTERVAL_MS: Final = broker_setting(
    "delegation.token.expiry.check.interval.ms",
    long(at_least=1),
    default=HOUR_MS,
    doc="How often delegation tokens are checked for expiry.",
)
DELEGATION_TOKEN_MAX_PER_OWNER: Final = broker_setting(
    "milena.delegation.token.max.per.owner",
    integer(at_least=1),
    default=250,
    doc="Maximum number of delegation tokens of a user; a further one is refused with"
    " POLICY_VIOLATION.",
)

# ----------------------------------------------------------------------- metrics of clients

TELEMETRY_MAX_BYTES: Final = broker_setting(
    "telemetry.max.bytes",
    integer(at_least=1),
    default=1 << 20,
    doc="Maximum size of the metrics in one push of a client (KIP-714).",
)
PASSWORD_ENCODER_SECRET: Final = broker_setting(
    "password.encoder.secret",
    secret(),
    default=None,
    doc="Secret with which passwords set while brokers run are encrypted.",
)
PASSWORD_ENCODER_OLD_SECRET: Final = broker_setting(
    "password.encoder.old.secret",
    secret(),
    default=None,
    doc="The previous secret: passwords encrypted with it are decrypted and encrypted again with"
    " the new one.",
)
PASSWORD_ENCODER_KEYFACTORY_ALGORITHM: Final = broker_setting(
    "password.encoder.keyfactory.algorithm",
    matching(r"|PBKDF2WithHmacSHA(1|256|512)", "empty or PBKDF2WithHmacSHA1, 256 or 512"),
    default="",
    doc="Algorithm that derives a key from the secret; PBKDF2WithHmacSHA512 if empty.",
)
PASSWORD_ENCODER_CIPHER_ALGORITHM: Final = broker_setting(
    "password.encoder.cipher.algorithm",
    choice("AES/CBC/PKCS5Padding", "AES/GCM/NoPadding"),
    default="AES/CBC/PKCS5Padding",
    doc="Algorithm with which passwords are encrypted.",
)
PASSWORD_ENCODER_KEY_LENGTH: Final = broker_setting(
    "password.encoder.key.length",
    matching(r"128|192|256", "128, 192 or 256"),
    default="128",
    doc="Length of that key in bits.",
)
PASSWORD_ENCODER_ITERATIONS: Final = broker_setting(
    "password.encoder.iterations",
    integer(at_least=1024),
    default=4096,
    doc="Number of PBKDF2 iterations for that key.",
)

# ------------------------------------------------------------------- metrics

METRICS_ENABLE: Final = broker_setting(
    "milena.metrics.enable",
    boolean(),
    default=True,
    doc="Whether the broker maintains metrics; disabled only to measure their cost.",
)
METRICS_TOPIC_ENABLE: Final = broker_setting(
    "milena.metrics.topic.enable",
    boolean(),
    default=True,
    doc="Whether the broker writes metric records into the topic __cluster_metrics.",
)
METRICS_TOPIC_CLIENT_PRODUCE: Final = broker_setting(
    "milena.metrics.topic.client.produce",
    boolean(),
    default=False,
    update=Update.CLUSTER_WIDE,
    doc="Whether clients, too, may produce to __cluster_metrics (for teaching).",
)
METRICS_INTERVAL_MS: Final = broker_setting(
    "milena.metrics.interval.ms",
    # Half of what readers accept, since an interval is sometimes longer than it should be.
    integer(at_least=250, at_most=HOUR_MS // 2),
    default=SECOND_MS,
    doc="How often the broker writes metric records.",
)
METRICS_GROUP_INTERVAL_MS: Final = broker_setting(
    "milena.metrics.group.interval.ms",
    integer(at_least=SECOND_MS, at_most=DAY_MS // 2),
    default=5 * SECOND_MS,
    doc="How often the broker writes metric records of the consumer groups that it coordinates.",
)

# ------------------------------------------------------------------- what only Kafka has

OWN_SETTINGS: Final = tuple(BROKER_SETTINGS)
"""The settings that this module defines."""
SETTINGS_OF_KAFKA: Final = tuple(map(BROKER_SETTINGS.add, settings_without_effect(BROKER_SETTINGS)))
"""Settings of Kafka's brokers that have no effect here."""
