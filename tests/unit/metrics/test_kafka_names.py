"""The table of names is sound, and everything a broker registers fits its file."""

from cluster.brokers.handlers import HANDLERS
from cluster.brokers.metrics.counters import BrokerCounters
from cluster.metrics.kafka_names import (
    BROKER_METRICS,
    BY_KEY,
    REQUEST_PARTS,
    TOPIC_METRICS,
    errors_of,
)
from cluster.metrics.mmap_stats import MmapStats
from cluster.metrics.stats_layout import PARTS, TOPIC_VALUES
from cluster.metrics.stats_reader import read_memory
from cluster.protocol.fetch_codec import FetchedPartition
from tests.support.broker_stats import pass_request
from tests.support.led_partitions import a_leader_with


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
        "ProducePurgatorySize",
        "FetchPurgatorySize",
        "DeleteRecordsPurgatorySize",
        "MetadataPurgatorySize",
        "RebalancePurgatorySize",
    }
    assert {metric.key for metric in BROKER_METRICS} - last_words == hyphenated


def test_the_tables_are_as_long_as_the_layout_says():
    assert len(REQUEST_PARTS) == PARTS
    assert len({metric.key for metric in TOPIC_METRICS}) == len(TOPIC_METRICS) == TOPIC_VALUES


def test_everything_fits_and_is_readable():
    stats = MmapStats.in_memory(rows=0)
    counters = BrokerCounters(stats, [handler.api.key for handler in HANDLERS])
    counters.topics.known = {"t"}
    for api, version in ((1, 12), (18, None), (0, 11), (0, 13), (0, 13)):
        pass_request(counters, api, version)
    counters.topics.on_appended("t", a_leader_with((1, 100), (9, 900)))
    counters.on_fetched(
        (
            [("t", None, [FetchedPartition(0, 0, records_size_bytes=500), FetchedPartition(1, 3)])],
            (),
        )
    )
    counters.throttle_ms += 30
    counters.store()
    counters.store()  # and nothing counts twice
    counters.set("LeaderCount", 4)
    counters.set_share("RequestHandlerAvgIdlePercent", 0.25)
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
