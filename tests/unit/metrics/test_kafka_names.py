"""The table of names is sound, and everything a broker registers fits its file."""

from cluster.brokers.handlers import HANDLERS
from cluster.brokers.log.partition_log import Appended
from cluster.brokers.metrics.counters import BrokerCounters
from cluster.metrics.kafka_names import BROKER_METRICS
from cluster.metrics.mmap_stats import MmapStats
from cluster.metrics.stats_reader import read_memory
from cluster.model.ids import Offset
from cluster.protocol.fetch_codec import FetchedPartition


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
        "OffsetCommitRate",
        "OffsetExpirationRate",
        "OffsetDeletionRate",
        "GroupCompletedRebalanceRate",
        "ConsumerGroupRebalanceRate",
    }
    assert {metric.key for metric in BROKER_METRICS} - last_words == hyphenated


def test_everything_fits_and_is_readable():
    stats = MmapStats.in_memory(rows=0)
    counters = BrokerCounters(stats, [handler.api.key for handler in HANDLERS])
    counters.note_us(1)(17)
    counters.note_us(18)(3)
    for handled_us in (700, 1 << 39, 1 << 39):
        counters.note_us(0)(handled_us)
    for base_offset, last_offset, size_bytes in ((20, 20, 100), (21, 29, 900)):
        counters.note_appended(
            Appended(Offset(base_offset), Offset(last_offset), -1, Offset(0), size_bytes)
        )
    counters.on_fetched(
        [("t", None, [FetchedPartition(0, 0, records_size_bytes=500), FetchedPartition(1, 3)])]
    )
    counters.throttle_ms += 30
    counters.store()
    counters.store()  # and nothing counts twice
    counters.set("LeaderCount", 4)
    values = read_memory(memoryview(stats.memory)).values
    assert {metric.name for metric in BROKER_METRICS} <= values.keys()
    assert values["kafka.network:type=RequestMetrics,name=RequestsPerSec,request=Produce"] == 3
    assert values["kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec"] == 1000
    assert values["kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec"] == 10
    assert values["kafka.server:type=BrokerTopicMetrics,name=BytesOutPerSec"] == 500
    assert values["kafka.server:type=BrokerTopicMetrics,name=TotalFetchRequestsPerSec"] == 1
    assert values["kafka.server:type=BrokerTopicMetrics,name=FailedFetchRequestsPerSec"] == 1
    assert values["kafka.server:type=ReplicaManager,name=LeaderCount"] == 4
    assert values["kafka.network:type=RequestMetrics,name=ThrottleTimeMs"] == 30
    times = "kafka.network:type=RequestMetrics,name=LocalTimeUs,request=Produce,below="
    buckets = {n.removeprefix(times): values[n] for n in values if n.startswith(times)}
    assert {bound: count for bound, count in buckets.items() if count} == {"1024": 1, "inf": 2}
    assert values["kafka.network:type=RequestMetrics,name=RequestsPerSec"] == 5
