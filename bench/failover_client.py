"""One Kafka client of Python at work for `bench/failover.py`: a line on stdout for each record.

    python -m bench.failover_client CLIENT ROLE BOOTSTRAP TOPIC

CLIENT is librdkafka, kafka-python or aiokafka; ROLE is `produce` (acks=all), `idempotent` or
`consume`. Everything else is left at the client's default, but for one setting of a librdkafka
producer: `librdkafka:retry.backoff.ms=10`. Ends with its stdin.
"""

import asyncio
import sys
import threading
import time
from typing import Any

PACE_S = 0.001


def main() -> None:
    """Run one client until stdin ends."""
    client, role, bootstrap, topic = sys.argv[1:]
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    name, _, setting = client.partition(":")
    if name == "librdkafka":
        librdkafka(role, bootstrap, topic, ended, setting)
    else:
        {"kafka-python": kafka_python, "aiokafka": aiokafka}[name](role, bootstrap, topic, ended)


def tell(problem: object = None) -> None:
    """Print a line for a record that was acknowledged or read, or for one that failed."""
    sys.stdout.write("ok\n" if problem is None else f"error {problem}\n")
    sys.stdout.flush()


def librdkafka(
    role: str, bootstrap: str, topic: str, ended: threading.Event, setting: str = ""
) -> None:
    """confluent-kafka."""
    from confluent_kafka import OFFSET_END, Consumer, Producer, TopicPartition

    common = {"bootstrap.servers": bootstrap, "log_level": 0}
    if role == "consume":
        consumer = Consumer({**common, "group.id": "none", "enable.auto.commit": False})
        consumer.assign([TopicPartition(topic, 0, OFFSET_END)])
        while not ended.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                tell()
        return
    key, _, value = setting.partition("=")
    own = {key: value} if key else {}
    idempotent = role == "idempotent"
    producer = Producer({**common, "acks": "all", "enable.idempotence": idempotent, **own})
    while not ended.is_set():
        producer.produce(topic, b"x" * 50, partition=0, on_delivery=lambda e, _: tell(e))
        began = time.monotonic()
        while (left := began + PACE_S - time.monotonic()) > 0:
            producer.poll(left)


def kafka_python(role: str, bootstrap: str, topic: str, ended: threading.Event) -> None:
    """kafka-python."""
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition

    servers = bootstrap.split(",")
    if role == "consume":
        consumer = KafkaConsumer(bootstrap_servers=servers, group_id=None)
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_end()
        while not ended.is_set():
            for records in consumer.poll(100).values():
                for _ in records:
                    tell()
        return
    producer = KafkaProducer(
        bootstrap_servers=servers, acks="all", enable_idempotence=role == "idempotent"
    )
    while not ended.wait(PACE_S):
        sent = producer.send(topic, b"x" * 50, partition=0)
        sent.add_callback(lambda _: tell())
        sent.add_errback(tell)


def aiokafka(role: str, bootstrap: str, topic: str, ended: threading.Event) -> None:
    """aiokafka."""
    asyncio.run(_aiokafka(role, bootstrap, topic, ended))


async def _aiokafka(role: str, bootstrap: str, topic: str, ended: threading.Event) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

    if role == "consume":
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
        await consumer.start()
        consumer.assign([TopicPartition(topic, 0)])
        await consumer.seek_to_end()
        while not ended.is_set():
            for records in (await consumer.getmany(timeout_ms=100)).values():
                for _ in records:
                    tell()
        return
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, acks="all", enable_idempotence=role == "idempotent"
    )
    await producer.start()

    def on_done(sent: Any) -> None:
        tell(sent.exception())

    while not ended.is_set():
        sent = await producer.send(topic, b"x" * 50, partition=0)
        sent.add_done_callback(on_done)
        await asyncio.sleep(PACE_S)


if __name__ == "__main__":
    main()
