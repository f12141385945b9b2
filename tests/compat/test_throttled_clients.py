"""Stock clients over their quota are throttled whether they honor the throttle time or not.

librdkafka and aiokafka ignore it, kafka-python pauses. A burst of one second's worth is allowed.
"""

import asyncio
import time

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer

from tests.support.client_quotas import KIB, a_client_id, batch, limited
from tests.support.kafka_wire import WireClient, produce_request
from tests.support.topics import create_topic, leader
from tests.support.waiting import wait_until

pytestmark = pytest.mark.compat


def test_librdkafka_is_throttled_although_it_ignores_the_throttle_time(cluster):
    client_id, topic = a_client_id(), create_topic(cluster)
    told: list[float] = []
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "client.id": client_id,
            "batch.num.messages": 1,
            "throttle_cb": lambda event: told.append(event.throttle_time),
        }
    )
    delivered: list[object] = []
    with limited(cluster, client_id, producer_byte_rate=10 * KIB):
        for _ in range(40):
            producer.produce(
                topic, b"x" * 10 * KIB, on_delivery=lambda error, _message: delivered.append(error)
            )
        wait_until(lambda: producer.poll(0.05) and any(told), "the throttle callback")
        # No more than the limit admits: 10 KiB/s is one message a second.
        producer.poll(1.0)
        assert len(delivered) < 20
    # The limit is lifted: what waits goes on at once.
    assert producer.flush(15) == 0
    assert delivered == [None] * 40


def test_a_librdkafka_consumer_is_held_back(cluster):
    client_id, topic = a_client_id(), create_topic(cluster)
    with WireClient(cluster.addresses[leader(cluster, topic)]) as client:
        for _ in range(40):
            client.call(produce_request(topic, batch(10 * KIB)))
    told: list[float] = []
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "client.id": client_id,
            "group.id": "none",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 10 * KIB,
            "throttle_cb": lambda event: told.append(event.throttle_time),
        }
    )
    with limited(cluster, client_id, consumer_byte_rate=10 * KIB):
        consumer.assign([TopicPartition(topic, 0, 0)])
        received = 0

        def is_throttled() -> bool:
            nonlocal received
            received += len(consumer.consume(100, 0.05))
            return any(told)

        wait_until(is_throttled, "the throttle callback")
        received += len(consumer.consume(100, 0.5))
        assert received < 25
    wait_until(lambda: is_throttled() and received == 40, "the rest, the limit being lifted")
    consumer.close()


def test_kafka_python_gets_everything_through_slowly(cluster):
    client_id, topic = a_client_id(), create_topic(cluster)
    with limited(cluster, client_id, producer_byte_rate=120 * KIB, consumer_byte_rate=120 * KIB):
        producer = KafkaProducer(
            bootstrap_servers=cluster.bootstrap, client_id=client_id, batch_size=0
        )

        def produce() -> None:
            for _ in range(30):
                producer.send(topic, b"x" * 10 * KIB)
            producer.flush(30)

        # 300 KiB, of which 120 KiB may be sent at once.
        began = time.monotonic()
        produce()
        assert time.monotonic() - began > 1.0
        producer.close()
        consumer = KafkaConsumer(
            topic,
            bootstrap_servers=cluster.bootstrap,
            client_id=client_id,
            auto_offset_reset="earliest",
            group_id=None,
            max_partition_fetch_bytes=20 * KIB,
        )
        began = time.monotonic()
        received = [next(consumer) for _ in range(30)]
        took = time.monotonic() - began
        consumer.close()
    assert len(received) == 30
    assert took > 1.0


def test_aiokafka_is_throttled_although_it_ignores_the_throttle_time(cluster):
    client_id, topic = a_client_id(), create_topic(cluster)

    async def exchange() -> tuple[float, int]:
        producer = AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap, client_id=client_id, max_batch_size=11 * KIB
        )
        await producer.start()
        began = time.monotonic()
        await asyncio.gather(*[await producer.send(topic, b"x" * 10 * KIB) for _ in range(30)])
        took = time.monotonic() - began
        await producer.stop()
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=cluster.bootstrap,
            client_id=client_id,
            auto_offset_reset="earliest",
            max_partition_fetch_bytes=20 * KIB,
        )
        await consumer.start()
        for _ in range(30):
            await asyncio.wait_for(consumer.getone(), 30)
        await consumer.stop()
        return took, 30

    with limited(cluster, client_id, producer_byte_rate=120 * KIB, consumer_byte_rate=120 * KIB):
        took, received = asyncio.run(exchange())
    assert took > 1.0
    assert received == 30
