"""The table of a broker's metrics: short key, Kafka's JMX name, kind, meaning.

Kafka's names that end in PerSec are meters, with a count and a rate. Here only the count is kept; a
reader derives the rate from two readings. Names that begin with `milena.` are not in Kafka.
"""

from typing import Final, NamedTuple

from cluster.metrics.stats_layout import MetricKind

_COUNTER: Final = MetricKind.COUNTER
_GAUGE: Final = MetricKind.GAUGE


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
        "ConnectionCount",
        "kafka.server:type=socket-server-metrics,name=connection-count",
        _GAUGE,
        "open connections of clients",
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
    Metric(
        "PurgatorySize",
        "kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize",
        _GAUGE,
        "waiting requests, counted once for each partition that can complete them",
    ),
    Metric(
        "ActiveControllerCount",
        "kafka.controller:type=KafkaController,name=ActiveControllerCount",
        _GAUGE,
        "1 on the broker that is the controller, else 0",
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


def kafka_api_name(key_name: str) -> str:
    """`ApiVersions` for `API_VERSIONS`; `FetchConsumer` for FETCH, since followers use ZeroMQ."""
    words = "".join(word.capitalize() for word in key_name.split("_"))
    return "FetchConsumer" if words == "Fetch" else words


def requests_of(key_name: str) -> str:
    """The name of the metric that counts one API's requests."""
    api = kafka_api_name(key_name)
    return f"kafka.network:type=RequestMetrics,name=RequestsPerSec,request={api}"


def handling_time_of(key_name: str, below_us: int | None) -> str:
    """The metric for one bucket of the time of a request on the broker's thread.

    `below_us` is the bucket's exclusive upper bound; None for the last bucket.
    """
    api = kafka_api_name(key_name)
    bound = "inf" if below_us is None else str(below_us)
    return f"kafka.network:type=RequestMetrics,name=LocalTimeUs,request={api},below={bound}"
