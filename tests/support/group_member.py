"""One consumer of a group as a process of its own, by any of three clients: `group_member.py JSON`.

It commits what it has read before it reads on. It writes a line of JSON on stdout for each change
of its assignment and for each record; it leaves the group and ends when stdin ends.
"""

import asyncio
import json
import logging
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # it is started by its path

POLL_S = 0.1
HEARTBEAT_MS = 500
"""A member learns of a rebalance by its next heartbeat."""

_lock = threading.Lock()


def tell(**event: Any) -> None:
    """One line; a paused reader of the pipe pauses the member."""
    with _lock:
        sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()


class Assignment:
    """Tells the partitions when they change."""

    def __init__(self) -> None:
        self._told: list[tuple[str, int]] | None = None

    def see(self, partitions: Any) -> None:
        seen = sorted((each.topic, each.partition) for each in partitions)
        if seen != self._told:
            self._told = seen
            tell(event="assigned", partitions=seen)


def tell_record(topic: str, partition: int, offset: int, value: bytes | None) -> None:
    tell(
        event="record",
        topic=topic,
        partition=partition,
        offset=offset,
        value=(value or b"").decode(errors="replace"),
    )


def run_confluent(options: dict[str, Any], ended: threading.Event) -> None:
    from confluent_kafka import Consumer, KafkaException

    from cluster.client.missing_offsets import assign_again, lacks_offsets

    classic = {
        "partition.assignment.strategy": options["strategy"],
        "session.timeout.ms": options["session_ms"],
        "heartbeat.interval.ms": HEARTBEAT_MS,
    }
    newer = {"group.protocol": "consumer", "group.remote.assignor": options["strategy"]}
    consumer = Consumer(
        {
            "bootstrap.servers": options["bootstrap"],
            "group.id": options["group"],
            "client.id": "confluent",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "max.poll.interval.ms": max(options["session_ms"], 60_000),
            "topic.metadata.refresh.interval.ms": 1_000,
            **(newer if options["protocol"] == "consumer" else classic),
            **({"group.instance.id": options["instance"]} if options["instance"] else {}),
        }
    )
    consumer.subscribe(options["topics"])
    assignment = Assignment()
    while not ended.is_set():
        messages = consumer.consume(100, POLL_S)
        assignment.see(consumer.assignment())
        for message in messages:
            error = message.error()
            if error is None:
                tell_record(message.topic(), message.partition(), message.offset(), message.value())
            elif lacks_offsets(error):
                assign_again(consumer)
        if any(message.error() is None for message in messages):
            try:
                consumer.commit(asynchronous=False)
            except KafkaException as problem:
                tell(event="commit failed", text=problem.args[0].name())
    consumer.close()


_KAFKA_PYTHON = {
    "range": "range.RangePartitionAssignor",
    "roundrobin": "roundrobin.RoundRobinPartitionAssignor",
    "sticky": "sticky.sticky_assignor.StickyPartitionAssignor",
}


def _named(module: str, where: str) -> Any:
    import importlib

    path, _, name = where.rpartition(".")
    return getattr(importlib.import_module(f"{module}.{path}"), name)


def run_kafka_python(options: dict[str, Any], ended: threading.Event) -> None:
    from kafka import KafkaConsumer
    from kafka.errors import KafkaError

    assignor = _named("kafka.coordinator.assignors", _KAFKA_PYTHON[options["strategy"]])
    consumer = KafkaConsumer(
        *options["topics"],
        bootstrap_servers=options["bootstrap"],
        group_id=options["group"],
        client_id="kafka-python",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=[assignor],
        session_timeout_ms=options["session_ms"],
        heartbeat_interval_ms=HEARTBEAT_MS,
        group_instance_id=options["instance"],
    )
    for topic in options["topics"]:  # else its leader may assign before it knows the partitions
        consumer.partitions_for_topic(topic)
    assignment = Assignment()
    while not ended.is_set():
        read = consumer.poll(timeout_ms=POLL_S * 1_000)
        assignment.see(consumer.assignment())
        for records in read.values():
            for record in records:
                tell_record(record.topic, record.partition, record.offset, record.value)
        if read:
            try:
                consumer.commit()
            except KafkaError as problem:
                tell(event="commit failed", text=type(problem).__name__)
    consumer.close()


def run_aiokafka(options: dict[str, Any], ended: threading.Event) -> None:
    async def work() -> None:
        from aiokafka import AIOKafkaConsumer
        from aiokafka.errors import KafkaError

        assignor = _named("aiokafka.coordinator.assignors", _KAFKA_PYTHON[options["strategy"]])
        consumer = AIOKafkaConsumer(
            *options["topics"],
            bootstrap_servers=options["bootstrap"],
            group_id=options["group"],
            client_id="aiokafka",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            partition_assignment_strategy=[assignor],
            session_timeout_ms=options["session_ms"],
            heartbeat_interval_ms=HEARTBEAT_MS,
            group_instance_id=options["instance"],
        )
        await consumer.start()
        assignment = Assignment()
        while not ended.is_set():
            read = await consumer.getmany(timeout_ms=int(POLL_S * 1_000))
            assignment.see(consumer.assignment())
            for records in read.values():
                for record in records:
                    tell_record(record.topic, record.partition, record.offset, record.value)
            if read:
                try:
                    await consumer.commit()
                except KafkaError as problem:
                    tell(event="commit failed", text=type(problem).__name__)
        await consumer.stop()

    asyncio.run(work())


CLIENTS = {
    "confluent": run_confluent,
    "kafka-python": run_kafka_python,
    "aiokafka": run_aiokafka,
}


def main() -> None:
    """Run until stdin ends."""
    options = json.loads(sys.argv[1])
    warnings.simplefilter("ignore")
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    ended = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.buffer.read()
        ended.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    CLIENTS[options["client"]](options, ended)
    tell(event="closed")


if __name__ == "__main__":
    main()
