"""The tables of a broker's metrics: short key, Kafka's JMX name, kind, meaning.

Kafka's names that end in PerSec are meters, with a count and a rate. Here only the count is kept; a
reader derives the rate from two readings. Names that begin with `milena.` are not in Kafka.
"""

from typing import Final, NamedTuple

from cluster.metrics.stats_layout import MetricKind

_COUNTER: Final = MetricKind.COUNTER
_GAUGE: Final = MetricKind.GAUGE
_REAL: Final = MetricKind.REAL


class Metric(NamedTuple):
    """One row. `key` is also its key in the `values` of a broker's metric record."""

    key: str
    name: str
    kind: MetricKind
    doc: str

    @property
    def is_rate(self) -> bool:
        """Whether metric records contain the rate per second rather than the value itself."""
        return self.kind is MetricKind.COUNTER


def _topics(key: str, doc: str) -> Metric:
    return Metric(key, f"kafka.server:type=BrokerTopicMetrics,name={key}", _COUNTER, doc)


def _replicas(key: str, kind: MetricKind, doc: str) -> Metric:
    return Metric(key, f"kafka.server:type=ReplicaManager,name={key}", kind, doc)


def _groups(key: str, doc: str) -> Metric:
    name = f"kafka.coordinator.group:type=GroupMetadataManager,name={key}"
    return Metric(key, name, _GAUGE, doc)


def _by_kind(key: str, name: str, doc: str) -> Metric:
    return Metric(key, f"kafka.server:type=group-coordinator-metrics,name={name}", _GAUGE, doc)


def _coordinator(key: str, name: str, doc: str) -> Metric:
    return Metric(key, f"kafka.server:type=group-coordinator-metrics,name={name}", _COUNTER, doc)


def _controller(key: str, doc: str) -> Metric:
    name = f"kafka.controller:type=KafkaController,name={key}"
    return Metric(key, name, _GAUGE, f"{doc}; 0 on every broker but the controller")


def _waiting(key: str, operation: str, doc: str) -> Metric:
    name = "kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize"
    return Metric(key, f"{name},delayedOperation={operation}", _GAUGE, doc)


def _sockets(key: str, name: str, doc: str) -> Metric:
    return Metric(key, f"kafka.server:type=socket-server-metrics,name={name}", _COUNTER, doc)


BROKER_METRICS: Final = (
    _topics("BytesInPerSec", "bytes of record batches that clients produced"),
    _topics("MessagesInPerSec", "records that clients produced"),
    _topics("BytesOutPerSec", "bytes of record batches that clients fetched"),
    _topics("ReplicationBytesInPerSec", "bytes fetched from leaders"),
    _topics("ReplicationBytesOutPerSec", "bytes handed to followers"),
    _topics("TotalProduceRequestsPerSec", "produce requests"),
    _topics("FailedProduceRequestsPerSec", "partitions of produce requests that were refused"),
    _topics("TotalFetchRequestsPerSec", "answered fetch requests"),
    _topics("FailedFetchRequestsPerSec", "partitions of fetch requests that were refused"),
    Metric(
        "RequestsPerSec",
        "kafka.network:type=RequestMetrics,name=RequestsPerSec",
        _COUNTER,
        "requests of every API",
    ),
    Metric(
        "ErrorsPerSec",
        "kafka.network:type=RequestMetrics,name=ErrorsPerSec",
        _COUNTER,
        "connections closed for a malformed or unknown request, a failure here, or a reset",
    ),
    Metric(
        "ThrottleTimeMs",
        "kafka.network:type=RequestMetrics,name=ThrottleTimeMs",
        _COUNTER,
        "milliseconds of throttle time handed out",
    ),
    Metric(
        "ThrottledRequestsPerSec",
        "milena.server:type=Quotas,name=ThrottledRequestsPerSec",
        _COUNTER,
        "requests answered with a throttle time",
    ),
    Metric(
        "BusyTimeUs",
        "milena.server:type=Loop,name=BusyTimeUs",
        _COUNTER,
        "microseconds of a processor that the broker's thread has used",
    ),
    Metric(
        "ExemptRequestTimeUs",
        "kafka.server:type=Request,name=exempt-request-time",
        _COUNTER,
        "of these: what no client is charged for; the rest is charged to clients",
    ),
    Metric(
        "RequestHandlerAvgIdlePercent",
        "kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent",
        _REAL,
        "share of the last interval in which the broker's thread waited for work: 0 to 1",
    ),
    Metric(
        "NetworkProcessorAvgIdlePercent",
        "kafka.network:type=SocketServer,name=NetworkProcessorAvgIdlePercent",
        _REAL,
        "the same, since the same thread serves the network",
    ),
    Metric(
        "ThrottledConnectionsPerSec",
        "milena.server:type=Quotas,name=ThrottledConnectionsPerSec",
        _COUNTER,
        "connections refused since they came faster than the rate of their address",
    ),
    Metric(
        "ConnectionCount",
        "kafka.server:type=socket-server-metrics,name=connection-count",
        _GAUGE,
        "open connections of clients",
    ),
    _sockets("ConnectionCreationRate", "connection-creation-rate", "connections of clients"),
    _sockets(
        "SuccessfulAuthentications",
        "successful-authentication-total",
        "connections that have logged in by SASL",
    ),
    _sockets(
        "FailedAuthentications",
        "failed-authentication-total",
        "connections that were closed since their login failed",
    ),
    _sockets(
        "SuccessfulReauthentications",
        "successful-reauthentication-total",
        "logins of connections that had logged in before",
    ),
    _sockets(
        "FailedReauthentications",
        "failed-reauthentication-total",
        "connections that were closed since they failed to log in again",
    ),
    _sockets(
        "ExpiredConnectionsKilled",
        "expired-connections-killed-count",
        "connections that were closed since they went on without logging in again",
    ),
    Metric(
        "MutedChannels",
        "milena.server:type=Quotas,name=MutedChannels",
        _GAUGE,
        "connections that are not read because of a quota",
    ),
    _replicas("PartitionCount", _GAUGE, "replicas on this broker"),
    _replicas("LeaderCount", _GAUGE, "partitions that this broker leads"),
    _replicas("UnderReplicatedPartitions", _GAUGE, "led partitions with a replica out of sync"),
    _replicas("UnderMinIsrPartitionCount", _GAUGE, "led partitions below min.insync.replicas"),
    _replicas("AtMinIsrPartitionCount", _GAUGE, "led partitions exactly at min.insync.replicas"),
    _replicas("IsrShrinksPerSec", _COUNTER, "in-sync sets that lost a member"),
    _replicas("IsrExpandsPerSec", _COUNTER, "in-sync sets that gained a member"),
    _replicas(
        "FailedIsrUpdatesPerSec", _COUNTER, "changes of in-sync sets that the controller refused"
    ),
    _replicas(
        "OfflineReplicaCount", _GAUGE, "replicas of this broker whose log directory has failed"
    ),
    Metric(
        "MaxLag",
        "kafka.server:type=ReplicaFetcherManager,name=MaxLag,clientId=Replica",
        _GAUGE,
        "records of its leader that a replica of this broker has not fetched yet, the most of any",
    ),
    Metric(
        "PurgatorySize",
        "kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize",
        _GAUGE,
        "waiting requests, counted once for each partition that can complete them",
    ),
    _waiting("ProducePurgatorySize", "Produce", "of those: produce requests with acks=all"),
    _waiting("FetchPurgatorySize", "Fetch", "of those: fetch requests"),
    _waiting("DeleteRecordsPurgatorySize", "DeleteRecords", "of those: deletions of records"),
    _waiting("MetadataPurgatorySize", "Metadata", "of those: metadata requests, not in Kafka"),
    _waiting("RebalancePurgatorySize", "Rebalance", "classic groups that wait for members to join"),
    Metric(
        "ActiveControllerCount",
        "kafka.controller:type=KafkaController,name=ActiveControllerCount",
        _GAUGE,
        "1 on the broker that is the controller, else 0",
    ),
    _controller("OfflinePartitionsCount", "partitions without a leader"),
    _controller("GlobalTopicCount", "topics of the cluster"),
    _controller("GlobalPartitionCount", "partitions of the cluster"),
    _controller(
        "PreferredReplicaImbalanceCount", "partitions that another than their first replica leads"
    ),
    Metric(
        "LeaderElectionRateAndTimeMs",
        "kafka.controller:type=ControllerStats,name=LeaderElectionRateAndTimeMs",
        _COUNTER,
        "partitions that were given another leader by this broker while it was the controller",
    ),
    Metric(
        "UncleanLeaderElectionsPerSec",
        "kafka.controller:type=ControllerStats,name=UncleanLeaderElectionsPerSec",
        _COUNTER,
        "of these: leaders that were not in sync, so that records are lost",
    ),
    Metric(
        "LogSize",
        "milena.log:type=Log,name=LogSize",
        _GAUGE,
        "bytes of the segments of all replicas on this broker",
    ),
    Metric(
        "NumLogSegments",
        "milena.log:type=Log,name=NumLogSegments",
        _GAUGE,
        "segments of all replicas on this broker",
    ),
    Metric(
        "LogFlushRateAndTimeMs",
        "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs",
        _COUNTER,
        "logs that were synced to disk as flush.messages and flush.ms ask",
    ),
    Metric(
        "LogFlushTimeUs",
        "milena.log:type=LogFlushStats,name=LogFlushTimeUs",
        _COUNTER,
        "microseconds that this took",
    ),
    Metric(
        "OfflineLogDirectoryCount",
        "kafka.log:type=LogManager,name=OfflineLogDirectoryCount",
        _GAUGE,
        "log directories that have failed",
    ),
    Metric(
        "MaxDirtyPercent",
        "kafka.log:type=LogCleaner,name=max-dirty-percent",
        _GAUGE,
        "share of the dirtiest compacted log that is dirty, when last looked",
    ),
    Metric(
        "CleanerRecopyPercent",
        "kafka.log:type=LogCleaner,name=cleaner-recopy-percent",
        _GAUGE,
        "share of the bytes read that the last cleaning of a log has kept",
    ),
    Metric(
        "UncleanablePartitionsCount",
        "kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count",
        _GAUGE,
        "compacted logs that cannot be cleaned, for now or for good; the log says why",
    ),
    _groups("NumGroups", "groups that this broker coordinates"),
    _groups("NumOffsets", "offsets that these groups have committed"),
    _groups("NumGroupsPreparingRebalance", "classic groups whose members join"),
    _groups("NumGroupsCompletingRebalance", "classic groups that wait for their assignment"),
    _groups("NumGroupsStable", "classic groups whose members have their assignments"),
    _groups("NumGroupsDead", "classic groups that are being removed"),
    _groups("NumGroupsEmpty", "classic groups without members"),
    _by_kind("GroupCountClassic", "group-count,protocol=classic", "groups of the classic protocol"),
    _by_kind("GroupCountConsumer", "group-count,protocol=consumer", "groups of the newer protocol"),
    _by_kind(
        "ConsumerGroupCountEmpty", "consumer-group-count,state=empty", "of those: without members"
    ),
    _by_kind(
        "ConsumerGroupCountAssigning",
        "consumer-group-count,state=assigning",
        "of those: with a target assignment to be computed",
    ),
    _by_kind(
        "ConsumerGroupCountReconciling",
        "consumer-group-count,state=reconciling",
        "of those: with members that do not have their target yet",
    ),
    _by_kind(
        "ConsumerGroupCountStable",
        "consumer-group-count,state=stable",
        "of those: all members have their target",
    ),
    _coordinator("OffsetCommitRate", "offset-commit-rate", "offsets whose commit was stored"),
    _coordinator(
        "OffsetExpirationRate",
        "offset-expiration-rate",
        "offsets removed after offsets.retention.minutes",
    ),
    _coordinator(
        "OffsetDeletionRate",
        "offset-deletion-rate",
        "offsets removed by a request, or with their group or topic",
    ),
    _coordinator(
        "GroupCompletedRebalanceRate",
        "group-completed-rebalance-rate",
        "rebalances of the classic protocol that ended with an assignment",
    ),
    _coordinator(
        "ConsumerGroupRebalanceRate",
        "consumer-group-rebalance-rate",
        "new epochs of groups of the newer consumer protocol",
    ),
    Metric(
        "MetricRecordsDropped",
        "milena.server:type=Metrics,name=MetricRecordsDropped",
        _COUNTER,
        "metric records that could not be written to their topic",
    ),
)

BY_KEY: Final = {metric.key: metric for metric in BROKER_METRICS}


OTHER: Final = "_other"
"""Stands for the topics that have no place of their own, and for errors beyond the bound."""


def _of_topic(key: str, kind: MetricKind, doc: str, beginning: str = "") -> Metric:
    name = beginning or "kafka.server:type=BrokerTopicMetrics"
    return Metric(key, f"{name},name={key},topic=<topic>", kind, doc)


TOPIC_METRICS: Final = (
    _of_topic("BytesInPerSec", _COUNTER, "bytes of record batches that clients produced"),
    _of_topic("MessagesInPerSec", _COUNTER, "records that clients produced"),
    _of_topic("BytesOutPerSec", _COUNTER, "bytes of record batches that clients fetched"),
    _of_topic("TotalProduceRequestsPerSec", _COUNTER, "partitions of produce requests"),
    _of_topic("FailedProduceRequestsPerSec", _COUNTER, "of these: refused ones"),
    _of_topic("TotalFetchRequestsPerSec", _COUNTER, "partitions of answered fetch requests"),
    _of_topic("FailedFetchRequestsPerSec", _COUNTER, "of these: refused ones"),
    _of_topic("Size", _GAUGE, "bytes of its replicas on this broker", "kafka.log:type=Log"),
    _of_topic("NumLogSegments", _GAUGE, "segments of these replicas", "kafka.log:type=Log"),
    _of_topic("PartitionCount", _GAUGE, "its replicas on this broker", "milena.server:type=Topics"),
    _of_topic("LeaderCount", _GAUGE, "of these: led ones", "milena.server:type=Topics"),
    _of_topic(
        "UnderReplicated",
        _GAUGE,
        "led partitions with a replica out of sync",
        "kafka.cluster:type=Partition",
    ),
    _of_topic(
        "UnderMinIsr",
        _GAUGE,
        "led partitions below min.insync.replicas",
        "kafka.cluster:type=Partition",
    ),
    _of_topic(
        "AtMinIsr",
        _GAUGE,
        "led partitions exactly at min.insync.replicas",
        "kafka.cluster:type=Partition",
    ),
)
"""What is told of each topic, in the order of the stats file. `<topic>` stands for its name."""


class RequestPart(NamedTuple):
    """A part of the time that requests of an API take; `key` as in Kafka."""

    key: str
    doc: str

    @property
    def name(self) -> str:
        """Kafka's name, in which `<Api>` stands for the API."""
        return f"kafka.network:type=RequestMetrics,name={self.key},request=<Api>"


REQUEST_PARTS: Final = (
    RequestPart("TotalTimeMs", "from the arrival of the request to the last byte of its answer"),
    RequestPart(
        "RequestQueueTimeMs",
        "from the arrival of the whole request until the broker's thread began with it: it was busy"
        " with others that were ready in the same turn, or with earlier ones of the connection",
    ),
    RequestPart("LocalTimeMs", "the thread worked on it until it was answered or had to wait"),
    RequestPart(
        "RemoteTimeMs", "it waited: for other brokers, records, a rebalance, or the controller"
    ),
    RequestPart("ThrottleTimeMs", "the throttle time that its answer told, not part of the total"),
    RequestPart(
        "ResponseQueueTimeMs",
        "its answer was encoded, and waited for those of the connection's other requests",
    ),
    RequestPart(
        "ResponseSendTimeMs", "from the first attempt to send it until the socket had taken it all"
    ),
)
"""In the order of the stats file; the times themselves are histograms in microseconds there."""


def kafka_api_name(key_name: str) -> str:
    """`ApiVersions` for `API_VERSIONS`; `FetchConsumer` for FETCH, since followers use ZeroMQ."""
    words = "".join(word.capitalize() for word in key_name.split("_"))
    return "FetchConsumer" if words == "Fetch" else words


def requests_of(key_name: str, version: str | None = None) -> str:
    """The name of the metric that counts one API's requests, all or those in one version."""
    name = (
        f"kafka.network:type=RequestMetrics,name=RequestsPerSec,request={kafka_api_name(key_name)}"
    )
    return name if version is None else f"{name},version={version}"


def errors_of(api: str, error: str) -> str:
    """The name of the metric that counts an error in the answers of one API."""
    return f"kafka.network:type=RequestMetrics,name=ErrorsPerSec,request={api},error={error}"
