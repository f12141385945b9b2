"""Producers with a transactional id fail at once, with a reason: there are no transactions."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from kafka import KafkaProducer
from kafka.errors import KafkaError as PythonError

from cluster.brokers.handlers.find_coordinator import NO_TRANSACTIONS
from tests.compat.client_programs import ClientProgram, ProgramFailed, RunningProgram, go_programs
from tests.compat.kafka_jvm import NEWEST, VERSION
from tests.compat.kafka_process import run_program
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic

pytestmark = [pytest.mark.compat, pytest.mark.slow]

PATIENCE_S = 60.0
"""How long each client would try; it gives up in a fraction of that."""


@contextmanager
def at_once() -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < PATIENCE_S / 2


def test_librdkafka_has_a_fatal_error_that_says_why(cluster: Cluster) -> None:
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": "payments", "log_level": 0}
    )
    with at_once(), pytest.raises(KafkaException) as failed:
        producer.init_transactions(PATIENCE_S)
    error: KafkaError = failed.value.args[0]
    assert error.fatal()
    assert NO_TRANSACTIONS in error.str()


def test_kafka_python_names_the_error(cluster: Cluster) -> None:
    with (
        closing(
            KafkaProducer(
                bootstrap_servers=cluster.bootstrap,
                transactional_id="payments",
                max_block_ms=int(PATIENCE_S * 1_000),
            )
        ) as producer,
        at_once(),
        pytest.raises(PythonError, match="UnsupportedVersion"),
    ):
        producer.init_transactions()


@pytest.mark.beyond_pypi
@pytest.mark.parametrize("library", ["franz-go", "sarama"])
def test_clients_in_go_name_the_error(cluster: Cluster, library: str) -> None:
    topic = create_topic(cluster)
    with closing(RunningProgram([go_programs() / "go_clients"])) as process:
        client = ClientProgram(process, cluster.bootstrap, library=library)
        with at_once(), pytest.raises(ProgramFailed, match="version of API is not supported"):
            client.ask("transaction", topic=topic)


@pytest.mark.beyond_pypi
@pytest.mark.parametrize("version", [VERSION, NEWEST])
def test_java_says_why(cluster: Cluster, version: str) -> None:
    ms, told = run_program("Transactions", cluster.bootstrap, version=version).split(" ", 1)
    assert "KafkaException" in told
    assert NO_TRANSACTIONS in told
    assert int(ms) < PATIENCE_S * 1_000 / 2
