"""The table of the metrics that a broker counts.

Kafka's names that end in PerSec are meters, with a count and a rate. Only the count is kept here; a
reader derives the rate from two readings. Names that begin with `milena.` are not in Kafka.
"""

from typing import Final

from cluster.metrics.declarations import Metric
from cluster.metrics.stats_layout import MetricKind
from cluster.model.units import Unit

_COUNTER: Final = MetricKind.COUNTER
_GAUGE: Final = MetricKind.GAUGE
_REAL: Final = MetricKind.REAL


def _topics(key: str, unit: Unit, doc: str) -> Metric:
    return Metric(key, f"kafka.server:type=BrokerTopicMetrics,name={key}", _COUNTER, unit, doc)


def _replicas(key: str, kind: MetricKind, unit: Unit, doc: str) -> Metric:
    return Metric(key, f"kafka.server:type=ReplicaManager,name={key}", kind, unit, doc)


def _groups(key: str, unit: Unit, doc: str) -> Metric:
    name = f"kafka.coordinator.group:type=GroupMetadataManager,name={key}"
    return Metric(key, name, _GAUGE, unit, doc)


def _by_kind(key: str, name: str, unit: Unit, doc: str) -> Metric:
    name = f"kafka.server:type=group-coordinator-metrics,name={name}"
    return Metric(key, name, _GAUGE, unit, doc)


def _coordinator(key: str, name: str, unit: Unit, doc: str) -> Metric:
    name = f"kafka.server:type=group-coordinator-metrics,name={name}"
    return Metric(key, name, _COUNTER, unit, doc)


def _controller(key: str, unit: Unit, doc: str) -> Metric:
    name = f"kafka.controller:type=KafkaController,name={key}"
    return Metric(key, name, _GAUGE, unit, f"{doc}; 0 on every broker but the controller")


def _waiting(key: str, operation: str, unit: Unit, doc: str) -> Metric:
    name = "kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize"
    return Metric(key, f"{name},delayedOperation={operation}", _GAUGE, unit, doc)


def _sockets(key: str, name: str, unit: Unit, doc: str) -> Metric:
    return Metric(key, f"kafka.server:type=socket-server-metrics,name={name}", _COUNTER, unit, doc)


def _own(key: str, kind: MetricKind, unit: Unit, doc: str) -> Metric:
    return Metric(key, f"milena.server:type=Metrics,name={key}", kind, unit, doc)


BROKER_METRICS: Final = (
    Metric(
        "BrokerState",
        "kafka.server:type=KafkaServer,name=BrokerState",
        _GAUGE,
        Unit.STATE,
        "1 starting, 2 opening its logs, 3 running, 6 moving its leaderships away, 7 stopping",
    ),
    _topics("BytesInPerSec", Unit.BYTES, "bytes of record batches that clients produced"),
    _topics("MessagesInPerSec", Unit.RECORDS, "records that clients produced"),
    _topics("BytesOutPerSec", Unit.BYTES, "bytes of record batches that clients fetched"),
    _topics("ReplicationBytesInPerSec", Unit.BYTES, "bytes fetched from leaders"),
    _topics("ReplicationBytesOutPerSec", Unit.BYTES, "bytes handed to followers"),
    _topics("TotalProduceRequestsPerSec", Unit.REQUESTS, "produce requests"),
    _topics(
        "FailedProduceRequestsPerSec",
        Unit.PARTITIONS,
        "partitions of produce requests that were refused",
    ),
    _topics("TotalFetchRequestsPerSec", Unit.REQUESTS, "answered fetch requests"),
    _topics(
        "FailedFetchRequestsPerSec",
        Unit.PARTITIONS,
        "partitions of fetch requests that were refused",
    ),
    Metric(
        "RequestsPerSec",
        "kafka.network:type=RequestMetrics,name=RequestsPerSec",
        _COUNTER,
        Unit.REQUESTS,
        "requests of every API",
    ),
    Metric(
        "FailedConnectionsPerSec",
        "milena.server:type=Connections,name=FailedConnectionsPerSec",
        _COUNTER,
        Unit.CONNECTIONS,
        "connections closed for a malformed or unknown request, a failure here, or a reset",
    ),
    Metric(
        "ThrottleTimeMs",
        "kafka.network:type=RequestMetrics,name=ThrottleTimeMs",
        _COUNTER,
        Unit.MILLISECONDS,
        "milliseconds of throttle time handed out",
    ),
    Metric(
        "ThrottledRequestsPerSec",
        "milena.server:type=Quotas,name=ThrottledRequestsPerSec",
        _COUNTER,
        Unit.REQUESTS,
        "requests answered with a throttle time",
    ),
    Metric(
        "BusyTimeUs",
        "milena.server:type=Loop,name=BusyTimeUs",
        _COUNTER,
        Unit.MICROSECONDS,
        "microseconds of a processor that the broker's thread has used",
    ),
    Metric(
        "ExemptRequestTimeUs",
        "kafka.server:type=Request,name=exempt-request-time",
        _COUNTER,
        Unit.MICROSECONDS,
        "of these: what no client is charged for; the rest is charged to clients",
    ),
    Metric(
        "RequestHandlerAvgIdlePercent",
        "kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent",
        _REAL,
        Unit.RATIO,
        "share of the last interval in which the broker's thread waited for work: 0 to 1",
    ),
    Metric(
        "NetworkProcessorAvgIdlePercent",
        "kafka.network:type=SocketServer,name=NetworkProcessorAvgIdlePercent",
        _REAL,
        Unit.RATIO,
        "the same, since the same thread serves the network",
    ),
    Metric(
        "ThrottledConnectionsPerSec",
        "milena.server:type=Quotas,name=ThrottledConnectionsPerSec",
        _COUNTER,
        Unit.CONNECTIONS,
        "connections refused since they came faster than the rate of their address",
    ),
    Metric(
        "ConnectionCount",
        "kafka.server:type=socket-server-metrics,name=connection-count",
        _GAUGE,
        Unit.CONNECTIONS,
        "open connections of clients",
    ),
    _sockets(
        "ConnectionCreationRate",
        "connection-creation-total",
        Unit.CONNECTIONS,
        "connections of clients",
    ),
    _sockets(
        "SuccessfulAuthentications",
        "successful-authentication-total",
        Unit.CONNECTIONS,
        "connections that have logged in by SASL",
    ),
    _sockets(
        "FailedAuthentications",
        "failed-authentication-total",
        Unit.CONNECTIONS,
        "connections that were closed since their login failed",
    ),
    _sockets(
        "SuccessfulReauthentications",
        "successful-reauthentication-total",
        Unit.LOGINS,
        "logins of connections that had logged in before",
    ),
    _sockets(
        "FailedReauthentications",
        "failed-reauthentication-total",
        Unit.CONNECTIONS,
        "connections that were closed since they failed to log in again",
    ),
    _sockets(
        "ExpiredConnectionsKilled",
        "expired-connections-killed-count",
        Unit.CONNECTIONS,
        "connections that were closed since they went on without logging in again",
    ),
    Metric(
        "MutedChannels",
        "milena.server:type=Quotas,name=MutedChannels",
        _GAUGE,
        Unit.CONNECTIONS,
        "connections that are not read because of a quota",
    ),
    _replicas("PartitionCount", _GAUGE, Unit.REPLICAS, "replicas on this broker"),
    _replicas("LeaderCount", _GAUGE, Unit.PARTITIONS, "partitions that this broker leads"),
    _replicas(
        "UnderReplicatedPartitions",
        _GAUGE,
        Unit.PARTITIONS,
        "led partitions with a replica out of sync",
    ),
    _replicas(
        "UnderMinIsrPartitionCount",
        _GAUGE,
        Unit.PARTITIONS,
        "led partitions below min.insync.replicas",
    ),
    _replicas(
        "AtMinIsrPartitionCount",
        _GAUGE,
        Unit.PARTITIONS,
        "led partitions exactly at min.insync.replicas",
    ),
    _replicas("IsrShrinksPerSec", _COUNTER, Unit.CHANGES, "in-sync sets that lost a member"),
    _replicas("IsrExpandsPerSec", _COUNTER, Unit.CHANGES, "in-sync sets that gained a member"),
    _replicas(
        "FailedIsrUpdatesPerSec",
        _COUNTER,
        Unit.CHANGES,
        "changes of in-sync sets that the controller refused",
    ),
    _replicas(
        "OfflineReplicaCount",
        _GAUGE,
        Unit.REPLICAS,
        "replicas of this broker whose log directory has failed",
    ),
    Metric(
        "MaxLag",
        "kafka.server:type=ReplicaFetcherManager,name=MaxLag,clientId=Replica",
        _GAUGE,
        Unit.RECORDS,
        "records of its leader that a replica of this broker has not fetched yet, the most of any",
    ),
    Metric(
        "PurgatorySize",
        "kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize",
        _GAUGE,
        Unit.REQUESTS,
        "waiting requests, counted once for each partition that can complete them",
    ),
    _waiting(
        "ProducePurgatorySize", "Produce", Unit.REQUESTS, "of those: produce requests with acks=all"
    ),
    _waiting("FetchPurgatorySize", "Fetch", Unit.REQUESTS, "of those: fetch requests"),
    _waiting(
        "DeleteRecordsPurgatorySize",
        "DeleteRecords",
        Unit.REQUESTS,
        "of those: deletions of records",
    ),
    _waiting(
        "MetadataPurgatorySize",
        "Metadata",
        Unit.REQUESTS,
        "of those: metadata requests, not in Kafka",
    ),
    _waiting(
        "RebalancePurgatorySize",
        "Rebalance",
        Unit.GROUPS,
        "classic groups that wait for members to join",
    ),
    Metric(
        "ActiveControllerCount",
        "kafka.controller:type=KafkaController,name=ActiveControllerCount",
        _GAUGE,
        Unit.BROKERS,
        "1 on the broker that is the controller, else 0",
    ),
    _controller("ActiveBrokerCount", Unit.BROKERS, "registered brokers"),
    _controller("OfflinePartitionsCount", Unit.PARTITIONS, "partitions without a leader"),
    _controller("GlobalTopicCount", Unit.TOPICS, "topics of the cluster"),
    _controller("GlobalPartitionCount", Unit.PARTITIONS, "partitions of the cluster"),
    _controller(
        "PreferredReplicaImbalanceCount",
        Unit.PARTITIONS,
        "partitions that another than their first replica leads",
    ),
    Metric(
        "LeaderElectionRateAndTimeMs",
        "kafka.controller:type=ControllerStats,name=LeaderElectionRateAndTimeMs",
        _COUNTER,
        Unit.PARTITIONS,
        "partitions that were given another leader by this broker while it was the controller",
    ),
    Metric(
        "UncleanLeaderElectionsPerSec",
        "kafka.controller:type=ControllerStats,name=UncleanLeaderElectionsPerSec",
        _COUNTER,
        Unit.PARTITIONS,
        "of these: leaders that were not in sync, so that records are lost",
    ),
    Metric(
        "LogSize",
        "milena.log:type=Log,name=LogSize",
        _GAUGE,
        Unit.BYTES,
        "bytes of the segments of all replicas on this broker",
    ),
    Metric(
        "NumLogSegments",
        "milena.log:type=Log,name=NumLogSegments",
        _GAUGE,
        Unit.SEGMENTS,
        "segments of all replicas on this broker",
    ),
    Metric(
        "LogFlushRateAndTimeMs",
        "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs",
        _COUNTER,
        Unit.LOGS,
        "logs that were synced to disk as flush.messages and flush.ms ask",
    ),
    Metric(
        "LogFlushTimeUs",
        "milena.log:type=LogFlushStats,name=LogFlushTimeUs",
        _COUNTER,
        Unit.MICROSECONDS,
        "microseconds that this took",
    ),
    Metric(
        "CheckedBytesPerSec",
        "milena.log:type=LogIntegrity,name=CheckedBytesPerSec",
        _COUNTER,
        Unit.BYTES,
        "bytes of logs that the scrub has compared with their checksums",
    ),
    Metric(
        "DamagedBatchesPerSec",
        "milena.log:type=LogIntegrity,name=DamagedBatchesPerSec",
        _COUNTER,
        Unit.PLACES,
        "places in segments that were found damaged, by the scrub or by a read",
    ),
    Metric(
        "RepairedBatchesPerSec",
        "milena.log:type=LogIntegrity,name=RepairedBatchesPerSec",
        _COUNTER,
        Unit.PLACES,
        "of these: places that were repaired from another replica",
    ),
    Metric(
        "OfflineLogDirectoryCount",
        "kafka.log:type=LogManager,name=OfflineLogDirectoryCount",
        _GAUGE,
        Unit.DIRECTORIES,
        "log directories that have failed",
    ),
    Metric(
        "FullLogDirectoryCount",
        "milena.log:type=LogManager,name=FullLogDirectoryCount",
        _GAUGE,
        Unit.DIRECTORIES,
        "log directories that are full: they take no records",
    ),
    Metric(
        "LogDirectoryTotalBytes",
        "milena.log:type=LogManager,name=LogDirectoryTotalBytes",
        _GAUGE,
        Unit.BYTES,
        "size of the file systems that hold its working log directories, each counted once",
    ),
    Metric(
        "LogDirectoryUsableBytes",
        "milena.log:type=LogManager,name=LogDirectoryUsableBytes",
        _GAUGE,
        Unit.BYTES,
        "of these: free for the broker's user, as last looked",
    ),
    Metric(
        "MaxDirtyPercent",
        "kafka.log:type=LogCleaner,name=max-dirty-percent",
        _GAUGE,
        Unit.PERCENT,
        "share of the dirtiest compacted log that is dirty, when last looked",
    ),
    Metric(
        "CleanerRecopyPercent",
        "kafka.log:type=LogCleaner,name=cleaner-recopy-percent",
        _GAUGE,
        Unit.PERCENT,
        "share of the bytes read that the last cleaning of a log has kept",
    ),
    Metric(
        "UncleanablePartitionsCount",
        "kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count",
        _GAUGE,
        Unit.PARTITIONS,
        "compacted logs that cannot be cleaned, for now or for good; the log says why",
    ),
    _groups("NumGroups", Unit.GROUPS, "groups that this broker coordinates"),
    _groups("NumOffsets", Unit.OFFSETS, "offsets that these groups have committed"),
    _groups("NumGroupsPreparingRebalance", Unit.GROUPS, "classic groups whose members join"),
    _groups(
        "NumGroupsCompletingRebalance", Unit.GROUPS, "classic groups that wait for their assignment"
    ),
    _groups("NumGroupsStable", Unit.GROUPS, "classic groups whose members have their assignments"),
    _groups("NumGroupsDead", Unit.GROUPS, "classic groups that are being removed"),
    _groups("NumGroupsEmpty", Unit.GROUPS, "classic groups without members"),
    _by_kind(
        "GroupCountClassic",
        "group-count,protocol=classic",
        Unit.GROUPS,
        "groups of the classic protocol",
    ),
    _by_kind(
        "GroupCountConsumer",
        "group-count,protocol=consumer",
        Unit.GROUPS,
        "groups of the newer protocol",
    ),
    _by_kind(
        "ConsumerGroupCountEmpty",
        "consumer-group-count,state=empty",
        Unit.GROUPS,
        "of those: without members",
    ),
    _by_kind(
        "ConsumerGroupCountAssigning",
        "consumer-group-count,state=assigning",
        Unit.GROUPS,
        "of those: with a target assignment to be computed",
    ),
    _by_kind(
        "ConsumerGroupCountReconciling",
        "consumer-group-count,state=reconciling",
        Unit.GROUPS,
        "of those: with members that do not have their target yet",
    ),
    _by_kind(
        "ConsumerGroupCountStable",
        "consumer-group-count,state=stable",
        Unit.GROUPS,
        "of those: all members have their target",
    ),
    _coordinator(
        "OffsetCommitRate", "offset-commit-count", Unit.OFFSETS, "offsets whose commit was stored"
    ),
    _coordinator(
        "OffsetExpirationRate",
        "offset-expiration-count",
        Unit.OFFSETS,
        "offsets removed after offsets.retention.minutes",
    ),
    _coordinator(
        "OffsetDeletionRate",
        "offset-deletion-count",
        Unit.OFFSETS,
        "offsets removed by a request, or with their group or topic",
    ),
    _coordinator(
        "GroupCompletedRebalanceRate",
        "group-completed-rebalance-count",
        Unit.REBALANCES,
        "rebalances of the classic protocol that ended with an assignment",
    ),
    _coordinator(
        "ConsumerGroupRebalanceRate",
        "consumer-group-rebalance-count",
        Unit.REBALANCES,
        "new epochs of groups of the newer consumer protocol",
    ),
    _own(
        "MetricRecordsDropped",
        _COUNTER,
        Unit.RECORDS,
        "metric records that could not be written to their topic",
    ),
    _own("ClientRowCount", _GAUGE, Unit.ROWS, "rows of the stats file that clients have taken"),
    _own("ClientRowCapacity", _GAUGE, Unit.ROWS, "rows that there are for clients"),
    _own(
        "ClientRowsLostPerSec",
        _COUNTER,
        Unit.ROWS,
        "rows that were taken from a client for another one, since all were taken",
    ),
    _own(
        "TopicsWithoutRow",
        _GAUGE,
        Unit.TOPICS,
        "topics that are added up as _other, since all rows for topics are taken",
    ),
    _own(
        "GroupPartitionsWithoutRow",
        _GAUGE,
        Unit.PARTITIONS,
        "partitions that groups have committed and the stats file has no room for",
    ),
)

BY_KEY: Final = {metric.key: metric for metric in BROKER_METRICS}
