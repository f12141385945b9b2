"""Captures the vectors: runs stock clients against a RecordingBroker, writes what they sent.

Run `python -m tests.wire.capture`. A client's file holds the first request of each API, version
and size.
"""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

from cluster.protocol.api import Api, ApiKey
from cluster.protocol.framing import parse_request_header
from tests.wire.recording_broker import APIS, RecordingBroker

VECTORS = Path(__file__).parent / "vectors"
_NEWEST_NOT_FLEXIBLE: dict[int, int] = {ApiKey.PRODUCE: 8, ApiKey.FETCH: 11, ApiKey.METADATA: 8}
OLD_APIS = [
    Api(each.key, each.min_version, min(each.max_version, newest), each.advertised_min)
    for each in APIS
    for newest in [_NEWEST_NOT_FLEXIBLE.get(each.key, 3)]
]
"""What a broker without flexible versions would advertise."""


def confluent(broker: RecordingBroker) -> str:
    """confluent-kafka, which is librdkafka: produce, list, administer, read."""
    import confluent_kafka
    from confluent_kafka import Consumer, Producer, TopicPartition
    from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic

    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": broker.bootstrap,
        "client.id": "vectors",
    }
    producer = Producer({**settings, "enable.idempotence": True})
    producer.produce("orders", b"value", b"key")
    assert producer.flush(10) == 0
    admin = AdminClient(settings)
    assert "orders" in admin.list_topics(timeout=10).topics
    for future in (
        *admin.create_topics([NewTopic("new", 3, 2, config={"retention.ms": "1"})]).values(),
        *admin.create_partitions([NewPartitions("new", 5)]).values(),
        *admin.delete_topics(["new"]).values(),
        *admin.describe_configs([ConfigResource("topic", "orders")]).values(),
    ):
        future.result(10)
    consumer = Consumer({**settings, "group.id": "vectors", "client.rack": "a"})
    consumer.assign([TopicPartition("orders", 0, 0)])
    message = consumer.poll(10)
    assert message is not None
    assert message.value() == b"value"
    consumer.get_watermark_offsets(TopicPartition("orders", 0), timeout=10)
    consumer.close()
    return (
        f"confluent-kafka {confluent_kafka.version()}, librdkafka {confluent_kafka.libversion()[0]}"
    )


def kafka_python(broker: RecordingBroker) -> str:
    """kafka-python: produce, administer, read."""
    import kafka
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import NewTopic

    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, client_id="vectors")
    producer.send("orders", b"value", b"key").get(10)
    producer.close()
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap, client_id="vectors")
    admin.create_topics([NewTopic("new", num_partitions=3, replication_factor=2)])
    admin.describe_cluster()
    admin.delete_topics(["new"])
    admin.close()
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, client_id="vectors")
    partition = TopicPartition("orders", 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    assert next(iter(consumer)).value == b"value"
    consumer.close()
    return f"kafka-python {kafka.__version__}"


def aio_kafka(broker: RecordingBroker) -> str:
    """aiokafka: produce, read."""
    import aiokafka
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

    async def run() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, client_id="vectors")
        await producer.start()
        await producer.send_and_wait("orders", b"value", b"key")
        await producer.stop()
        consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, client_id="vectors")
        await consumer.start()
        consumer.assign([TopicPartition("orders", 0)])
        await consumer.seek_to_beginning()
        assert (await consumer.getone()).value == b"value"
        await consumer.stop()

    asyncio.run(run())
    return f"aiokafka {aiokafka.__version__}"


def capture(
    name: str, client: Callable[[RecordingBroker], str], apis: list[Api], what: str
) -> None:
    """Run one client and write its file."""
    broker = RecordingBroker(apis)
    version = client(broker)
    broker.close()
    requests: dict[tuple[int, int, int], dict[str, object]] = {}
    for frame in list(broker.frames):
        header = parse_request_header(frame)
        requests.setdefault(
            (header.api_key, header.api_version, len(frame)),
            {
                "api": ApiKey(header.api_key).name,
                "version": header.api_version,
                "frame": frame.hex(),
            },
        )
    document = {
        "provenance": f"sent by {version} to tests/wire/recording_broker.py, {what}",
        "requests": [requests[each] for each in sorted(requests)],
    }
    (VECTORS / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    capture("librdkafka", confluent, APIS, "newest versions advertised")
    capture("librdkafka_old", confluent, OLD_APIS, "no flexible versions advertised")
    capture("kafka_python", kafka_python, APIS, "newest versions advertised")
    capture("aiokafka", aio_kafka, APIS, "newest versions advertised")
