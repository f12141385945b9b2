"""The ends of a stream: limits, brokers that do not answer, a deleted topic."""

import json

import pytest

pytest.importorskip("pyarrow", reason="pyarrow comes with the extra `rollup`")
pytest.importorskip("pyspark", reason="pyspark comes with the extra `rollup`")

from confluent_kafka import KafkaError, KafkaException
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from cluster.analytics.rollup.offset_ranges import OffsetRange
from cluster.analytics.source import readers
from cluster.analytics.source.options import parsed_options
from cluster.analytics.source.readers import ANSWER_MS, MetricsReader, MetricsStreamReader
from cluster.model.errors import UserError

SERVERS = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "metrics"}


class Topic:
    """Replaces the brokers' answers about the topic, and the clock."""

    def __init__(self) -> None:
        self.ranges: tuple[OffsetRange, ...] = (OffsetRange(0, 2, 10), OffsetRange(1, 0, 30))
        self.is_silent = False
        self.now_ms = 0

    def topic_ranges(self, _connection: object, _topic: str) -> tuple[OffsetRange, ...]:
        if self.is_silent:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return self.ranges

    def monotonic_ms(self) -> int:
        return self.now_ms


@pytest.fixture
def topic(monkeypatch) -> Topic:
    topic = Topic()
    monkeypatch.setattr(readers, "topic_ranges", topic.topic_ranges)
    monkeypatch.setattr(readers, "SystemClock", lambda: topic)
    return topic


def stream(**given: str) -> MetricsStreamReader:
    return MetricsStreamReader(parsed_options({**SERVERS, **given}, is_stream=True))


def batch(**given: str) -> MetricsReader:
    return MetricsReader(parsed_options({**SERVERS, **given}, is_stream=False))


def test_a_stream_starts_where_it_was_first_asked(topic):
    reader = stream()
    assert reader.initialOffset() == {"0": 10, "1": 30}
    topic.ranges = (OffsetRange(0, 2, 11), OffsetRange(1, 0, 31))
    assert reader.initialOffset() == {"0": 10, "1": 30}
    assert stream(startingOffsets="earliest").initialOffset() == {"0": 2, "1": 0}


def test_a_limit_is_shared_by_what_partitions_hold(topic):
    reader = stream(startingOffsets="earliest", maxOffsetsPerTrigger="19")
    limit = reader.getDefaultReadLimit()
    assert isinstance(limit, ReadMaxRows)
    end = reader.latestOffset(reader.initialOffset(), limit)
    assert end == {"0": 6, "1": 15}
    assert [each.value for each in reader.partitions({"0": 2, "1": 0}, end)] == [
        OffsetRange(0, 2, 6),
        OffsetRange(1, 0, 15),
    ]
    assert isinstance(stream().getDefaultReadLimit(), ReadAllAvailable)
    assert reader.latestOffset(end, ReadAllAvailable()) == {"0": 10, "1": 30}
    assert reader.reportLatestOffset() == {"0": 10, "1": 30}


def test_a_bounded_stream_ends_where_the_topic_ended_when_it_was_started(topic):
    reader = stream(startingOffsets="earliest")
    reader.prepareForTriggerAvailableNow()
    topic.ranges = (OffsetRange(0, 2, 100), OffsetRange(1, 0, 300))
    assert reader.latestOffset({"0": 2, "1": 0}, ReadAllAvailable()) == {"0": 10, "1": 30}


def test_a_new_partition_is_read_from_its_start(topic):
    reader = stream()
    topic.ranges = (*topic.ranges, OffsetRange(2, 0, 4))
    end = reader.latestOffset({"0": 10, "1": 30}, ReadAllAvailable())
    assert end == {"0": 10, "1": 30, "2": 4}
    assert [each.value for each in reader.partitions({"0": 10, "1": 30}, end)] == [
        OffsetRange(2, 0, 4)
    ]


def test_a_stream_waits_for_brokers_that_do_not_answer_and_then_ends(topic):
    reader = stream()
    start = reader.initialOffset()
    topic.is_silent = True
    topic.now_ms = ANSWER_MS - 1
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    topic.is_silent = False
    reader.latestOffset(start, ReadAllAvailable())
    topic.is_silent = True
    topic.now_ms += ANSWER_MS - 1
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    topic.now_ms += 1
    with pytest.raises(UserError, match=r"^cannot read topic metrics: [^\n]+$"):
        reader.latestOffset(start, ReadAllAvailable())


@pytest.mark.parametrize("ranges", [(), (OffsetRange(0, 0, 1), OffsetRange(1, 0, 30))])
def test_stream_ends_when_its_topic_is_deleted_or_recreated(topic, ranges):
    reader = stream()
    topic.ranges = ranges
    with pytest.raises(UserError, match=r"^topic metrics was deleted, or deleted and recreated:"):
        reader.latestOffset({"0": 10, "1": 30}, ReadAllAvailable())


def test_a_batch_is_cut_into_as_many_tasks_as_are_asked_for(topic):
    assert [each.value for each in batch().partitions()] == [
        OffsetRange(0, 2, 10),
        OffsetRange(1, 0, 30),
    ]
    pieces = [each.value for each in batch(minPartitions="5").partitions()]
    assert len(pieces) >= 5
    assert sum(each.size for each in pieces) == 38


def test_range_that_ends_before_its_start_is_reported_in_one_line(topic):
    reader = batch(
        startingOffsets=json.dumps({"metrics": {"0": 5, "1": 9}}),
        endingOffsets=json.dumps({"metrics": {"0": 7, "1": 8}}),
    )
    with pytest.raises(UserError, match=r"^partition 1: endingOffsets are before startingOffsets$"):
        reader.partitions()


def test_missing_topic_or_answer_is_reported_in_one_line(topic):
    topic.ranges = ()
    with pytest.raises(UserError, match=r"^there is no topic metrics$"):
        batch().partitions()
    topic.is_silent = True
    with pytest.raises(UserError, match=r"^cannot read topic metrics: [^\n]+$"):
        batch().partitions()
