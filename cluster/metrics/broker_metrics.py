"""The table of the metrics that a broker counts.

Kafka's names that end in PerSec are meters, with a count and a rate. Only the count is kept here; a
reader derives the rate from two readings. Names that begin with `milena.` are not in Kafka.
"""

from typing import Final

from cluster.metrics.declarations import Metric
from cluster.metrics.pushing_metrics import PUSHING_METRICS
from cluster.metrics.replica_metrics import REPLICA_METRICS
from cluster.metrics.stats_layout import MetricKind
from cluster.metrics.waiting_metrics import WAITING_METRICS
from cluster.model.units import Unit

_COUNTER: Final = MetricKind.COUNTER
_GAUGE: Final = MetricKind.GAUGE
_REAL: Final = MetricKind.REAL


def _topics(key: str, unit: Unit, doc: str) -> Metric:
    return Metric(key, f"kafka.server:type=BrokerTopicMetrics,name={key}", _COUNTER, unit, doc)


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


def _sockets(key: str, name: str, unit: Unit, doc: str) -> Metric:
    return Metric(key, f"kafka.server:type=socket-server-metrics,name={name}", _COUNTER, unit, doc)


def _own(key: str, kind: MetricKind, unit: Unit, doc: str) -> Metric:
    return Metric(key, f"milena.server:type=Metrics,name={key}", kind, unit, doc)


def _transactions(key: str, unit: Unit, doc: str) -> Metric:
    return Metric(key, f"milena.server:type=Transactions,name={key}", _GAUGE, unit, doc)


def _ended(how: str, marker: str) -> Metric:
    key = f"{how}TransactionsPerSec"
    doc = f"transactions that this broker coordinated, and whose {marker} markers were all written"
    name = f"milena.server:type=Transactions,name={key}"
    return Metric(key, name, _COUNTER, Unit.TRANSACTIONS, doc)


def _markers(key: str, unit: Unit, doc: str) -> Metric:
    name = f"kafka.coordinator.transaction:type=TransactionMarkerChannelManager,name={key}"
    return Metric(key, name, _GAUGE, unit, doc)


def _load_time(coordinator: str, figure: str, kind: MetricKind, doc: str) -> Metric:
    key = f"{coordinator.capitalize()}PartitionLoadTime{figure.capitalize()}"
    name = f"kafka.server:type={coordinator}-coordinator-metrics,name=partition-load-time-{figure}"
    doc = f"{doc} time that partitions loaded in the last 30 s took, in milliseconds; 0 if none was"
    return Metric(key, name, kind, Unit.MILLISECONDS, doc)


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
    _topics("ReplicationBytesOutPerSec", Unit.BYTES, "bytes sent to followers"),
    _topics("TotalProduceRequestsPerSec", Unit.REQUESTS, "produce requests"),
    _topics(
        "FailedProduceRequestsPerSec",
        Unit.PARTITIONS,
        "refused partitions of produce requests",
    ),
    _topics("TotalFetchRequestsPerSec", Unit.REQUESTS, "answered fetch requests"),
    _topics(
        "FailedFetchRequestsPerSec",
        Unit.PARTITIONS,
        "refused partitions of fetch requests",
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
        "connections closed because of a malformed or unknown request, an internal error or a"
        " reset",
    ),
    Metric(
        "ThrottleTimeMs",
        "kafka.network:type=RequestMetrics,name=ThrottleTimeMs",
        _COUNTER,
        Unit.MILLISECONDS,
        "sum of the throttle times in responses, in milliseconds",
    ),
    Metric(
        "ThrottledRequestsPerSec",
        "milena.server:type=Quotas,name=ThrottledRequestsPerSec",
        _COUNTER,
        Unit.REQUESTS,
        "requests whose response had a throttle time",
    ),
    Metric(
        "BusyTimeUs",
        "milena.server:type=Loop,name=BusyTimeUs",
        _COUNTER,
        Unit.MICROSECONDS,
        "CPU microseconds that the broker's thread has used",
    ),
    Metric(
        "ExemptRequestTimeUs",
        "kafka.server:type=Request,name=exempt-request-time",
        _COUNTER,
        Unit.MICROSECONDS,
        "the part of BusyTimeUs that is charged to no client; the rest is charged to clients",
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
        "the same value, because the same thread serves the network",
    ),
    Metric(
        "ThrottledConnectionsPerSec",
        "milena.server:type=Quotas,name=ThrottledConnectionsPerSec",
        _COUNTER,
        Unit.CONNECTIONS,
        "connections refused because they exceeded the connection rate of their address",
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
        "accepted connections of clients",
    ),
    _sockets(
        "SuccessfulAuthentications",
        "successful-authentication-total",
        Unit.CONNECTIONS,
        "connections that logged in by SASL",
    ),
    _sockets(
        "FailedAuthentications",
        "failed-authentication-total",
        Unit.CONNECTIONS,
        "connections closed because their login failed",
    ),
    _sockets(
        "SuccessfulReauthentications",
        "successful-reauthentication-total",
        Unit.LOGINS,
        "repeated logins on the same connection",
    ),
    _sockets(
        "FailedReauthentications",
        "failed-reauthentication-total",
        Unit.CONNECTIONS,
        "connections closed because a repeated login failed",
    ),
    _sockets(
        "ExpiredConnectionsKilled",
        "expired-connections-killed-count",
        Unit.CONNECTIONS,
        "connections closed because they did not log in again in time",
    ),
    Metric(
        "MutedChannels",
        "milena.server:type=Quotas,name=MutedChannels",
        _GAUGE,
        Unit.CONNECTIONS,
        "connections that are currently not read because of a quota",
    ),
    *REPLICA_METRICS,
    Metric(
        "MaxLag",
        "kafka.server:type=ReplicaFetcherManager,name=MaxLag,clientId=Replica",
        _GAUGE,
        Unit.RECORDS,
        "largest number of records by which a replica of this broker is behind its leader",
    ),
    *WAITING_METRICS,
    *PUSHING_METRICS,
    Metric(
        "ActiveControllerCount",
        "kafka.controller:type=KafkaController,name=ActiveControllerCount",
        _GAUGE,
        Unit.BROKERS,
        "1 on the controller, 0 on every other broker",
    ),
    _controller("ActiveBrokerCount", Unit.BROKERS, "registered brokers"),
    _controller("OfflinePartitionsCount", Unit.PARTITIONS, "partitions without a leader"),
    _controller("GlobalTopicCount", Unit.TOPICS, "topics of the cluster"),
    _controller("GlobalPartitionCount", Unit.PARTITIONS, "partitions of the cluster"),
    _controller(
        "PreferredReplicaImbalanceCount",
        Unit.PARTITIONS,
        "partitions whose leader is not their first replica",
    ),
    Metric(
        "LeaderElectionRateAndTimeMs",
        "kafka.controller:type=ControllerStats,name=LeaderElectionRateAndTimeMs",
        _COUNTER,
        Unit.PARTITIONS,
        "partitions for which this broker, as the controller, elected another leader",
    ),
    Metric(
        "UncleanLeaderElectionsPerSec",
        "kafka.controller:type=ControllerStats,name=UncleanLeaderElectionsPerSec",
        _COUNTER,
        Unit.PARTITIONS,
        "elections of a leader that was not in sync, which loses records",
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
        "syncs of a log to disk because of flush.messages or flush.ms",
    ),
    Metric(
        "LogFlushTimeUs",
        "milena.log:type=LogFlushStats,name=LogFlushTimeUs",
        _COUNTER,
        Unit.MICROSECONDS,
        "time that syncs of logs to disk took, in microseconds",
    ),
    Metric(
        "CheckedBytesPerSec",
        "milena.log:type=LogIntegrity,name=CheckedBytesPerSec",
        _COUNTER,
        Unit.BYTES,
        "bytes of logs whose checksums the scrub has verified",
    ),
    Metric(
        "DamagedBatchesPerSec",
        "milena.log:type=LogIntegrity,name=DamagedBatchesPerSec",
        _COUNTER,
        Unit.PLACES,
        "damaged ranges of segments found by the scrub or by a read",
    ),
    Metric(
        "RepairedBatchesPerSec",
        "milena.log:type=LogIntegrity,name=RepairedBatchesPerSec",
        _COUNTER,
        Unit.PLACES,
        "damaged ranges repaired from another replica",
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
        "log directories that are full and therefore accept no records",
    ),
    Metric(
        "LogDirectoryTotalBytes",
        "milena.log:type=LogManager,name=LogDirectoryTotalBytes",
        _GAUGE,
        Unit.BYTES,
        "size of the file systems of the broker's working log directories, each counted once",
    ),
    Metric(
        "LogDirectoryUsableBytes",
        "milena.log:type=LogManager,name=LogDirectoryUsableBytes",
        _GAUGE,
        Unit.BYTES,
        "bytes free for the broker's user in the file systems of its log directories, at the last"
        " check",
    ),
    Metric(
        "MaxDirtyPercent",
        "kafka.log:type=LogCleaner,name=max-dirty-percent",
        _GAUGE,
        Unit.PERCENT,
        "dirty share of the dirtiest compacted log, at the last check",
    ),
    Metric(
        "CleanerRecopyPercent",
        "kafka.log:type=LogCleaner,name=cleaner-recopy-percent",
        _GAUGE,
        Unit.PERCENT,
        "share of the bytes read that the last cleaning of a log kept",
    ),
    Metric(
        "UncleanablePartitionsCount",
        "kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count",
        _GAUGE,
        Unit.PARTITIONS,
        "compacted logs that cannot be cleaned, temporarily or permanently; the broker's log states"
        " the reason",
    ),
    _transactions(
        "OpenTransactions", Unit.TRANSACTIONS, "open transactions that this broker coordinates"
    ),
    _transactions(
        "OldestOpenTransactionMs",
        Unit.MILLISECONDS,
        "age of the oldest of these, in milliseconds; 0 if none is open",
    ),
    _transactions(
        "UnmarkedPartitions",
        Unit.PARTITIONS,
        "partitions of ended transactions that this broker coordinates, whose markers are not"
        " known to be written",
    ),
    _ended("Committed", "commit"),
    _ended("Aborted", "abort"),
    _markers(
        "UnknownDestinationQueueSize",
        Unit.RECORDS,
        "markers that wait because their partition has no leader",
    ),
    _markers(
        "LogAppendRetryQueueSize",
        Unit.TRANSACTIONS,
        "ended transactions whose last record could not be written and is tried again",
    ),
    _load_time("transaction", "max", _GAUGE, "longest"),
    _load_time("transaction", "avg", _REAL, "mean"),
    _transactions(
        "HeldBackPartitions",
        Unit.PARTITIONS,
        "led partitions in which a transaction holds read_committed consumers back",
    ),
    Metric(
        "LastStableOffsetLag",
        "kafka.cluster:type=Partition,name=LastStableOffsetLag",
        _GAUGE,
        Unit.RECORDS,
        "largest number of records between the last stable offset and the high watermark of a led"
        " partition",
    ),
    Metric(
        "ProducerIdCount",
        "kafka.server:type=ReplicaManager,name=ProducerIdCount",
        _GAUGE,
        Unit.PRODUCERS,
        "producer ids that the replicas here remember",
    ),
    Metric(
        "VerificationFailureRate",
        "kafka.server:type=AddPartitionsToTxnManager,name=VerificationFailureRate",
        _COUNTER,
        Unit.PARTITIONS,
        "partitions whose transaction the coordinator did not confirm",
    ),
    Metric(
        "VerificationTimeMs",
        "milena.server:type=Transactions,name=VerificationTimeMs",
        _COUNTER,
        Unit.MILLISECONDS,
        "time that such questions to coordinators took, in milliseconds",
    ),
    _groups("NumGroups", Unit.GROUPS, "groups that this broker coordinates"),
    _groups(
        "NumOffsets", Unit.OFFSETS, "committed offsets of the groups that this broker coordinates"
    ),
    _groups("NumGroupsPreparingRebalance", Unit.GROUPS, "classic groups whose members are joining"),
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
        "groups of the newer consumer protocol",
    ),
    _by_kind(
        "ConsumerGroupCountEmpty",
        "consumer-group-count,state=empty",
        Unit.GROUPS,
        "groups of the newer consumer protocol without members",
    ),
    _by_kind(
        "ConsumerGroupCountAssigning",
        "consumer-group-count,state=assigning",
        Unit.GROUPS,
        "groups of the newer consumer protocol whose target assignment is not computed yet",
    ),
    _by_kind(
        "ConsumerGroupCountReconciling",
        "consumer-group-count,state=reconciling",
        Unit.GROUPS,
        "groups of the newer consumer protocol with members that do not have their target"
        " assignment yet",
    ),
    _by_kind(
        "ConsumerGroupCountStable",
        "consumer-group-count,state=stable",
        Unit.GROUPS,
        "groups of the newer consumer protocol whose members all have their target assignment",
    ),
    _coordinator(
        "OffsetCommitRate",
        "offset-commit-count",
        Unit.OFFSETS,
        "committed offsets that were stored",
    ),
    _coordinator(
        "OffsetExpirationRate",
        "offset-expiration-count",
        Unit.OFFSETS,
        "offsets removed because they were older than offsets.retention.minutes",
    ),
    _coordinator(
        "OffsetDeletionRate",
        "offset-deletion-count",
        Unit.OFFSETS,
        "offsets removed by a request, or together with their group or topic",
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
    _load_time("group", "max", _GAUGE, "longest"),
    _load_time("group", "avg", _REAL, "mean"),
    _own(
        "MetricRecordsDropped",
        _COUNTER,
        Unit.RECORDS,
        "metric records that could not be written to their topic",
    ),
    _own("ClientRowCount", _GAUGE, Unit.ROWS, "rows of the stats file that clients use"),
    _own(
        "ClientRowCapacity",
        _GAUGE,
        Unit.ROWS,
        "rows of the stats file that are available to clients",
    ),
    _own(
        "ClientRowsLostPerSec",
        _COUNTER,
        Unit.ROWS,
        "rows reassigned from one client to another because all rows were in use",
    ),
    _own(
        "TopicsWithoutRow",
        _GAUGE,
        Unit.TOPICS,
        "topics that are summed up as _other because all rows for topics are in use",
    ),
    _own(
        "GroupPartitionsWithoutRow",
        _GAUGE,
        Unit.PARTITIONS,
        "partitions with committed offsets for which the stats file has no room",
    ),
)

BY_KEY: Final = {metric.key: metric for metric in BROKER_METRICS}
