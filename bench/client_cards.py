"""The table of docs/clients.md: what clients do about throttle times, by `quotas client-check`.

Clients are those that tests/compat drives; what is missing is left out and named.

PYTHONPATH=. .venv/bin/python -P -m bench.client_cards [CLIENT ...]       the table, on stdout

Takes some ten seconds per row. MILENA_TEST_INSTALL=1 fetches what is missing (Go, npm, Maven).
"""

import asyncio
import base64
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from cluster.tools.quotas.client_check import MARKDOWN_HEADING
from tests.compat import kafka_jvm
from tests.compat.client_programs import RunningProgram, go_programs, javascript_programs
from tests.compat.installing import may_install

_ROOT: Final = Path(__file__).parents[1]
_RUN_S: Final = 6.0
_PER_SECOND: Final = 80
_RECORD: Final = b"x" * 1_024
_RECORDS: Final = 2_000
_CONSUMED_ENOUGH: Final = 1_500
_SECONDS_MAX: Final = 40

Client = Callable[[str, str, str], None]
"""Is given what to do (`produce` or `fetch`), bootstrap servers and topic."""

PRODUCE: Final = "produce"
FETCH: Final = "fetch"

# -- the clients, each a function that produces or fetches under a quota ---------------------------


def confluent(kind: str, bootstrap: str, topic: str) -> None:
    """librdkafka by confluent-kafka."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    if kind == PRODUCE:
        producer = Producer({"bootstrap.servers": bootstrap, "batch.num.messages": 10})
        for _ in paced():
            producer.produce(topic, _RECORD)
            producer.poll(0)
        producer.flush(20)
        return
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "card", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    left, end = _CONSUMED_ENOUGH, time.monotonic() + 2 * _RUN_S
    while left > 0 and time.monotonic() < end:
        left -= len(consumer.consume(100, 0.1))
    consumer.close()


def kafka_python(kind: str, bootstrap: str, topic: str) -> None:
    """kafka-python."""
    from kafka import KafkaConsumer, KafkaProducer

    if kind == PRODUCE:
        producer = KafkaProducer(bootstrap_servers=bootstrap, batch_size=10_240)
        for _ in paced():
            producer.send(topic, _RECORD)
        producer.flush(20)
        producer.close()
        return
    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=None, auto_offset_reset="earliest"
    )
    for _ in range(_CONSUMED_ENOUGH):
        next(consumer)
    consumer.close()


def aiokafka(kind: str, bootstrap: str, topic: str) -> None:
    """aiokafka."""
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    async def exchange() -> None:
        if kind == PRODUCE:
            producer = AIOKafkaProducer(bootstrap_servers=bootstrap, max_batch_size=10_240)
            await producer.start()
            sent = []
            for _ in range(int(_PER_SECOND * _RUN_S)):
                sent.append(await producer.send(topic, _RECORD))
                await asyncio.sleep(1 / _PER_SECOND)
            await asyncio.wait(sent, timeout=20)
            await producer.stop()
            return
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest"
        )
        await consumer.start()
        for _ in range(_CONSUMED_ENOUGH):
            await consumer.getone()
        await consumer.stop()

    asyncio.run(exchange())


def program(command: list[str | Path], **always: object) -> Client:
    """One of the programs of tests/compat that take requests as lines of JSON."""

    def exchange(kind: str, bootstrap: str, topic: str) -> None:
        records = [
            {
                **{"partition": 0, "key": None, "headers": []},
                "value": base64.b64encode(_RECORD).decode(),
                "timestamp_ms": int(time.time() * 1_000),
            }
        ] * int(_PER_SECOND * _RUN_S)
        request: dict[str, Any] = {
            "bootstrap": bootstrap.split(","),
            "topic": topic,
            "partitions": 1,
            **always,
        }
        with closing(RunningProgram(command)) as process:
            if kind == FETCH:
                process.write_line({**request, "action": "consume", "batch_bytes": 51_200})
            else:
                process.write_line(
                    {
                        **request,
                        **{"action": "produce", "records": records, "batch_bytes": 10_240},
                        **{"compression": "none", "acks": "all", "idempotent": False},
                    }
                )
            process.read_line(time.monotonic() + _SECONDS_MAX)

    return exchange


_KAFKAJS_CONSUMER: Final = """
import kafkajs from "kafkajs";
const [bootstrap, topic, count] = process.argv.slice(1);
const kafka = new kafkajs.Kafka({ brokers: [bootstrap], logLevel: kafkajs.logLevel.ERROR });
const consumer = kafka.consumer({ groupId: "card" });
await consumer.connect();
await consumer.subscribe({ topics: [topic], fromBeginning: true });
let left = Number(count);
const leave = async () => {
  await consumer.disconnect();
  process.exit(0);
};
await consumer.run({
  eachMessage: async () => {
    left -= 1;
    if (left === 0) setTimeout(leave, 0);
  },
});
"""


def kafkajs(directory: Path) -> Client:
    """kafkajs, which is installed in that directory."""
    produces = program(["node", directory / "kafkajs_client.mjs"], one_by_one=True)

    def exchange(kind: str, bootstrap: str, topic: str) -> None:
        if kind == PRODUCE:
            produces(kind, bootstrap, topic)
            return
        words = ["node", "--input-type=module", "-e", _KAFKAJS_CONSUMER]
        words += [bootstrap, topic, str(_CONSUMED_ENOUGH)]
        subprocess.run(words, check=True, cwd=directory, stdout=sys.stderr)

    return exchange


def java(version: str) -> Client:
    """The Java client, in the hands of Kafka's own tools of that version."""

    def exchange(kind: str, bootstrap: str, topic: str) -> None:
        jars = kafka_jvm.class_path(version)
        words = [
            *("java", "-Xmx256m", "-cp", str(jars)),
            *("-Dorg.slf4j.simpleLogger.defaultLogLevel=error",),
        ]
        if kind == PRODUCE:
            words += [
                "org.apache.kafka.tools.ProducerPerformance",
                *("--topic", topic, "--num-records", str(int(_PER_SECOND * _RUN_S))),
                *("--record-size", "1024", "--throughput", str(_PER_SECOND), "--producer-props"),
                *(f"bootstrap.servers={bootstrap}", "batch.size=10240"),
            ]
        else:
            words += [
                "org.apache.kafka.tools.ConsumerPerformance",
                *("--bootstrap-server", bootstrap, "--topic", topic),
                *("--messages", str(_CONSUMED_ENOUGH), "--timeout", "20000"),
            ]
        subprocess.run(words, check=True, stdout=sys.stderr)

    return exchange


def paced() -> Iterator[int]:
    """Numbers for `_RUN_S`, `_PER_SECOND` of them a second."""
    began = time.monotonic()
    for number in range(int(_PER_SECOND * _RUN_S)):
        yield number
        time.sleep(max(0.0, began + (number + 1) / _PER_SECOND - time.monotonic()))


def clients() -> dict[str, Callable[[], Client]]:
    """By name: makes what it needs, and gives the client. Skips where that is missing."""
    return {
        "confluent-kafka": lambda: confluent,
        "kafka-python": lambda: kafka_python,
        "aiokafka": lambda: aiokafka,
        "franz-go": lambda: program([go_programs() / "go_clients"], library="franz-go"),
        "sarama": lambda: program([go_programs() / "go_clients"], library="sarama"),
        "kafkajs": lambda: kafkajs(javascript_programs()),
        f"Java {kafka_jvm.VERSION}": lambda: _java_of(kafka_jvm.VERSION),
        f"Java {kafka_jvm.NEWEST}": lambda: _java_of(kafka_jvm.NEWEST),
    }


def _java_of(version: str) -> Client:
    if kafka_jvm.class_path(version) is None:
        problem = kafka_jvm.fetch(version=version) if may_install() else "it may not be fetched"
        if problem:
            pytest.skip(f"Kafka {version} is not here: {problem}")
    return java(version)


# -- the table -------------------------------------------------------------------------------------

_LIMITS: Final = {PRODUCE: "50KB", FETCH: "100KB"}


def rows(name: str) -> list[str]:
    """The rows of one client, one for what it produces and one for what it fetches."""
    told = []
    for kind in (PRODUCE, FETCH):
        done = subprocess.run(
            [
                *(sys.executable, "-P", "-m", "cluster", "quotas", "client-check"),
                *("--timeout", str(_SECONDS_MAX), "--limit", _LIMITS[kind], "--markdown", name),
                *("--records", str(_RECORDS if kind == FETCH else 0), "--"),
                *(sys.executable, "-P", "-m", "bench.client_cards", "--run", name, kind),
                *("{bootstrap}", "{topic}"),
            ],
            env={**os.environ, "PYTHONPATH": str(_ROOT)},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        told += [row for row in done.stdout.splitlines() if f"| {kind} |" in row]
    return told


def main(words: list[str]) -> None:
    """Print the table, or be one client (`--run NAME KIND BOOTSTRAP TOPIC`)."""
    if words[:1] == ["--run"]:
        _, name, kind, bootstrap, topic = words
        clients()[name]()(kind, bootstrap, topic)
        return
    print(MARKDOWN_HEADING)
    for name, prepare in clients().items():
        if words and name not in words:
            continue
        try:
            prepare()
        except pytest.skip.Exception as problem:
            print(f"{name} is left out: {problem}", file=sys.stderr)
            continue
        for row in rows(name):
            print(row, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
