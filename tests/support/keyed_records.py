"""Records with keys: written with acks=all, and everything of one partition read again."""

from typing import Any

from confluent_kafka import OFFSET_BEGINNING, KafkaError, Producer, TopicPartition

from tests.compat.confluent_records import TIMEOUT_S, assigning_consumer


class KeyedWriter:
    """Writes numbered values to a few keys of partition 0; remembers each key's newest one."""

    def __init__(self, bootstrap: str, topic: str, **config: object) -> None:
        self.newest: dict[bytes, bytes | None] = {}
        self._topic = topic
        self._count = 0
        self._failed: list[KafkaError] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "batch.size": 2_000,
                "log_level": 0,
                **{key.replace("_", "."): value for key, value in config.items()},
            }
        )

    def write(self, count: int, keys: int = 10, size: int = 100) -> None:
        """So many records, one after the other over the keys; returns when all are acknowledged."""
        for _ in range(count):
            self._count += 1
            self.put(b"key-%d" % (self._count % keys), b"%d:" % self._count + bytes(size))
        self.flush()

    def put(self, key: bytes, value: bytes | None) -> None:
        """One record, or a tombstone."""
        self.newest[key] = value
        self._producer.produce(self._topic, value, key, partition=0, on_delivery=self._on_delivery)
        self._producer.poll(0)

    def flush(self) -> None:
        """Until everything is acknowledged."""
        assert self._producer.flush(TIMEOUT_S) == 0
        assert self._failed == []

    def _on_delivery(self, error: KafkaError | None, _message: object) -> None:
        if error is not None:
            self._failed.append(error)


def read_partition(bootstrap: str, topic: str) -> list[tuple[int, bytes, bytes | None, int]]:
    """(offset, key, value, timestamp) of each record that a consumer gets from the beginning on."""
    found = []
    with assigning_consumer(bootstrap, isolation_level="read_uncommitted") as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        while True:
            message: Any = consumer.poll(TIMEOUT_S)
            assert message is not None, found
            if message.error() is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF
                return found
            found.append((message.offset(), message.key(), message.value(), message.timestamp()[1]))


def newest_of(records: list[tuple[int, bytes, bytes | None, int]]) -> dict[bytes, bytes | None]:
    """What an application that reads all of it knows in the end."""
    return {key: value for _, key, value, _ in records}
