"""Ranges of a topic are read to their end, from a broker of librdkafka's test cluster."""

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer, TopicPartition

pa = pytest.importorskip("pyarrow", reason="needs the extra `rollup`")

from cluster.analytics.rollup import kafka_records  # noqa: E402
from cluster.analytics.rollup.kafka_records import (  # noqa: E402
    ReadFailed,
    RecordsLost,
    read_range,
    topic_ranges,
)
from cluster.analytics.rollup.offset_ranges import OffsetRange  # noqa: E402

TOPIC = "metrics"
PARTITION = 0


@pytest.fixture
def producer() -> Iterator[Producer]:
    """Has its own broker, which lives as long as it does."""
    made = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock", "log_level": 0})
    made.list_topics(TOPIC, 10)  # creates it
    yield made
    made.flush(10)


def connection(producer: Producer) -> dict[str, str]:
    (broker,) = producer.list_topics(timeout=10).brokers.values()
    return {"bootstrap.servers": f"{broker.host}:{broker.port}"}


def fill(producer: Producer, count: int, size_bytes: int = 10) -> list[bytes]:
    values = [str(number).zfill(size_bytes).encode() for number in range(count)]
    for value in values:
        producer.produce(TOPIC, value, partition=PARTITION)
        producer.poll(0)
    assert producer.flush(20) == 0
    return values


def read(producer: Producer, wanted: OffsetRange, *, strict: bool = False) -> list[object]:
    """Values and counts of lost records, in order."""
    found: list[object] = []
    for block in read_range(connection(producer), TOPIC, wanted, fail_on_data_loss=strict):
        found += [block] if isinstance(block, int) else block.values
    return found


def test_topic_ranges_are_the_current_offsets(producer):
    fill(producer, 7)
    ranges = topic_ranges(connection(producer), TOPIC)
    assert [each for each in ranges if each.size] == [OffsetRange(PARTITION, 0, 7)]


@pytest.mark.parametrize(("start", "end"), [(0, 3000), (0, 1), (1234, 2345), (2999, 3000)])
def test_a_range_is_read_exactly(producer, start, end):
    values = fill(producer, 3000)
    assert read(producer, OffsetRange(PARTITION, start, end)) == values[start:end]


def test_blocks_are_bounded(producer, monkeypatch):
    monkeypatch.setattr(kafka_records, "BLOCK_RECORDS", 100)
    fill(producer, 1050)
    wanted = OffsetRange(PARTITION, 0, 1050)
    blocks: list[Any] = list(
        read_range(connection(producer), TOPIC, wanted, fail_on_data_loss=True)
    )
    assert max(len(block.values) for block in blocks) == 100
    assert [at for block in blocks for at in block.offsets] == list(range(1050))


def test_records_removed_by_retention_are_counted_or_refused(producer):
    values = fill(producer, 8000, size_bytes=1000)  # the test broker keeps 5 MB of a partition
    (held,) = [each for each in topic_ranges(connection(producer), TOPIC) if each.size]
    assert held.start > 0
    wanted = OffsetRange(PARTITION, 0, held.end)
    assert read(producer, wanted) == [held.start, *values[held.start :]]
    with pytest.raises(RecordsLost, match="no longer has offset 0"):
        read(producer, wanted, strict=True)


def test_an_end_that_never_comes_is_given_up(producer, monkeypatch):
    monkeypatch.setattr(kafka_records, "STALL_S", 0.5)
    fill(producer, 5)
    with pytest.raises(ReadFailed, match="at offset 5 of 9"):
        read(producer, OffsetRange(PARTITION, 0, 9))


class Event:
    """A result of a consumer: a record, or the end of a partition."""

    def __init__(self, offset: int, value: bytes | None = None) -> None:
        self._offset = offset
        self._value = value

    def offset(self) -> int:
        return self._offset

    def value(self) -> bytes | None:
        return self._value

    def key(self) -> bytes:
        return b"7"

    def timestamp(self) -> tuple[int, int]:
        return 1, 1000 + self._offset

    def error(self) -> KafkaError | None:
        return KafkaError(KafkaError._PARTITION_EOF) if self._value is None else None


class SparseLog:
    """A partition in which compaction and transaction markers have left these offsets."""

    def __init__(self, present: Iterable[int], end: int) -> None:
        self._present = sorted(present)
        self._end = end
        self._coming: list[Event] = []
        self.assigned: list[int] = []

    def assign(self, partitions: list[TopicPartition]) -> None:
        assert len(self.assigned) < 10, "it reads the same range for ever"
        begin = partitions[0].offset
        self.assigned.append(begin)
        records = [Event(each, b"%d" % each) for each in self._present if each >= begin]
        self._coming = [*records, Event(self._end)]

    def consume(self, count: int, _timeout: float) -> list[Event]:
        page, self._coming = self._coming[:count], self._coming[count:]
        return page


@pytest.mark.parametrize(
    ("present", "start", "end"),
    [
        ((0, 1, 2, 3), 0, 10),  # the end is gone
        ((0, 1), 0, 10),
        ((), 0, 10),  # only markers
        ((0, 9), 2, 6),  # a piece of a split range that lies in a gap
        ((0, 5, 9), 2, 6),
    ],
)
def test_offsets_without_records_end_a_range_all_the_same(monkeypatch, present, start, end):
    log = SparseLog(present, end=10)
    monkeypatch.setattr(kafka_records, "open_consumer", lambda _connection: nullcontext(log))
    monkeypatch.setattr(kafka_records, "BLOCK_RECORDS", 2)
    blocks = list(
        read_range({}, TOPIC, OffsetRange(PARTITION, start, end), fail_on_data_loss=False)
    )
    found = [block for block in blocks if not isinstance(block, int)]
    assert all(block.values for block in found), "an empty block says nothing"
    values = [value for block in found for value in block.values]
    assert [at for block in found for at in block.offsets] == [int(value) for value in values]
    assert values == [b"%d" % each for each in present if start <= each < end]
    assert log.assigned == [start]


class LargeRecords:
    """A consumer with any number of records of one size, which remembers the most that a reader
    took of them before it passed on a block.
    """

    def __init__(self, size_bytes: int, count: int) -> None:
        self._size_bytes = size_bytes
        self._count = count
        self._given = 0
        self.most_at_once = 0

    def assign(self, partitions: list[TopicPartition]) -> None:
        self._given = partitions[0].offset

    def consume(self, count: int, _timeout: float) -> list[Event]:
        end = min(self._given + count, self._count)
        page = [Event(at, bytes(self._size_bytes)) for at in range(self._given, end)]
        self.most_at_once = max(self.most_at_once, len(page))
        self._given = end
        return page


@pytest.mark.parametrize("size_bytes", [1 << 20, 100_000, 1000])
def test_blocks_of_large_records_are_bounded_in_bytes(monkeypatch, size_bytes):
    count = min(30_000, (256 << 20) // size_bytes)
    log = LargeRecords(size_bytes, count)
    monkeypatch.setattr(kafka_records, "open_consumer", lambda _connection: nullcontext(log))
    most = 0
    seen = 0
    for block in read_range({}, TOPIC, OffsetRange(PARTITION, 0, count), fail_on_data_loss=False):
        assert not isinstance(block, int)
        most = max(most, sum(map(len, block.values)))
        seen += len(block.values)
    assert seen == count
    assert most < kafka_records.BLOCK_BYTES + (16 << 20)
    assert log.most_at_once * size_bytes <= 16 << 20


def test_keys_and_timestamps_come_with_the_values(producer):
    for number in range(50):
        producer.produce(
            TOPIC,
            b"value",
            b"%d" % number,
            partition=PARTITION,
            timestamp=1_700_000_000_000 + number,
        )
    assert producer.flush(20) == 0
    (block,) = read_range(
        connection(producer), TOPIC, OffsetRange(PARTITION, 0, 50), fail_on_data_loss=True
    )
    assert not isinstance(block, int)
    assert block.keys == [b"%d" % number for number in range(50)]
    assert block.timestamps_ms == [1_700_000_000_000 + number for number in range(50)]
