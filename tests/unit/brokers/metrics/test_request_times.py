"""The times of requests, with a broker's own handlers and with made-up times."""

from pathlib import Path

from cluster.brokers.dispatch.table import HANDLERS
from cluster.brokers.metrics.counters import BrokerCounters
from cluster.brokers.metrics.request_times import RequestTimes
from cluster.metrics.histogram import Histogram
from cluster.metrics.kafka_names import errors_of, requests_of
from cluster.metrics.mmap_stats import MmapStats
from cluster.metrics.stats_reader import Stats, read_memory
from cluster.model.cluster import TopicState
from cluster.model.ids import BrokerId
from cluster.protocol.api import ApiKey
from cluster.records.builder import NewRecord, ProducerIdentity, build_batch
from tests.support.cluster_states import a_partition, a_topic
from tests.support.handler_stage import BROKER, OTHER, HandlerStage
from tests.support.kafka_wire import fetch_request, produce_request, request

MS = 1_000_000


def read(counters: BrokerCounters) -> Stats:
    counters.store()
    return read_memory(memoryview(counters.stats.memory))


def a_stage(directory: Path) -> HandlerStage:
    counters = BrokerCounters(MmapStats.in_memory(), [handler.api.key for handler in HANDLERS])
    return HandlerStage(directory, counters=counters)


def only(times: dict[str, Histogram], **expected_ms: int) -> None:
    """Assert that each of these parts has one duration, and all others none."""
    assert {key: part.count for key, part in times.items()} == dict.fromkeys(times, 1)
    found = {key: part.sum_us // 1_000 for key, part in times.items() if part.sum_us}
    assert found == expected_ms


def test_each_part_of_a_requests_time_is_recorded():
    stats = MmapStats.in_memory()
    times = RequestTimes(stats, [ApiKey.FETCH])
    at = [each * MS for each in (100, 103, 110, 610, 611, 615)]
    arrived, began, handled, answered, sending, sent = at
    times.note(ApiKey.FETCH, 1, arrived, began, handled, answered, 77, sending, sent)
    times.store()
    only(
        read_memory(memoryview(stats.memory)).requests["FetchConsumer"],
        TotalTimeMs=515,
        RequestQueueTimeMs=3,
        LocalTimeMs=7,
        RemoteTimeMs=500,
        ThrottleTimeMs=77,
        ResponseQueueTimeMs=1,
        ResponseSendTimeMs=4,
    )


def test_requests_of_real_handlers_are_counted(tmp_path: Path):
    with a_stage(tmp_path) as stage:
        counters = stage.core.clients.services.data.counters
        assert counters is not None
        stage.update(a_topic("t", a_partition([BROKER]), a_partition([OTHER])))
        client = stage.connect()
        batch = bytes(build_batch([NewRecord(b"x" * 100)] * 2))
        for _ in range(3):
            assert client.call(produce_request("t", batch, acks=1)) is not None
        client.call(produce_request("t", batch, partition=1))
        client.call(produce_request("unknown", batch))
        client.call(fetch_request("t", 0))
        client.call(fetch_request("unknown", 0))
        partition = {"partition_index": 9, "timestamp": -1, "current_leader_epoch": -1}
        listed = {"name": "t", "partitions": [partition]}
        client.call(
            request(ApiKey.LIST_OFFSETS, 7, replica_id=-1, isolation_level=0, topics=[listed])
        )
        stats = read(counters)
    assert stats.values[requests_of("PRODUCE")] == 5
    assert stats.requests["Produce"]["TotalTimeMs"].count == 5
    assert stats.requests["FetchConsumer"]["TotalTimeMs"].count == 2
    assert stats.values[errors_of("ListOffsets", "UNKNOWN_TOPIC_OR_PARTITION")] == 1
    assert stats.values[errors_of("FetchConsumer", "UNKNOWN_TOPIC_OR_PARTITION")] == 1
    assert stats.values[errors_of("Produce", "NOT_LEADER_OR_FOLLOWER")] == 1
    assert stats.values[errors_of("Produce", "UNKNOWN_TOPIC_OR_PARTITION")] == 1
    assert stats.topics.keys() == {"t"}
    topic = stats.topics["t"]
    assert topic["MessagesInPerSec"] == 6
    assert topic["TotalProduceRequestsPerSec"] == 4
    assert topic["FailedProduceRequestsPerSec"] == 1
    assert topic["TotalFetchRequestsPerSec"] == 1
    assert topic["BytesOutPerSec"] == topic["BytesInPerSec"] > 300


def test_batches_before_a_change_of_leaders_are_counted_and_repeated_ones_are_not(tmp_path: Path):
    def led_by(broker: BrokerId, epoch: int) -> TopicState:
        return a_topic("t", a_partition([BROKER, OTHER], leader=broker, leader_epoch=epoch))

    with a_stage(tmp_path) as stage:
        counters = stage.core.clients.services.data.counters
        assert counters is not None
        stage.update(led_by(BROKER, 0))
        client = stage.connect()
        writer = ProducerIdentity(producer_id=7, producer_epoch=0, base_sequence=0)
        batch = bytes(build_batch([NewRecord(b"x" * 100)] * 2, producer=writer))
        for _ in range(3):
            client.call(produce_request("t", batch, acks=1))
        stage.update(led_by(OTHER, 1))
        stage.update(led_by(BROKER, 2))
        plain = bytes(build_batch([NewRecord(b"y")] * 5))
        client.call(produce_request("t", plain, acks=1))
        topic = read(counters).topics["t"]
    assert topic["MessagesInPerSec"] == 7
    assert topic["TotalProduceRequestsPerSec"] == 2
    assert topic["BytesInPerSec"] == len(batch) + len(plain)
