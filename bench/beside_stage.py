"""A running system with what loads need to measure it, and what a load is."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from bench.beside_systems import System, cpu_s
from bench.beside_table import Figure
from bench.broker import produce_frame
from bench.foreign_clients import JavaTools
from bench.raw_client import Problem, RawConnection, send_many
from cluster.runtime.interrupts import deferred_interrupt
from tests.compat.debian_packages import Program
from tests.support.running_cluster import Address

ACKS_ALL: Final = -1
_ANSWER_S: Final = 60.0
_BATCH_BYTES: Final = 100_000
_BATCHES_IN_FLIGHT: Final = 4


class Sizes(NamedTuple):
    """How much of everything, and for how long."""

    settle_s: float = 6.0
    idle_s: float = 10.0
    warm_requests: int = 40_000
    """Of each kind, before anything but start and idleness is measured."""
    warm_most_s: float = 20.0
    """The end of warming up a system that takes longer than that for so many."""
    raw_s: float = 2.0
    """Of each way to drive raw connections, after half as long without measuring."""
    java_all_mb: int = 100
    java_one_mb: int = 150
    java_small_mb: int = 40
    """Of records of 100 bytes."""
    large_mb: int = 400
    codec_mb: int = 150
    read_mb: int = 300
    end_to_end: int = 2_000
    """Records, one at a time."""
    partitions: int = 2_000
    warm_transactions_s: float = 3.0
    """Of each kind of transaction."""
    uncounted_s: float = 1.5
    """A transactional client is at work before it is measured."""
    transactions_s: float = 2.0
    transform_records: int = 600_000
    transactional_mb: int = 150
    open_ids: int = 10_000
    loaded_ids: int = 100_000
    disk_gb: float = 10.0
    """The room that all this takes, three replicas included."""


QUICK: Final = Sizes(
    settle_s=0.5,
    idle_s=1.0,
    warm_requests=2_000,
    warm_most_s=2.0,
    raw_s=0.3,
    java_all_mb=8,
    java_one_mb=8,
    java_small_mb=4,
    large_mb=20,
    codec_mb=10,
    read_mb=20,
    end_to_end=200,
    partitions=100,
    warm_transactions_s=0.5,
    uncounted_s=0.5,
    transactions_s=1.0,
    transform_records=100_000,
    transactional_mb=20,
    open_ids=200,
    loaded_ids=1_000,
    disk_gb=3.0,
)
"""To try it: the figures mean nothing, because Java is cold and programs have hardly begun."""


class Programs(NamedTuple):
    """The clients that are programs of their own."""

    java: JavaTools
    kcat: Program | None
    has_java_compiler: bool


class Stage:
    """One running system, warmed up or not, and its topics."""

    def __init__(self, system: System, sizes: Sizes, programs: Programs, start_s: float) -> None:
        self.system = system
        self.sizes = sizes
        self.programs = programs
        self.start_s = start_s
        """How long the system took to start."""
        self.brokers = len(system.addresses)
        self.bootstrap = ",".join(f"{host}:{port}" for host, port in system.addresses)
        self.kept: dict[str, Any] = {}
        """What loads share."""
        self._topics = 0
        self._filled: dict[int, tuple[str, int]] = {}
        with deferred_interrupt():
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    # -- topics ------------------------------------------------------------------------------------

    def create_topic(self, partitions: int = 1, name: str | None = None) -> str:
        """Create a topic with a replica on every broker."""
        self._topics += 1
        name = name or f"bench-{self._topics}"
        configs = {"min.insync.replicas": str(min(2, self.brokers))}
        topic = NewTopic(name, partitions, self.brokers, config=configs)
        deadline = time.monotonic() + _ANSWER_S
        while True:
            future = self._admin.create_topics([topic], request_timeout=_ANSWER_S)[name]
            try:
                future.result(_ANSWER_S)
            except KafkaException as problem:
                code = problem.args[0].code()
                if code != KafkaError.NOT_CONTROLLER or time.monotonic() > deadline:
                    raise
                self._admin.list_topics(timeout=_ANSWER_S)  # which tells librdkafka the new one
            else:
                return name

    def leaders(self, topic: str) -> list[Address]:
        """The address of each partition's leader, by the number of the partition."""
        deadline = time.monotonic() + _ANSWER_S
        while True:
            metadata = self._admin.list_topics(topic, timeout=_ANSWER_S)
            partitions: dict[int, Any] = metadata.topics[topic].partitions
            known: dict[int, Any] = metadata.brokers
            if partitions and all(each.leader in known for each in partitions.values()):
                found = [known[partitions[number].leader] for number in sorted(partitions)]
                return [(broker.host, broker.port) for broker in found]
            if time.monotonic() > deadline:
                raise Problem(f"{topic} has partitions without a leader")
            time.sleep(0.05)

    @contextmanager
    def connections(self, topic: str, count: int, acks: int) -> Iterator[list[RawConnection]]:
        """Raw connections to the leaders of a topic's partitions, in turns."""
        leaders = self.leaders(topic)
        with ExitStack() as opened:
            made = []
            for number in range(count):
                partition = number % len(leaders)
                frame = produce_frame(topic, acks, partition)
                connection = RawConnection(leaders[partition], topic, frame)
                made.append(opened.enter_context(connection))
            yield made

    def filled_topic(self, record_bytes: int, megabytes: int) -> tuple[str, int]:
        """A topic of one partition with so much data, and how many records that is."""
        if record_bytes not in self._filled:
            per_batch = _BATCH_BYTES // record_bytes
            count = max(1, megabytes * 1_000_000 // (per_batch * record_bytes))
            topic = self.create_topic()
            self.fill(topic, count * per_batch, record_bytes)
            self._filled[record_bytes] = topic, count * per_batch
        return self._filled[record_bytes]

    def fill(self, topic: str, records: int, record_bytes: int) -> None:
        """Write so many records, or some more, in equal parts to all partitions of a topic."""
        per_batch = _BATCH_BYTES // record_bytes
        leaders = self.leaders(topic)
        count = -(-records // (per_batch * len(leaders)))
        for partition, leader in enumerate(leaders):
            frame = produce_frame(topic, ACKS_ALL, partition, [b"x" * record_bytes] * per_batch)
            with RawConnection(leader, topic, frame) as connection:
                send_many(connection, count, _BATCHES_IN_FLIGHT)  # one more was sent by connecting

    def catch_up(self, topic: str) -> None:
        """Wait until followers have what was acknowledged by leaders alone."""
        for partition, leader in enumerate(self.leaders(topic)):
            RawConnection(leader, topic, produce_frame(topic, ACKS_ALL, partition)).socket.close()

    # -- costs -------------------------------------------------------------------------------------

    def cpu_of(self, act: Callable[[], Any]) -> tuple[Any, float]:
        """What a function returns, and the CPU time of all processes meanwhile, in seconds."""
        before = cpu_s(self.system)
        outcome = act()
        return outcome, cpu_s(self.system) - before


Values = Sequence[float | None]
"""A value of each figure of a load; None where it could not be measured."""


class Load(NamedTuple):
    """Something that is done to a running system, and the figures that it gives."""

    brokers: int
    """Of the cluster, which has as many replicas."""
    name: str
    figures: Sequence[Figure]
    run: Callable[[Stage], Values]
    is_cold: bool = False
    """Measured before the system is warmed up."""

    def row_names(self) -> Iterator[tuple[str, Figure]]:
        """The name of each row."""
        for figure in self.figures:
            yield f"{self.name}: {figure.name}" if figure.name else self.name, figure


def values_mb(values: Sequence[bytes], records: int) -> float:
    """The size of so many records that repeat these values, in MB."""
    return records * sum(map(len, values)) / len(values) / 1e6
