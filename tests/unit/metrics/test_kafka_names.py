"""The table of names is consistent, and everything that a broker registers fits into its file."""

from cluster.brokers.dispatch.table import HANDLERS
from cluster.brokers.metrics.counters import BrokerCounters
from cluster.brokers.replication.partition import AppendCounts
from cluster.dashboard.families import OWN_FAMILIES
from cluster.metrics.broker_metrics import BROKER_METRICS, BY_KEY
from cluster.metrics.kafka_names import (
    REQUEST_METRICS,
    REQUEST_PARTS,
    TOPIC_METRICS,
    declared,
    errors_of,
    help_of,
    requests_of,
)
from cluster.metrics.mmap_stats import MmapStats
from cluster.metrics.stats_layout import PARTS, TOPIC_VALUES, MetricKind
from cluster.metrics.stats_reader import read_memory
from cluster.model.units import Unit
from cluster.protocol.fetch_codec import FetchedPartition
from tests.support.broker_stats import counted_values, pass_request


def test_keys_and_names_are_unique():
    assert len({metric.key for metric in BROKER_METRICS}) == len(BROKER_METRICS)
    assert len({metric.name for metric in BROKER_METRICS}) == len(BROKER_METRICS)
    last_words = {metric.name.rpartition("=")[2] for metric in BROKER_METRICS}
    hyphenated = {
        "ConnectionCount",
        "MaxDirtyPercent",
        "CleanerRecopyPercent",
        "UncleanablePartitionsCount",
        "GroupCountClassic",
        "GroupCountConsumer",
        "ConsumerGroupCountEmpty",
        "ConsumerGroupCountAssigning",
        "ConsumerGroupCountReconciling",
        "ConsumerGroupCountStable",
        "ExemptRequestTimeUs",
        "SuccessfulAuthentications",
        "FailedAuthentications",
        "SuccessfulReauthentications",
        "FailedReauthentications",
        "ExpiredConnectionsKilled",
        "OffsetCommitRate",
        "OffsetExpirationRate",
        "OffsetDeletionRate",
        "GroupCompletedRebalanceRate",
        "ConsumerGroupRebalanceRate",
        "ConnectionCreationRate",
        "MaxLag",
        "LeaderReplicationByteRate",
        "FollowerReplicationByteRate",
        "ProducePurgatorySize",
        "FetchPurgatorySize",
        "DeleteRecordsPurgatorySize",
        "MetadataPurgatorySize",
        "RebalancePurgatorySize",
        "TransactionPartitionLoadTimeMax",
        "TransactionPartitionLoadTimeAvg",
        "GroupPartitionLoadTimeMax",
        "GroupPartitionLoadTimeAvg",
        "ClientInstanceCount",
        "ClientPushes",
        "UnreadableClientPushes",
        "ThrottledClientPushes",
        "UnknownSubscriptionPushes",
    }
    assert {metric.key for metric in BROKER_METRICS} - last_words == hyphenated


def every_declaration():
    """Name, unit and help of every counter and every exported value."""
    for metric in BROKER_METRICS + TOPIC_METRICS + REQUEST_METRICS:
        yield metric.key, metric.unit, metric.doc
    for part in REQUEST_PARTS:
        yield part.key, part.unit, part.doc
    for own in OWN_FAMILIES:
        yield own.name, own.unit, own.doc


def test_every_metric_has_a_unit_and_a_help():
    declarations = list(every_declaration())
    assert len(declarations) > 100
    for name, unit, doc in declarations:
        assert isinstance(unit, Unit), name
        assert doc, name
        assert doc == " ".join(doc.split()), name
        assert "|" not in doc, f"{name}: docs/metrics.md is a table"
    assert {unit for _, unit, _ in declarations} == set(Unit)


def test_units_agree_with_names():
    by_end = {
        "Ms": Unit.MILLISECONDS,
        "Us": Unit.MICROSECONDS,
        "_seconds": Unit.SECONDS,
        "_ratio": Unit.RATIO,
        "_byte_rate": Unit.BYTES_PER_SECOND,
        "_throttle_time": Unit.MILLISECONDS,
    }
    for name, unit, _ in every_declaration():
        if name.endswith("RateAndTimeMs"):
            continue  # the number of timed requests is exported
        expected = {by_end[end] for end in by_end if name.endswith(end)} or {unit}
        assert unit in expected, name
        assert "Bytes" not in name or unit is Unit.BYTES, name
    for metric in BROKER_METRICS:
        is_real = metric.kind is MetricKind.REAL
        is_fraction = metric.unit is Unit.RATIO or metric.key.endswith(("TimeAvg", "ByteRate"))
        assert is_real == is_fraction, metric


def test_everything_in_a_stats_file_is_declared():
    values = counted_values()
    assert len(values) > len(BROKER_METRICS)
    for name in values:
        metric = declared(name)
        assert metric is not None, name
        assert help_of(name), name
    assert help_of("kafka.server:type=New,name=Unknown") == ""
    topics = "kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec"
    assert declared(f"{topics},topic=t").key == "BytesInPerSec"
    by_version = requests_of("METADATA", "9")
    assert help_of(by_version).startswith("requests of one API")


def test_the_tables_are_as_long_as_the_layout_says():
    assert len(REQUEST_PARTS) == PARTS
    assert len({metric.key for metric in TOPIC_METRICS}) == len(TOPIC_METRICS) == TOPIC_VALUES


def test_every_declared_metric_fits_into_the_file():
    stats = MmapStats.in_memory(rows=0)
    counters = BrokerCounters(stats, [handler.api.key for handler in HANDLERS])
    counters.topics.count_for({"t"})
    for api, version in ((1, 12), (18, None), (0, 11), (0, 13), (0, 13)):
        pass_request(counters, api, version)
    counters.topics.on_appended("t", AppendCounts(2, 10, 1000))
    counters.on_fetched(
        (
            [("t", None, [FetchedPartition(0, 0, records_size_bytes=500), FetchedPartition(1, 3)])],
            (),
            None,
        )
    )
    counters.throttle_ms += 30
    counters.store()
    counters.store()  # nothing counts twice
    counters.set("LeaderCount", 4)
    counters.set_real("RequestHandlerAvgIdlePercent", 0.25)
    values = read_memory(memoryview(stats.memory)).values
    assert {metric.name for metric in BROKER_METRICS} <= values.keys()
    assert values["kafka.network:type=RequestMetrics,name=RequestsPerSec,request=Produce"] == 3
    by_version = "kafka.network:type=RequestMetrics,name=RequestsPerSec,request=Produce,version="
    assert [values[f"{by_version}{version}"] for version in (11, 13)] == [1, 2]
    assert values[f"{by_version.replace('Produce', 'ApiVersions')}_other"] == 1
    assert values[BY_KEY["RequestHandlerAvgIdlePercent"].name] == 0.25
    assert values[errors_of("FetchConsumer", "UNKNOWN_TOPIC_OR_PARTITION")] == 1
    assert values["kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec"] == 1000
    assert values["kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec"] == 10
    assert values["kafka.server:type=BrokerTopicMetrics,name=BytesOutPerSec"] == 500
    assert values["kafka.server:type=BrokerTopicMetrics,name=TotalFetchRequestsPerSec"] == 1
    assert values["kafka.server:type=BrokerTopicMetrics,name=FailedFetchRequestsPerSec"] == 1
    assert values["kafka.server:type=ReplicaManager,name=LeaderCount"] == 4
    assert values["kafka.network:type=RequestMetrics,name=ThrottleTimeMs"] == 30
    assert values["kafka.network:type=RequestMetrics,name=RequestsPerSec"] == 5
