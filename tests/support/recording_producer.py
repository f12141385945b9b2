"""A producer that remembers what was acknowledged, and a reader of everything there is."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Protocol

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

Records = dict[int, dict[int, bytes]]
"""Value by offset, by partition."""

TIMEOUT_S = 30.0


class HasBootstrap(Protocol):
    """A cluster of any kind."""

    @property
    def bootstrap(self) -> str:
        """The value of `bootstrap.servers`."""
        ...


_TURN_S = 0.01


class Recorder:
    """A producer that remembers what was acknowledged: offset and value, by partition."""

    def __init__(
        self, cluster: HasBootstrap, topic: str, *, partitions: int = 1, **config: object
    ) -> None:
        self.acknowledged: Records = {p: {} for p in range(partitions)}
        self._without_offset = 0
        """Records that the client takes for acknowledged because a later one of its partition was;
        it does not know their offsets.
        """
        self.sent: dict[int, list[bytes]] = {p: [] for p in range(partitions)}
        self.failed: list[KafkaError] = []
        self._stopped_by: KafkaException | None = None
        """What ended the thread that produces."""
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "acks": "all",
                "linger.ms": 1,
                "retry.backoff.ms": 20,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
                **{key.replace("_", "."): value for key, value in config.items()},
            }
        )

    def produce(self, prefix: str, count: int) -> None:
        """So many records, spread over the partitions, each with a value of its own."""
        for number in range(count):
            value = f"{prefix}-{number}".encode()
            partition = number % len(self.sent)
            self.sent[partition].append(value)
            try:
                self._producer.produce(
                    self._topic, value, partition=partition, on_delivery=self._on_delivery
                )
            except KafkaException as raised:
                if raised.args[0].code() == KafkaError._FATAL:  # which names no cause
                    self._raise_fatal_error()
                raise
            self._producer.poll(0)

    def _raise_fatal_error(self) -> None:
        """Serve the events of the producer: one of them is the fatal error, which is raised."""
        while self._producer.poll(1):
            pass

    def produce_one_by_one(self, count: int) -> None:
        """So many records for each partition, each in a batch of its own."""
        for number in range(count):
            self.produce(f"batch-{number}", len(self.sent))
            self.flush()

    @property
    def acknowledged_count(self) -> int:
        """How many records have been acknowledged so far."""
        self._producer.poll(0)
        return sum(map(len, self.acknowledged.values())) + self._without_offset

    @contextlib.contextmanager
    def producing(self, prefix: str, per_second: int = 1000) -> Iterator[None]:
        """Produce in the background until the block ends; then flush."""
        stop = threading.Event()
        thread = threading.Thread(target=self._produce_until, args=(stop, prefix, per_second))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
            if self._stopped_by is not None:
                raise self._stopped_by
        self.flush()

    def _produce_until(self, stop: threading.Event, prefix: str, per_second: int) -> None:
        turn = 0
        try:
            while not stop.wait(_TURN_S):
                self.produce(f"{prefix}-{turn}", max(1, round(per_second * _TURN_S)))
                turn += 1
        except KafkaException as error:
            self._stopped_by = error

    def flush(self) -> None:
        """Wait until every record is acknowledged or has failed."""
        assert self._producer.flush(TIMEOUT_S) == 0

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(error)
            return
        partition, offset, value = message.partition(), message.offset(), message.value()
        if offset is None:
            self._without_offset += 1
            return
        assert partition is not None
        assert isinstance(value, bytes)
        self.acknowledged[partition][offset] = value


def read_all(cluster: HasBootstrap, topic: str, partitions: int = 1) -> Records:
    """Offset and value of every record, by partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "none: partitions are assigned",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
        }
    )
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(partitions)])
    records: Records = {p: {} for p in range(partitions)}
    at_end: set[int] = set()
    try:
        while len(at_end) < partitions:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None
            partition, error = message.partition(), message.error()
            assert partition is not None
            if error is None:
                offset, value = message.offset(), message.value()
                assert offset is not None
                assert isinstance(value, bytes)
                records[partition][offset] = value
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                at_end.add(partition)
    finally:
        consumer.close()
    return records
