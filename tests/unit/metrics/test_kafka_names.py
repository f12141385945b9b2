"""The table of names is sound, and everything a broker registers fits its file."""

from cluster.brokers.handlers import HANDLERS
from cluster.brokers.metric_counters import BrokerCounters
from cluster.metrics.kafka_names import BROKER_METRICS
from cluster.metrics.mmap_stats import MmapStats
from cluster.metrics.stats_reader import read_memory
from cluster.protocol.fetch_codec import FetchedPartition


def test_keys_and_names_are_unique():
    assert len({metric.key for metric in BROKER_METRICS}) == len(BROKER_METRICS)
    assert len({metric.name for metric in BROKER_METRICS}) == len(BROKER_METRICS)
    last_words = {metric.name.rpartition("=")[2] for metric in BROKER_METRICS}
    assert {metric.key for metric in BROKER_METRICS} - last_words == {"ConnectionCount"}


def test_everything_fits_and_is_readable():
    stats = MmapStats.in_memory(rows=0)
    counters = BrokerCounters(stats, [handler.api.key for handler in HANDLERS])
    counters.on_handled(0, 700)
    counters.on_handled(18, 700)
    counters.on_produced(1000, 10, 2, 1)
    counters.on_fetched(
        [("t", None, [FetchedPartition(0, 0, records_size_bytes=500), FetchedPartition(1, 3)])]
    )
    counters.on_throttled(30)
    counters.set("LeaderCount", 4)
    values = read_memory(memoryview(stats.memory)).values
    assert {metric.name for metric in BROKER_METRICS} <= values.keys()
    assert values["kafka.network:type=RequestMetrics,name=RequestsPerSec,request=Produce"] == 1
    assert values["kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec"] == 1000
    assert values["kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec"] == 10
    assert values["kafka.server:type=BrokerTopicMetrics,name=BytesOutPerSec"] == 500
    assert values["kafka.server:type=BrokerTopicMetrics,name=TotalFetchRequestsPerSec"] == 2
    assert values["kafka.server:type=BrokerTopicMetrics,name=FailedFetchRequestsPerSec"] == 1
    assert values["kafka.server:type=ReplicaManager,name=LeaderCount"] == 4
    assert values["kafka.network:type=RequestMetrics,name=ThrottleTimeMs"] == 30
    buckets = [n for n in values if "name=LocalTimeUs,request=Produce" in n and values[n]]
    assert buckets == [
        "kafka.network:type=RequestMetrics,name=LocalTimeUs,request=Produce,below=1024"
    ]
    assert counters.request_count() == 2
