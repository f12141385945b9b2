"""Spark reads what is committed and writes it by its Kafka sink, over kills of it and a leader."""

import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import TopicPartition

from tests.compat import maven_jars
from tests.compat.confluent_records import assigning_consumer
from tests.compat.installing import CACHE, may_install, need_beyond_pypi
from tests.compat.maven_jars import dependency
from tests.compat.transaction_clients import PARTITIONS, Confluent
from tests.support.copier_scenes import SETTINGS
from tests.support.recording_producer import read_all
from tests.support.running_cluster import Cluster
from tests.support.spark import need_spark
from tests.support.telling_program import TellingProgram
from tests.support.topics import create_topic, leader
from tests.support.waiting import wait_until

need_spark()

pytestmark = [
    pytest.mark.compat,
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.beyond_pypi,
]

CONNECTOR: Final = "4.2.0"  # works with later PySparks too, and is in more repositories than those
_PROGRAM: Final = Path(__file__).with_name("spark_copier.py")
_NEEDED: Final = [f"spark-sql-kafka-0-10_2.13-{CONNECTOR}.jar"]
_FETCH_S: Final = 300.0
_COPIED_S: Final = 240.0
"""A start of Spark takes a minute on a machine that is busy with other work."""
_EXCLUDED: Final = [  # PySpark has these itself
    ("org.apache.hadoop", "*"),
    ("org.scala-lang", "*"),
    ("org.slf4j", "*"),
]


@functools.cache
def connector_jars() -> tuple[list[Path], str]:
    """Spark's connector of Kafka, fetched at most once; or none, and the reason."""
    directory, problem = CACHE / f"spark-kafka-{CONNECTOR}", ""
    if maven_jars.class_path(directory, _NEEDED) is None:
        problem = "no connector of Spark; MILENA_TEST_INSTALL=1 fetches it"
        if may_install():
            name = "spark-sql-kafka-0-10_2.13"
            wanted = dependency("org.apache.spark", name, CONNECTOR, *_EXCLUDED)
            problem = maven_jars.fetch(directory, [wanted], _NEEDED, _FETCH_S)
    return sorted((directory / "jars").glob("*.jar")), problem


def test_committed_records_are_copied_over_kills_of_spark_and_of_a_leader(
    new_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    need_beyond_pypi("Spark's connector of Kafka")
    jars, problem = connector_jars()
    if problem:
        pytest.skip(problem)
    cluster = new_cluster(overrides=SETTINGS).start()
    source, target = (create_topic(cluster, each, partitions=PARTITIONS) for each in "st")
    options = {
        "jars": ",".join(map(str, jars)),
        "bootstrap": cluster.bootstrap,
        "source": source,
        "target": target,
        "checkpoint": str(tmp_path / "checkpoint"),
    }
    writer = Confluent(cluster.bootstrap).producer("writer")
    expected: set[bytes] = set()

    def write(name: str, *, is_commit: bool = True) -> None:
        writer.begin()
        for number in range(30):
            writer.send(source, number % PARTITIONS, f"{name} {number}")
        if is_commit:
            writer.commit()
            expected.update(f"{name} {number}".upper().encode() for number in range(30))
        else:
            writer.abort()

    def copies() -> set[bytes]:
        found = read_all(cluster, target, PARTITIONS)
        return {value for records in found.values() for value in records.values()}

    seen: set[bytes] = set()

    def is_copied() -> bool:
        for message in reader.consume(1_000, 0.5):
            if message.error() is None:  # else it is an end, or a broker that is gone
                value = message.value()
                assert isinstance(value, bytes)
                seen.add(value)
        return expected <= seen

    def wait_until_copied() -> None:
        try:
            wait_until(is_copied, "the copies", _COPIED_S)
        except AssertionError as late:
            raise AssertionError(f"{late}\n{copier.complaint()}") from None

    with (
        TellingProgram([sys.executable, _PROGRAM, json.dumps(options)]) as copier,
        assigning_consumer(cluster.bootstrap, fetch_wait_max_ms=500) as reader,
    ):
        reader.assign([TopicPartition(target, number, 0) for number in range(PARTITIONS)])
        write("first")
        write("aborted", is_commit=False)
        wait_until_copied()
        write("before the kill of a leader")
        cluster.kill(leader(cluster, target))
        write("after it")
        wait_until_copied()
        write("before the kill of Spark")
        copier.kill_and_start()
        write("aborted again", is_commit=False)
        write("after both")
        wait_until_copied()
    assert copies() == expected
