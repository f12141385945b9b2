"""Kafka Streams: counts, a join and sums with state, over kills of applications and brokers."""

import json
import random
import struct
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import KafkaError, Producer, TopicPartition

from tests.compat.confluent_records import TIMEOUT_S, assigning_consumer
from tests.compat.kafka_applications import require_applications
from tests.compat.kafka_process import compiled, java_command
from tests.support.copier_scenes import SETTINGS
from tests.support.running_cluster import Cluster
from tests.support.telling_program import TellingProgram
from tests.support.topics import create_topic, leader, wait_for_isr
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.beyond_pypi]

PARTITIONS: Final = 3
CUSTOMERS: Final = 20
REGIONS: Final = 4
TURN_S: Final = 0.02
APPLICATION: Final = "sales"
Results = dict[str, list[int]]
"""The values of each key, oldest first."""


class Application(TellingProgram):
    """One instance of the application."""

    def __init__(self, command: list[str], cluster: Cluster, state: Path, guarantee: str) -> None:
        serdes = "org.apache.kafka.common.serialization.Serdes"
        settings = {
            "bootstrap.servers": cluster.bootstrap,
            "application.id": APPLICATION,
            "processing.guarantee": guarantee,
            "state.dir": str(state),
            "num.stream.threads": "2",
            "statestore.cache.max.bytes": "0",
            "commit.interval.ms": "100",
            "consumer.session.timeout.ms": "6000",
            "consumer.heartbeat.interval.ms": "500",
            "consumer.auto.offset.reset": "earliest",
            "default.key.serde": f"{serdes}$StringSerde",
            "default.value.serde": f"{serdes}$LongSerde",
        }
        super().__init__([*command, json.dumps({"settings": settings})])

    @property
    def is_running(self) -> bool:
        """Whether it says that it processes records."""
        states = self.of_kind("state")
        return bool(states) and states[-1]["state"] == "RUNNING"


class Inputs:
    """Writes lines and orders, and knows the results that they must have."""

    def __init__(self, cluster: Cluster) -> None:
        self.lines: Counter[str] = Counter()
        self.sold: dict[str, list[int]] = defaultdict(list)
        self._random = random.Random(1)
        self._failed: list[KafkaError] = []
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "log_level": 0,
                "partitioner": "murmur2_random",  # as Kafka Streams has it
            }
        )
        for customer in range(CUSTOMERS):
            self._put("customers", f"region {customer % REGIONS}", f"customer-{customer}")
        self._producer.flush(TIMEOUT_S)

    def _put(self, topic: str, value: str, key: str | None = None) -> None:
        self._producer.produce(topic, value, key, on_delivery=self._on_delivery)
        self._producer.poll(0)

    def _on_delivery(self, error: KafkaError | None, _message: object) -> None:
        if error is not None:
            self._failed.append(error)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Write in the background until the block ends, and wait until all is acknowledged."""
        stop = threading.Event()
        thread = threading.Thread(target=self._write_until, args=(stop,))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
        assert self._producer.flush(TIMEOUT_S) == 0
        assert self._failed == []

    def _write_until(self, stop: threading.Event) -> None:
        while not stop.wait(TURN_S):
            words = self._random.choices("abcdefgh", k=3)
            self.lines.update(words)
            self._put("lines", " ".join(words))
            customer, amount = self._random.randrange(CUSTOMERS), self._random.randrange(10)
            self.sold[f"region {customer % REGIONS}"].append(amount)
            self._put("orders", f"customer-{customer} {amount}")


def results(cluster: Cluster, topic: str) -> Results:
    """Everything in a topic of results that is committed."""
    found: Results = defaultdict(list)
    at_end = 0
    with assigning_consumer(cluster.bootstrap, isolation_level="read_committed") as consumer:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        while at_end < PARTITIONS:
            message: Any = consumer.poll(TIMEOUT_S)
            assert message is not None, f"nothing more of {topic}"
            if message.error() is None:
                found[message.key().decode()] += struct.unpack(">q", message.value())
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                at_end += 1
    return found


def counted(cluster: Cluster, topic: str) -> int:
    """The number of results."""
    return sum(map(len, results(cluster, topic).values()))


class Scene:
    """A running cluster with instances of the application, and inputs that are written."""

    def __init__(self, cluster: Cluster, instances: list[Application]) -> None:
        self._cluster = cluster
        self.instances = instances

    def wait_for_more(self) -> None:
        """Until there are more results of both kinds."""
        wanted = {topic: counted(self._cluster, topic) + 50 for topic in ("counts", "totals")}
        try:
            for topic, count in wanted.items():
                wait_until(lambda t=topic, c=count: counted(self._cluster, t) >= c, topic)
        except AssertionError as late:
            told = "\n".join(each.complaint() for each in self.instances)
            raise AssertionError(f"{late}\n{told}") from None

    def kill_leader(self, topic: str) -> None:
        """Kill the leader of a topic's partition 0; returns when results go on and it is back."""
        self._cluster.kill(leader(self._cluster, topic))
        self.wait_for_more()
        wait_for_isr(self._cluster, topic, self._cluster.size)

    def kill_instance(self, number: int) -> None:
        """Kill an instance and start it; returns when results go on."""
        self.instances[number].kill_and_start()
        self.wait_for_more()


@contextmanager
def selling(
    cluster: Cluster, directory: Path, guarantee: str, instances: int
) -> Iterator[tuple[Scene, Inputs]]:
    """So many instances at work; at the end, all inputs are processed at least once."""
    jars = require_applications()
    classes = compiled("StreamsApplication", directory, jars=jars)
    command = [*java_command(classes, jars=jars), "StreamsApplication"]
    for topic in ("lines", "counts", "orders", "customers", "totals"):
        create_topic(cluster, topic, partitions=PARTITIONS)
    inputs = Inputs(cluster)
    with ExitStack() as running:
        started = [
            running.enter_context(
                Application(command, cluster, directory / f"state-{number}", guarantee)
            )
            for number in range(instances)
        ]
        scene = Scene(cluster, started)
        with inputs.writing():
            wait_until(lambda: any(each.is_running for each in started), "an instance to run")
            scene.wait_for_more()
            yield scene, inputs

        def is_done() -> bool:
            counts, totals = results(cluster, "counts"), results(cluster, "totals")
            return all(max(counts[word], default=0) >= n for word, n in inputs.lines.items()) and (
                all(max(totals[place], default=0) >= sum(n) for place, n in inputs.sold.items())
            )

        wait_until(is_done, "all results")


def test_each_input_counts_once_over_kills_under_exactly_once(
    new_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    cluster = new_cluster(overrides=SETTINGS).start()
    with selling(cluster, tmp_path, "exactly_once_v2", instances=2) as (scene, inputs):
        scene.kill_instance(0)
        scene.kill_leader(f"{APPLICATION}-counts-changelog")
        scene.kill_instance(1)
        scene.kill_leader(f"{APPLICATION}-sold-repartition")
    counts, totals = results(cluster, "counts"), results(cluster, "totals")
    assert counts == {word: list(range(1, n + 1)) for word, n in inputs.lines.items()}
    assert {place: len(sums) for place, sums in totals.items()} == {
        place: len(amounts) for place, amounts in inputs.sold.items()
    }
    assert {place: sums[-1] for place, sums in totals.items()} == {
        place: sum(amounts) for place, amounts in inputs.sold.items()
    }


def test_no_input_is_lost_over_a_kill_under_at_least_once(
    new_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    cluster = new_cluster(overrides=SETTINGS).start()
    with selling(cluster, tmp_path, "at_least_once", instances=1) as (scene, inputs):
        scene.kill_instance(0)
    counts = results(cluster, "counts")
    assert sum(counts[word][-1] for word in inputs.lines) >= inputs.lines.total()
