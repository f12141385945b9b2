"""The console producer against a client that does what a test says."""

import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from cluster.tools.line_reader import LineReader
from cluster.tools.main import main
from cluster.tools.produce import ConsoleProducer


class FakeProducer:
    """Takes records until its queue is full; delivers, or fails, what a flush finds."""

    def __init__(self, *, queue: int = 100, failing: bytes = b"bad") -> None:
        self.sent: list[tuple[str, bytes | None, bytes | None]] = []
        self.waiting: list[tuple[bytes | None, Callable[..., None]]] = []
        self.partitions: set[int | None] = set()
        self.flush_count = 0
        self.is_stuck = False
        self._queue = queue
        self._failing = failing

    def produce(self, topic, value, key, headers, on_delivery, partition=None) -> None:
        self.partitions.add(partition)
        if value == b"huge":
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
        if len(self.waiting) >= self._queue:
            raise BufferError
        self.sent.append((topic, key, value))
        self.waiting.append((value, on_delivery))

    def poll(self, timeout: float) -> None:
        if len(self.waiting) >= self._queue:
            self._deliver()

    def __len__(self) -> int:
        return len(self.waiting)

    def flush(self, timeout: float) -> int:
        self.flush_count += 1
        if not self.is_stuck:
            self._deliver()
        return len(self.waiting)

    def _deliver(self) -> None:
        done, self.waiting = self.waiting, []
        for value, on_delivery in done:
            if value == self._failing:
                on_delivery(KafkaError(KafkaError._MSG_TIMED_OUT), None)


def a_client(*, queue: int = 100) -> Any:
    return FakeProducer(queue=queue)


VALUES = LineReader.from_properties([])
KEYED = LineReader.from_properties([("parse.key", "true"), ("key.separator", ":")])


def test_lines_go_to_the_partition_that_is_given():
    client = a_client()
    ConsoleProducer(client, "orders", 3, is_sync=False).send_all(VALUES, [b"a\n", b"b\n"])
    assert client.partitions == {3}
    ConsoleProducer(other := a_client(), "orders", is_sync=False).send_all(VALUES, [b"a\n"])
    assert other.partitions == {None}


def test_line_ends_are_not_part_of_a_record():
    client = a_client()
    producer = ConsoleProducer(client, "orders", is_sync=False)
    producer.send_all(VALUES, [b"a\n", b"b\r\n", b"\n", b"c"])
    assert [value for _, _, value in client.sent] == [b"a", b"b", b"", b"c"]
    assert client.flush_count == 0
    assert producer.failure_count == 0


def test_a_failed_delivery_is_one_line_with_its_number(capsys):
    producer = ConsoleProducer(a_client(), "orders", is_sync=False)
    producer.send_all(VALUES, [b"a\n", b"bad\n", b"huge\n", b"c\n"])
    producer.wait()
    assert producer.failure_count == 2
    assert capsys.readouterr().err.splitlines() == [
        "error: line 3 was not delivered: Message size too large",
        "error: line 2 was not delivered: Message timed out",
    ]


def test_each_record_is_awaited_where_that_is_asked_for():
    client = a_client()
    ConsoleProducer(client, "orders", is_sync=True).send_all(VALUES, [b"a\n", b"b\n"])
    assert client.flush_count == 2


def test_a_full_queue_is_waited_for():
    client = a_client(queue=2)
    ConsoleProducer(client, "orders", is_sync=False).send_all(
        VALUES, [b"%d\n" % n for n in range(5)]
    )
    assert len(client.sent) == 5


def test_a_line_that_cannot_be_read_ends_the_input(capsys):
    client = a_client()
    producer = ConsoleProducer(client, "orders", is_sync=False)
    producer.send_all(KEYED, [b"k:v\n", b"v\n", b"k:w\n"])
    assert client.sent == [("orders", b"k", b"v")]
    assert producer.failure_count == 1
    assert capsys.readouterr().err == "error: No key separator found on line number 2: 'v'\n"


def test_after_an_interrupt_the_undelivered_are_counted(capsys):
    client = a_client()
    producer = ConsoleProducer(client, "orders", is_sync=False)
    producer.send_all(VALUES, [b"a\n", b"b\n"])
    client.is_stuck = True
    producer.give_up()
    assert producer.failure_count == 1
    assert capsys.readouterr().err == "error: interrupted before 2 records were delivered\n"


def test_records_pending_at_an_interrupt_are_not_counted_as_failed():
    producer = ConsoleProducer(a_client(), "orders", is_sync=False)

    def lines() -> Iterator[bytes]:
        yield b"a\n"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        producer.send_all(VALUES, lines())
    producer.give_up()
    assert producer.failure_count == 0


@pytest.mark.parametrize(
    "words",
    [
        ["--topic", "t", "--property", "parse.keys=true"],
        ["--topic", "t", "--property", "key.separator="],
    ],
)
def test_wrong_usage_is_status_2(words, capsys):
    assert main(["produce", *words]) == 2
    assert capsys.readouterr().err.startswith("error: ")


@pytest.mark.parametrize(
    "words",
    [[], ["--topic", "t", "--compression-codec", "rar"], ["--topic", "t", "--property", "x"]],
)
def test_options_that_cannot_be_read_are_status_2(words, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["produce", *words])
    assert ended.value.code == 2


def test_once_a_record_has_timed_out_no_line_is_read_and_the_reason_is_told(capsys):
    client = a_client(queue=10)
    producer = ConsoleProducer(client, "orders", is_sync=False, why=lambda: "the disk is full")
    lines = iter([b"bad\n"] * 1_000)
    producer.send_all(VALUES, lines)
    producer.wait()
    producer.sum_up()
    assert len(list(lines)) > 900
    errors = capsys.readouterr().err.splitlines()
    assert errors[0].startswith("error: line 1 was not delivered")
    assert len(errors) < 10
    assert errors[-2].endswith("and those after it were not sent")
    assert "lines not delivered within 60 s: the disk is full" in errors[-1]
    assert producer.failure_count == 10 + 1  # those in the queue, and the rest


def test_a_client_that_delivers_nothing_is_told_of_once_with_the_reason(capsys, monkeypatch):
    seconds = count()
    monkeypatch.setattr(time, "monotonic", lambda: float(next(seconds)))
    client = a_client()
    producer = ConsoleProducer(client, "orders", is_sync=False, why=lambda: "broker 1 is paused")
    client.is_stuck = True
    producer.send_all(VALUES, [b"one\n"])

    flush, waits = client.flush, count()

    def come_back(timeout: float) -> int:
        client.is_stuck = next(waits) < 30
        return flush(timeout)

    client.flush = come_back
    producer.wait()
    (warning,) = capsys.readouterr().err.splitlines()
    assert warning == ("warning: nothing was delivered for 5 s: broker 1 is paused; still trying")
    assert producer.failure_count == 0
