"""Copiers at work on a cluster whose brokers are killed; see `running_copiers.py`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from cluster.coordinator.shards.partitioner import partition_of
from cluster.model.topics import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from tests.support.recording_producer import Recorder, read_all
from tests.support.running_cluster import Cluster
from tests.support.running_copiers import PYTHON, Copiers
from tests.support.telling_program import Command
from tests.support.topics import controller, create_topic, leader, wait_for_isr
from tests.support.waiting import wait_until

PARTITIONS: Final = 3
GROUP: Final = "copiers"
SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": str(PARTITIONS),
    "transaction.state.log.num.partitions": str(PARTITIONS),
    "min.insync.replicas": "2",
}


class CopierScene:
    """A running cluster with what is copied, and copiers at work."""

    def __init__(self, cluster: Cluster, source: str, target: str, copiers: Copiers) -> None:
        self.cluster = cluster
        self._topics = (source, target)
        self.copiers = copiers
        self.leaders = {
            "the leader of the source": lambda: leader(cluster, source),
            "the leader of the target": lambda: leader(cluster, target, 1),
            "the coordinator of the group": lambda: leader(
                cluster, CONSUMER_OFFSETS_TOPIC, partition_of(GROUP, PARTITIONS)
            ),
            "the coordinator of a transaction": lambda: leader(
                cluster,
                TRANSACTION_STATE_TOPIC,
                partition_of(copiers.all[0].transactional_id, PARTITIONS),
            ),
            "the controller": lambda: controller(cluster),
        }

    def kill(self, role: str) -> None:
        """Kill the broker that has a role by now; returns when copiers go on and it is back."""
        self.cluster.kill(self.leaders[role]())
        self.copiers.wait_for_more()
        for topic in self._topics:
            for partition in range(PARTITIONS):
                wait_for_isr(self.cluster, topic, self.cluster.size, partition)


@contextmanager
def copying(
    cluster: Cluster, *, count: int = 1, program: Command = PYTHON
) -> Iterator[CopierScene]:
    """So many copiers of a topic to which records are written all the time; at the end, each record
    is where the copiers wrote it, once and in order."""
    source, target = (create_topic(cluster, each, partitions=PARTITIONS) for each in "st")
    recorder = Recorder(cluster, source, partitions=PARTITIONS, enable_idempotence=True)
    with Copiers(cluster.bootstrap, GROUP, source, target, count=count, program=program) as copiers:
        with recorder.producing("input", per_second=300):
            copiers.wait_for_more()
            yield CopierScene(cluster, source, target, copiers)
        assert not recorder.failed
        expected = recorder.sent
        total = sum(map(len, expected.values()))

        def copies() -> dict[int, list[bytes]]:
            committed = read_all(cluster, target, PARTITIONS)  # as is librdkafka's default
            return {number: list(found.values()) for number, found in committed.items()}

        wait_until(lambda: sum(map(len, copies().values())) >= total, f"{total} copies")
        assert copies() == expected
