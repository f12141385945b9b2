"""Single failure scenarios of transactions: known hard ones, and ones found by random seeds."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.model.ids import TopicPartition
from cluster.model.topics import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.transactions.client_process import ClientProcess, Script
from tests.simulation.transactions.histories import SETTINGS
from tests.simulation.transactions.ledger import Ledger, Transaction
from tests.simulation.transactions.producing import TransactionalProducer
from tests.simulation.transactions.reading import whole_log
from tests.simulation.transactions.verdict import Observed, check, deliverable

pytestmark = pytest.mark.simulation
FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
TIMEOUT_MS = 5_000
COORDINATOR = 1
REPLICAS = {
    TRANSACTION_STATE_TOPIC: {0: (1, 2, 0), 1: (1, 2, 0)},
    CONSUMER_OFFSETS_TOPIC: {0: (2, 3, 4), 1: (3, 2, 4)},
    "orders": {0: (3, 4, 2), 1: (2, 3, 4)},
}
"""The preferred leader comes first."""


class Stage:
    """A cluster with the topics `orders` and those of the coordinators, and one producer."""

    def __init__(self, cluster: SimulatedCluster, *, is_new: bool) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.ledger = Ledger()
        self.process = ClientProcess(cluster, "producer")
        self.producer = self.another(self.process, is_new=is_new)
        self._value_count = 0

    def another(self, process: ClientProcess, *, is_new: bool) -> TransactionalProducer:
        """Another producer of the same transactional id."""
        return TransactionalProducer(
            process, self.ledger, "id", is_new=is_new, timeout_ms=TIMEOUT_MS
        )

    def begin(self, script: Script[Any]) -> None:
        """Start a script of the producer."""
        self.process.start(script)

    def do(self, script: Script[Any], limit_ms: int = 10_000) -> None:
        """Run a script of the producer to its end."""
        self.begin(script)
        assert self.world.run_until(lambda: not self.process.is_running, limit_ms)

    def write(self, transaction: Transaction, *partitions: TopicPartition) -> None:
        """One record to each partition, acknowledged."""
        values = {}
        for partition in partitions:
            self._value_count += 1
            values[partition] = [b"value %d" % self._value_count]
        self.do(self.producer.write(transaction, values))

    def lead(self, partition: TopicPartition, number: int) -> None:
        """Make a broker the leader of a partition, by its preferred replica."""
        assert self.cluster.assignment[partition][0] == number
        self.cluster.elect_leaders([partition])
        assert self.world.run_until(lambda: self.cluster.leader(partition) == number, 5_000)

    def leads(self, number: int, partition: TopicPartition) -> bool:
        """Whether a broker itself knows that it leads."""
        replica = self.cluster.brokers[number].table.find(partition)
        return replica is not None and replica.leader is not None

    def committed(self, partition: TopicPartition) -> list[bytes]:
        return [each.value for each in deliverable(whole_log(self.cluster, partition))]

    def settle(self) -> None:
        """Let everything end, and judge it."""
        self.cluster.heal()
        self.world.run_for(TIMEOUT_MS + 5_000)
        self.cluster.elect_leaders()
        self.cluster.settle()
        logs = {each: whole_log(self.cluster, each) for each in (FIRST, SECOND)}
        check(Observed(self.ledger, logs))


@pytest.fixture
def new_stage(tmp_path: Path) -> Iterator[Callable[..., Stage]]:
    clusters: list[SimulatedCluster] = []

    def make(seed: int = 1, *, is_new: bool = False, **settings: Any) -> Stage:
        cluster = SimulatedCluster(
            seed,
            tmp_path,
            broker_count=5,
            overrides=SETTINGS | {"auto.leader.rebalance.enable": "false"},
            **settings,
        )
        clusters.append(cluster.__enter__())
        for topic, replicas in REPLICAS.items():
            assert cluster.create_topic(topic, -1, -1, assignment=replicas)
        cluster.settle()
        stage = Stage(cluster, is_new=is_new)
        stage.do(stage.producer.initialize())
        return stage

    yield make
    for cluster in clusters:
        cluster.__exit__(None, None, None)


@pytest.mark.parametrize("is_new", [False, True])
def test_a_marker_that_was_held_up_ends_no_later_transaction(
    new_stage: Callable[..., Stage], is_new: bool
) -> None:
    """It comes after another one was written by the next leader, and the first one leads again."""
    stage = new_stage(is_new=is_new)
    cluster, world, producer = stage.cluster, stage.world, stage.producer
    assert cluster.controller.id != COORDINATOR
    preferred, leader, _ = REPLICAS["orders"][0]
    cluster.crash(preferred)
    assert world.run_until(lambda: cluster.leader(FIRST) == leader, 5_000)
    cluster.start(preferred)
    world.run_for(3_000)

    transaction = producer.begin()
    stage.write(transaction, FIRST)
    cluster.separate(COORDINATOR, leader)
    stage.do(producer.end(transaction, is_commit=True))
    world.run_for(50)
    stage.lead(FIRST, preferred)
    world.run_for(15_000)  # the marker is sent again, to the next leader
    assert stage.committed(FIRST) == [b"value 1"]

    transaction = producer.begin()
    stage.write(transaction, FIRST)
    cluster.crash(preferred)
    assert world.run_until(lambda: stage.leads(leader, FIRST), 5_000)
    cluster.join(COORDINATOR, leader, breaks=False)
    world.run_for(1_000)
    assert stage.committed(FIRST) == [b"value 1"]
    stage.do(producer.abort(transaction, is_broken=False))
    stage.settle()
