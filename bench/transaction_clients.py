"""Transactions by clients that others wrote: Kafka's own in Java, and librdkafka."""

import time
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import Consumer, Producer

from bench.foreign_clients import JavaTools, ToolFailed
from cluster.runtime.interrupts import deferred_interrupt

_JAVA_CLIENT: Final = Path(__file__).with_name("TransactionClient.java")
_ANSWER_S: Final = 30.0
_RECORDS_OF_POLL: Final = 500
"""As many as one poll of the Java consumer returns by default."""


class Transacted(NamedTuple):
    """Transactions that were committed one after another."""

    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody calls
    records: int
    seconds: float
    commits_ms: list[float]
    """The times of their commits, with what these flush; of the whole transactions that copy."""


class Times(NamedTuple):
    """How long a client is at work, and how long it is before that without being measured."""

    uncounted_s: float
    counted_s: float


def produce_by_java(
    java: JavaTools, bootstrap: str, topic: str, partitions: int, times: Times
) -> Transacted:
    """Transactions with a record in each partition."""
    return _by_java(java, "produce", bootstrap, topic, str(partitions), times)


def transform_by_java(
    java: JavaTools, bootstrap: str, source: str, target: str, times: Times
) -> Transacted:
    """Copy records; each poll is a transaction, with its offsets."""
    return _by_java(java, "transform", bootstrap, source, target, times)


def _by_java(
    java: JavaTools, role: str, bootstrap: str, topic: str, argument: str, times: Times
) -> Transacted:
    seconds = [str(each) for each in times]
    output = java.run(_JAVA_CLIENT, role, bootstrap, topic, argument, *seconds)
    return transacted(output)


def transacted(output: str) -> Transacted:
    """What the Java client printed. Raises ToolFailed if that is no transaction."""
    head, _, waits = output.partition("\n")
    fields = head.split()
    if len(fields) != 3 or fields[0] == "0":
        raise ToolFailed(f"the Java client committed nothing: {head}")
    commits_ms = [int(each) / 1e6 for each in waits.split()]
    return Transacted(int(fields[0]), int(fields[1]), float(fields[2]), commits_ms)


class _Commits:
    """Commits of a producer, those of the first seconds not counted."""

    def __init__(self, producer: Producer, times: Times) -> None:
        self._producer = producer
        self._began = time.perf_counter() + times.uncounted_s
        self._end = self._began + times.counted_s
        self._last = self._began
        self._records = 0
        self._waits: list[float] = []

    @property
    def is_over(self) -> bool:
        return time.perf_counter() >= self._end

    def commit(self, records: int, before: float) -> None:
        """Commit the open transaction; its time is counted from `before`."""
        self._producer.commit_transaction(_ANSWER_S)
        after = time.perf_counter()
        if before >= self._began:
            self._waits.append((after - before) * 1e3)
            self._records += records
            self._last = after

    def taken(self) -> Transacted:
        """Those that were counted. Raises ToolFailed."""
        if not self._waits:
            raise ToolFailed("librdkafka committed nothing")
        return Transacted(len(self._waits), self._records, self._last - self._began, self._waits)


def produce_by_librdkafka(bootstrap: str, topic: str, partitions: int, times: Times) -> Transacted:
    """Transactions with a record in each partition."""
    producer = _producer(bootstrap, topic)
    commits = _Commits(producer, times)
    while not commits.is_over:
        producer.begin_transaction()
        for partition in range(partitions):
            producer.produce(topic, b"x" * 100, partition=partition)
        commits.commit(partitions, time.perf_counter())
    return commits.taken()


def transform_by_librdkafka(bootstrap: str, source: str, target: str, times: Times) -> Transacted:
    """Copy records; each batch of the consumer is a transaction, with its offsets."""
    producer = _producer(bootstrap, source)
    with deferred_interrupt():
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "log_level": 0,
                "group.id": f"librdkafka-{source}",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.queue.backoff.ms": 1,  # as for the other loads
            }
        )
    try:
        consumer.subscribe([source])
        messages = consumer.consume(_RECORDS_OF_POLL, _ANSWER_S)
        commits = _Commits(producer, times)
        while messages and not commits.is_over:
            before = time.perf_counter()
            producer.begin_transaction()
            for message in messages:
                if message.error() is not None:
                    raise ToolFailed(f"librdkafka consumed {message.error()}")
                producer.produce(target, message.value(), message.key())
            offsets = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(
                offsets, consumer.consumer_group_metadata(), _ANSWER_S
            )
            commits.commit(len(messages), before)
            messages = consumer.consume(_RECORDS_OF_POLL, 1.0)
        return commits.taken()
    finally:
        consumer.close()


def _producer(bootstrap: str, name: str) -> Producer:
    with deferred_interrupt():
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "log_level": 0,
                "transactional.id": f"librdkafka-{name}",
            }
        )
    producer.init_transactions(_ANSWER_S)
    return producer
