"""Transactions by every client library, behind one interface: in this process or in a program."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPartition
from kafka.structs import OffsetAndMetadata

from tests.compat.client_programs import ClientProgram, ProgramFailed

DEADLINE_S: Final = 60.0
PARTITIONS: Final = 3
"""Of every topic that is read."""


class TransactionFailed(AssertionError):
    """The client raised an error; the text has its class and what it says."""


class Transactional(Protocol):
    """A producer whose transactional id the coordinator knows. All raise TransactionFailed."""

    def begin(self) -> None:
        """Begin a transaction."""

    def send(self, topic: str, partition: int, value: str) -> None:
        """Write a record; returns when it is acknowledged."""

    def commit(self) -> None:
        """Commit the transaction."""

    def abort(self) -> None:
        """Abort the transaction."""

    def close(self) -> None:
        """Let go of the cluster without ending the transaction."""


class Client(Protocol):
    """A library at one cluster. All raise TransactionFailed."""

    def producer(self, transactional_id: str, timeout_ms: int = 60_000) -> Transactional:
        """A new producer, once InitProducerId is answered."""

    def copy(
        self,
        transactional_id: str,
        group: str,
        source: str,
        target: str,
        count: int,
        *,
        is_commit: bool = True,
    ) -> None:
        """Read so many records as the only member of a group, write them in upper case, and end the
        transaction, which has the group's offsets."""

    def read(self, topic: str, count: int, *, is_committed: bool, grace_ms: int = 0) -> list[str]:
        """So many values from the beginning of each partition, and those that come while a grace
        time lasts."""


@contextmanager
def _failing(*errors: type[Exception]) -> Iterator[None]:
    try:
        yield
    except errors as error:
        raise TransactionFailed(f"{type(error).__name__}: {error}") from error


# -- librdkafka ------------------------------------------------------------------------------------


class ConfluentProducer:
    """A producer of confluent-kafka."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._producer = Producer(config)
        with _failing(KafkaException):
            self._producer.init_transactions(DEADLINE_S)

    def begin(self) -> None:
        with _failing(KafkaException):
            self._producer.begin_transaction()

    def send(self, topic: str, partition: int, value: str) -> None:
        errors: list[Any] = []
        with _failing(KafkaException):
            self._producer.produce(
                topic, value, partition=partition, on_delivery=lambda error, _: errors.append(error)
            )
            self._producer.flush(DEADLINE_S)
            if errors != [None]:
                raise KafkaException(*errors)

    def commit(self) -> None:
        with _failing(KafkaException):
            self._producer.commit_transaction(DEADLINE_S)

    def abort(self) -> None:
        with _failing(KafkaException):
            self._producer.abort_transaction(DEADLINE_S)

    def close(self) -> None:
        self._producer.purge()

    def send_offsets(self, offsets: list[TopicPartition], consumer: Consumer) -> None:
        """Make offsets of a consumer's group part of the transaction."""
        with _failing(KafkaException):
            self._producer.send_offsets_to_transaction(
                offsets, consumer.consumer_group_metadata(), DEADLINE_S
            )


class Confluent:
    """confluent-kafka."""

    def __init__(self, bootstrap: str, **security: str) -> None:
        self._config = {"bootstrap.servers": bootstrap, "log_level": 0, **security}

    def producer(self, transactional_id: str, timeout_ms: int = 60_000) -> ConfluentProducer:
        return ConfluentProducer(
            {
                **self._config,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "linger.ms": 0,
            }
        )

    def copy(
        self,
        transactional_id: str,
        group: str,
        source: str,
        target: str,
        count: int,
        *,
        is_commit: bool = True,
    ) -> None:
        producer, consumer = self.producer(transactional_id), self._consumer(group)
        try:
            consumer.subscribe([source])
            producer.begin()
            offsets = []
            for message in _consumed(consumer, count):
                producer.send(target, message.partition(), message.value().decode().upper())
                offsets.append(TopicPartition(source, message.partition(), message.offset() + 1))
            producer.send_offsets(offsets, consumer)
            producer.commit() if is_commit else producer.abort()
        finally:
            consumer.close()

    def read(self, topic: str, count: int, *, is_committed: bool, grace_ms: int = 0) -> list[str]:
        consumer = self._consumer("reads what is assigned", is_committed=is_committed)
        try:
            consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
            found = _consumed(consumer, count)
            found += consumer.consume(1_000, grace_ms / 1_000)
            return [each.value().decode() for each in found]
        finally:
            consumer.close()

    def _consumer(self, group: str, *, is_committed: bool = True) -> Consumer:
        return Consumer(
            {
                **self._config,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 10,
                "isolation.level": _isolation(is_committed=is_committed),
            }
        )


def _isolation(*, is_committed: bool) -> str:
    return "read_committed" if is_committed else "read_uncommitted"


def _consumed(consumer: Consumer, count: int) -> list[Any]:
    found: list[Any] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(found) < count:
        found += [each for each in consumer.consume(count - len(found), 0.1) if not each.error()]
        assert time.monotonic() < deadline, f"{len(found)} of {count} records"
    return found


# -- kafka-python ----------------------------------------------------------------------------------


class PythonProducer:
    """A producer of kafka-python, which raises RuntimeError too."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.producer = KafkaProducer(**config)
        with _failing(Exception):
            self.producer.init_transactions()

    def begin(self) -> None:
        with _failing(Exception):
            self.producer.begin_transaction()

    def send(self, topic: str, partition: int, value: str) -> None:
        with _failing(Exception):
            self.producer.send(topic, value.encode(), partition=partition).get(DEADLINE_S)

    def commit(self) -> None:
        with _failing(Exception):
            self.producer.commit_transaction()

    def abort(self) -> None:
        with _failing(Exception):
            self.producer.abort_transaction()

    def close(self) -> None:
        self.producer.close(timeout=0)


class PythonClient:
    """kafka-python."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def producer(self, transactional_id: str, timeout_ms: int = 60_000) -> PythonProducer:
        return PythonProducer(
            {
                "bootstrap_servers": self._bootstrap,
                "transactional_id": transactional_id,
                "transaction_timeout_ms": timeout_ms,
                "max_block_ms": int(DEADLINE_S * 1_000),
            }
        )

    def copy(
        self,
        transactional_id: str,
        group: str,
        source: str,
        target: str,
        count: int,
        *,
        is_commit: bool = True,
    ) -> None:
        producer, consumer = self.producer(transactional_id), self._consumer(group)
        try:
            consumer.subscribe([source])
            producer.begin()
            offsets = {}
            for record in _polled(consumer, count):
                producer.send(target, record.partition, record.value.decode().upper())
                place = KafkaPartition(source, record.partition)
                offsets[place] = OffsetAndMetadata(record.offset + 1, "", -1)
            with _failing(Exception):
                producer.producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
            producer.commit() if is_commit else producer.abort()
        finally:
            consumer.close()
            producer.close()

    def read(self, topic: str, count: int, *, is_committed: bool, grace_ms: int = 0) -> list[str]:
        consumer = self._consumer(None, is_committed=is_committed)
        try:
            places = [KafkaPartition(topic, number) for number in range(PARTITIONS)]
            consumer.assign(places)
            consumer.seek_to_beginning(*places)
            return [each.value.decode() for each in _polled(consumer, count, grace_ms)]
        finally:
            consumer.close()

    def _consumer(self, group: str | None, *, is_committed: bool = True) -> KafkaConsumer:
        return KafkaConsumer(
            bootstrap_servers=self._bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level=_isolation(is_committed=is_committed),
            fetch_max_wait_ms=10,
        )


def _polled(consumer: KafkaConsumer, count: int, grace_ms: int = 0) -> list[Any]:
    found: list[Any] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(found) < count:
        # A poll that ends while it joins a group forgets the assignment.
        found += [one for some in consumer.poll(timeout_ms=10_000).values() for one in some]
        assert time.monotonic() < deadline, f"{len(found)} of {count} records"
    grace = time.monotonic() + grace_ms / 1_000
    while time.monotonic() < grace:
        found += [one for some in consumer.poll(timeout_ms=20).values() for one in some]
    return found


# -- aiokafka --------------------------------------------------------------------------------------


class AioProducer:
    """A producer of aiokafka, in the loop of its client."""

    def __init__(self, run: Callable[[Coroutine[Any, Any, Any]], Any], **config: Any) -> None:
        self._run = run

        async def make() -> AIOKafkaProducer:
            return AIOKafkaProducer(**config)

        self.producer = run(make())
        self._call(self.producer.start)

    def begin(self) -> None:
        self._call(self.producer.begin_transaction)

    def send(self, topic: str, partition: int, value: str) -> None:
        self._call(self.producer.send_and_wait, topic, value.encode(), partition=partition)

    def send_offsets(self, offsets: dict[AioPartition, int], group: str) -> None:
        """Make offsets part of the transaction."""
        self._call(self.producer.send_offsets_to_transaction, offsets, group)

    def commit(self) -> None:
        self._call(self.producer.commit_transaction)

    def abort(self) -> None:
        self._call(self.producer.abort_transaction)

    def close(self) -> None:
        self._call(self.producer.stop)

    def _call(
        self, work: Callable[..., Coroutine[Any, Any, Any]], *words: Any, **named: Any
    ) -> Any:
        # It asserts too.
        with _failing(Exception):
            return self._run(work(*words, **named))


class AioClient:
    """aiokafka."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._runner = asyncio.Runner()

    def close(self) -> None:
        """Close the loop."""
        self._runner.close()

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        async def with_deadline() -> Any:
            return await asyncio.wait_for(work, DEADLINE_S)

        return self._runner.run(with_deadline())

    def producer(self, transactional_id: str, timeout_ms: int = 60_000) -> AioProducer:
        return AioProducer(
            self._run,
            bootstrap_servers=self._bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
        )

    def copy(
        self,
        transactional_id: str,
        group: str,
        source: str,
        target: str,
        count: int,
        *,
        is_commit: bool = True,
    ) -> None:
        producer = self.producer(transactional_id)
        try:
            producer.begin()
            offsets = {}
            for record in self._run(self._consumed(source, group, count)):
                producer.send(target, record.partition, record.value.decode().upper())
                offsets[AioPartition(source, record.partition)] = record.offset + 1
            producer.send_offsets(offsets, group)
            producer.commit() if is_commit else producer.abort()
        finally:
            producer.close()

    def read(self, topic: str, count: int, *, is_committed: bool, grace_ms: int = 0) -> list[str]:
        work = self._consumed(topic, None, count, is_committed=is_committed, grace_ms=grace_ms)
        return [record.value.decode() for record in self._run(work)]

    async def _consumed(
        self,
        topic: str,
        group: str | None,
        count: int,
        *,
        is_committed: bool = True,
        grace_ms: int = 0,
    ) -> list[Any]:
        found: list[Any] = []
        async with AIOKafkaConsumer(
            topic,
            bootstrap_servers=self._bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level=_isolation(is_committed=is_committed),
            fetch_max_wait_ms=10,
        ) as consumer:
            while len(found) < count:
                for some in (await consumer.getmany(timeout_ms=100)).values():
                    found += some
            for some in (await consumer.getmany(timeout_ms=grace_ms)).values():
                found += some
        return found


# -- programs in other languages -------------------------------------------------------------------


class ProgramProducer:
    """A producer of a program, which keeps it under a name."""

    def __init__(self, program: ClientProgram, name: str) -> None:
        self._program = program
        self._name = name

    def begin(self) -> None:
        self._ask("begin")

    def send(self, topic: str, partition: int, value: str) -> None:
        self._ask("send", topic=topic, partition=partition, value=value)

    def commit(self) -> None:
        self._ask("commit")

    def abort(self) -> None:
        self._ask("abort")

    def close(self) -> None:
        self._ask("close")

    def _ask(self, action: str, **request: object) -> None:
        with _failing(ProgramFailed):
            self._program.ask(action, producer=self._name, **request)


class InProgram:
    """The library of a program."""

    def __init__(self, program: ClientProgram) -> None:
        self._program = program
        self._count = 0

    def producer(self, transactional_id: str, timeout_ms: int = 60_000) -> ProgramProducer:
        self._count += 1
        name = str(self._count)
        how = {"transactional_id": transactional_id, "timeout_ms": timeout_ms}
        with _failing(ProgramFailed):
            self._program.ask("init", producer=name, **how)
        return ProgramProducer(self._program, name)

    def copy(
        self,
        transactional_id: str,
        group: str,
        source: str,
        target: str,
        count: int,
        *,
        is_commit: bool = True,
    ) -> None:
        what = {"group": group, "source": source, "target": target, "count": count}
        how = {"is_commit": is_commit, "is_committed": True}
        with _failing(ProgramFailed):
            self._program.ask("copy", transactional_id=transactional_id, **what, **how)

    def read(self, topic: str, count: int, *, is_committed: bool, grace_ms: int = 0) -> list[str]:
        what = {"topic": topic, "partitions": PARTITIONS, "count": count, "grace_ms": grace_ms}
        read: list[str] = self._program.ask("read", is_committed=is_committed, **what)
        return read
