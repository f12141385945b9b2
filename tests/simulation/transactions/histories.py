"""Random histories of transactions: writers, copiers and consumers while all kinds of faults
happen.
"""

from collections.abc import Callable
from typing import Protocol

from cluster.coordinator.groups.requests import FetchOffsets, TopicPartitions
from cluster.coordinator.shards.partitioner import partition_of
from cluster.coordinator.transactions.requests import ListTransactions
from cluster.model.errors import Refused
from cluster.model.ids import TopicPartition
from cluster.model.topics import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.committer import PARTITIONS
from tests.simulation.faults import STEPS, RandomHistory
from tests.simulation.transactions.client_process import LATE_MS, ClientProcess, Script
from tests.simulation.transactions.copying import Copier
from tests.simulation.transactions.ledger import Ledger, Outcome
from tests.simulation.transactions.producing import Over, TransactionalProducer
from tests.simulation.transactions.reading import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Consumer,
    whole_log,
)
from tests.simulation.transactions.verdict import Copied, Observed, check, deliverable
from tests.simulation.transactions.writing import Writer

SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "transaction.state.log.segment.bytes": "3000",
    "request.timeout.ms": "4000",
}
"""Settings of brokers."""
TIMEOUT_MS = 4_000
"""Of transactions."""
_FENCES_MS = LATE_MS + 4_000
"""For so long after it was sent an InitProducerId may fence others."""
_STATE_CONFIGS = {"cleanup.policy": "compact", "segment.bytes": "3000"}
INPUTS = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
OUTPUTS = [TopicPartition("copies", 0), TopicPartition("copies", 1)]


class Work(Protocol):
    """What a process does with its producer."""

    is_stopping: bool
    """Set it, and `run` ends after the current transaction."""

    def run(self) -> Script[None]: ...


class Client:
    """A transactional id, and the processes that have used it; the last one is the current one."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        ledger: Ledger,
        transactional_id: str,
        new_work: Callable[[TransactionalProducer], Work],
        *,
        is_new: bool,
    ) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self.transactional_id = transactional_id
        self._new_work = new_work
        self._is_new = is_new
        self._processes: list[ClientProcess] = []
        self._works: list[Work] = []

    @property
    def process(self) -> ClientProcess | None:
        """The current one."""
        return self._processes[-1] if self._processes else None

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.is_running

    def start(self) -> None:
        """Another process begins, whether the one before runs on or not."""
        number = len(self._processes) + 1
        process = ClientProcess(self._cluster, f"{self.transactional_id}-{number}")
        self._processes.append(process)
        producer = TransactionalProducer(
            process,
            self._ledger,
            self.transactional_id,
            is_new=self._is_new,
            timeout_ms=TIMEOUT_MS,
        )
        work = self._new_work(producer)
        self._works.append(work)
        self._cluster.world.note(f"client {process.name} starts")
        process.start(self._until_over(work, producer))

    def _until_over(self, work: Work, producer: TransactionalProducer) -> Script[None]:
        try:
            yield from work.run()
        except Over as over:
            self._cluster.world.note(f"client {producer.process.name} is over: {over}")
            if over.is_fenced and not self._may_be_fenced(producer):
                raise AssertionError(f"nobody has fenced {producer.process.name}") from over

    def _may_be_fenced(self, producer: TransactionalProducer) -> bool:
        """Whether another process of the id may have fenced it, or a request of its own that
        arrived late, or the timeout of its transaction."""
        now_ms = self._cluster.world.now_ms
        if producer.process is not self.process or now_ms - producer.begun_ms >= TIMEOUT_MS:
            return True
        times = [now_ms if each.is_running else each.ended_ms for each in self._processes[:-1]]
        if producer.doubtful_ms is not None:
            times.append(producer.doubtful_ms)
        return any(now_ms - each < _FENCES_MS for each in times)

    def kill(self) -> None:
        """The current process dies."""
        if self.process is not None:
            self.process.kill()

    def stop(self) -> None:
        """Every process ends after its current transaction."""
        for work in self._works:
            work.is_stopping = True

    def committed_count(self) -> int:
        return sum(
            each.outcome is Outcome.COMMITTED and each.transactional_id == self.transactional_id
            for each in self._ledger.transactions
        )


class TransactionHistory(RandomHistory):
    """Writers and copiers of both protocols, and consumers of both isolation levels."""

    end_limit_ms = 120_000
    """How long anything takes when everything is healed."""
    first_producer_id = 1 << 40  # above those that brokers give away

    def __init__(self, cluster: SimulatedCluster) -> None:
        super().__init__(cluster)
        cluster.world.shared_turns = 0.3
        self.ledger = Ledger()
        self._writers = self._new_writers()
        self._copiers = self._new_copiers()
        self._clients = self._writers + self._copiers
        self._consumers: list[ClientProcess] = []
        self._actions += [
            (6, lambda: self._random.choice(self._clients).kill()),
            (8, lambda: self._random.choice(self._clients).start()),
            (8, self._move_leader),
        ]

    def _client(
        self,
        transactional_id: str,
        new_work: Callable[[TransactionalProducer], Work],
        *,
        is_new: bool,
    ) -> Client:
        return Client(self._cluster, self.ledger, transactional_id, new_work, is_new=is_new)

    def _new_writers(self) -> list[Client]:
        return [
            self._client("writer-old", self._writer, is_new=False),
            self._client("writer-new", self._writer, is_new=True),
        ]

    def _new_copiers(self) -> list[Client]:
        return [
            self._client("copier-old", self._copier(INPUTS, OUTPUTS), is_new=False),
            self._client("copier-new", self._copier(OUTPUTS, INPUTS), is_new=True),
        ]

    def _writer(self, producer: TransactionalProducer) -> Writer:
        return Writer(producer, INPUTS + OUTPUTS)

    def _copier(
        self, sources: list[TopicPartition], targets: list[TopicPartition]
    ) -> Callable[[TransactionalProducer], Copier]:
        return lambda producer: Copier(
            producer, Consumer(producer.process, self.ledger), sources, targets
        )

    def run(self, steps: int = STEPS) -> None:
        """Run a history in which every transaction takes place as a whole or not at all."""
        replicas = min(3, len(self._cluster.brokers))
        for topic in (TRANSACTION_STATE_TOPIC, CONSUMER_OFFSETS_TOPIC):
            assert self._cluster.create_topic(topic, PARTITIONS, replicas, _STATE_CONFIGS)
        assert self._cluster.create_topic("copies", 2, replicas)
        self._begin()
        super().run(steps)
        check(self._observed())

    @property
    def was_answered(self) -> bool:
        """Whether anything was committed."""
        return any(each.outcome is Outcome.COMMITTED for each in self.ledger.transactions)

    def _begin(self) -> None:
        """The topics of the coordinators are there."""

    def _heal(self) -> None:
        super()._heal()
        self._finish()

    def _produce(self) -> None:
        if self._random.random() < 0.2:
            super()._produce()
        if not self._consumers:
            self._start_consumers()
        for client in self._started():
            if not client.is_running and self._random.random() < 0.3:
                client.start()

    def _started(self) -> list[Client]:
        """Those that are to run now."""
        return self._clients

    def _start_consumers(self) -> None:
        for name, isolation in (("committed", READ_COMMITTED), ("anything", READ_UNCOMMITTED)):
            process = ClientProcess(self._cluster, name)
            self._consumers.append(process)
            consumer = Consumer(process, self.ledger, isolation)
            process.start(consumer.run(INPUTS + OUTPUTS))

    def _move_leader(self) -> None:
        """A broker that leads a partition of some kind is stopped cleanly, or crashes."""
        topics = [TRANSACTION_STATE_TOPIC, CONSUMER_OFFSETS_TOPIC, "orders", "copies"]
        partition = TopicPartition(self._random.choice(topics), self._random.randrange(2))
        state = self._cluster.registered_state(partition)
        if state is None or state.leader not in self._cluster.brokers:
            return
        if self._random.random() < 0.3 and self._cluster.brokers[state.leader].is_up:
            self._cluster.stop_cleanly(state.leader)
        else:
            self._cluster.crash_in_turn(state.leader, at_send=self._random.random() < 0.7)

    # The end

    def _finish(self) -> None:
        """Without faults everybody gets on, and no transaction stays open."""
        run_until = self._cluster.world.run_until
        writers, copiers = self._writers, self._copiers
        before = [client.committed_count() for client in writers]

        def have_committed() -> bool:
            self._start_all()
            counts = [client.committed_count() for client in writers]
            return all(now > then for now, then in zip(counts, before, strict=True))

        assert self._within(have_committed), "nothing is committed any more"
        for client in writers:
            client.stop()
        assert run_until(lambda: not any(c.is_running for c in writers), self.end_limit_ms)
        assert self._within(self._is_copied), (
            f"copiers do not come to an end: {self._left_open()}, {self._copied()}"
        )
        for client in copiers:
            client.stop()
        assert run_until(lambda: not any(c.is_running for c in copiers), self.end_limit_ms)
        assert self._within(lambda: not self._left_open()), f"left open: {self._left_open()}"
        assert self._within(self._is_read), "consumers do not get everything"
        for process in self._consumers:
            process.kill()

    def _start_all(self) -> None:
        for client in self._clients:
            if not client.is_running:
                client.start()

    def _within(self, condition: Callable[[], bool]) -> bool:
        for _ in range(self.end_limit_ms // 200):
            if condition():
                return True
            self._cluster.world.run_for(200)
        return False

    def _left_open(self) -> list[str]:
        """The transactions that coordinators have not completed, and partitions with open ones."""
        found = []
        for number in range(PARTITIONS):
            state = TopicPartition(TRANSACTION_STATE_TOPIC, number)
            coordinator = self._cluster.brokers[self._cluster.leader(state)].core.transactions
            led = coordinator.coordinator.led(state)
            if led is None:
                found.append(f"{state} is not led")
            else:
                found += [
                    f"{each.transactional_id}: {each.state.label}"
                    for piece in led.ask(ListTransactions())
                    for each in piece
                    if not each.state.is_idle
                ]
        for partition in INPUTS + OUTPUTS:
            leader = self._cluster.brokers[self._cluster.leader(partition)].table.find(partition)
            if leader is None or leader.last_stable_offset != leader.log.log_end_offset:
                found.append(f"{partition} has an open transaction")
        return found

    def _is_copied(self) -> bool:
        """Whether the copiers have read everything that can be read."""
        for client in self._copiers:
            if not client.is_running:
                client.start()
        return not self._left_open() and all(
            self._last(partition) < offset
            for copied in self._copied()
            for partition, offset in copied.offsets.items()
        )

    def _is_read(self) -> bool:
        delivered = self.ledger.delivered
        return all(
            self._last(partition) < 0
            or delivered["committed", partition][-1:][0].offset == self._last(partition)
            for partition in INPUTS + OUTPUTS
        )

    def _last(self, partition: TopicPartition) -> int:
        """The offset of the last record that a consumer is to get; -1 without one."""
        found = deliverable(whole_log(self._cluster, partition))
        return found[-1].offset if found else -1

    def _copied(self) -> list[Copied]:
        return [
            Copied(
                frozenset({client.transactional_id}),
                self._offsets(f"group of {client.transactional_id}", partitions),
            )
            for client, partitions in zip(self._copiers, (INPUTS, OUTPUTS), strict=True)
        ]

    def _offsets(self, group: str, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        kept_in = TopicPartition(CONSUMER_OFFSETS_TOPIC, partition_of(group, PARTITIONS))
        broker = self._cluster.brokers[self._cluster.leader(kept_in)]
        topics = tuple(TopicPartitions(topic, (number,)) for topic, number in partitions)
        try:
            found = broker.core.groups.coordinator.find(group).ask(FetchOffsets(group, topics))
        except Refused:
            return dict.fromkeys(partitions, 0)
        return {
            TopicPartition(each.topic, each.partition): max(0, each.offset)
            for each in found.offsets
        }

    def _observed(self) -> Observed:
        logs = {each: whole_log(self._cluster, each) for each in INPUTS + OUTPUTS}
        return Observed(self.ledger, logs, self._copied())
