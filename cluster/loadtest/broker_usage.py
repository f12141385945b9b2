"""A client's usage as the brokers counted it, read from their metric records.

The topic is `__cluster_metrics`; its records are described in docs/metrics.md.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cluster.model.topics import METRICS_TOPIC
from cluster.runtime.interrupts import deferred_interrupt

_REQUEST_TIMEOUT_S: Final = 10.0
_BATCH: Final = 500
_WAIT_S: Final = 0.1
_PATIENCE: Final = 50
"""After this many waits without a record, reading ends without the missing records."""


@dataclass(frozen=True, slots=True)
class MeasuredUsage:
    """The usage of one client at one broker in one interval."""

    broker: int
    end_ms: int
    interval_ms: int
    usage: float
    """In bytes."""


def parse_usage(value: bytes, quota: str, client_id: str) -> MeasuredUsage | None:
    """The usage in a metric record; None for another client's, or if it is not a metric record."""
    try:
        record: Mapping[str, Any] = json.loads(value)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or (
        record.get("kind"),
        record.get("quota"),
        record.get("client_id"),
    ) != (
        "quota",
        quota,
        client_id,
    ):
        return None
    broker, end_ms, interval_ms = record.get("broker"), record.get("ts"), record.get("interval_ms")
    usage = record.get("usage")
    if not (isinstance(broker, int) and isinstance(end_ms, int) and isinstance(interval_ms, int)):
        return None
    if interval_ms <= 0 or not isinstance(usage, int | float):
        return None
    return MeasuredUsage(broker, end_ms, interval_ms, usage)


def usage_rates(usages: Iterable[MeasuredUsage], from_ms: int, until_ms: int) -> dict[int, float]:
    """Bytes/s at each broker, over the intervals that end within (from_ms, until_ms].

    An interval without a record between two others counts as idle.
    """
    bytes_at: dict[int, float] = defaultdict(float)
    begin_at: dict[int, int] = {}
    end_at: dict[int, int] = {}
    for one in usages:
        if from_ms < one.end_ms <= until_ms:
            begin_ms = one.end_ms - one.interval_ms
            bytes_at[one.broker] += one.usage
            begin_at[one.broker] = min(begin_at.get(one.broker, begin_ms), begin_ms)
            end_at[one.broker] = max(end_at.get(one.broker, one.end_ms), one.end_ms)
    return {
        broker: amount * 1_000 / (end_at[broker] - begin_at[broker])
        for broker, amount in bytes_at.items()
    }


def read_usages(
    connection: Mapping[str, Any],
    quota: str,
    client_id: str,
    from_ms: int,
    topic: str = METRICS_TOPIC,
) -> list[MeasuredUsage]:
    """All usage of the client recorded since `from_ms`; empty if the metrics topic is missing.

    `connection`: settings of a Kafka client, `bootstrap.servers` among them.
    """
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    with deferred_interrupt():
        consumer = Consumer(
            {
                **connection,
                "client.id": "milena-load-test",
                "group.id": "milena-load-test",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
    try:
        described = consumer.list_topics(topic, timeout=_REQUEST_TIMEOUT_S).topics[topic]
        wanted = [TopicPartition(topic, number, from_ms) for number in described.partitions]
        if described.error is not None or not wanted:
            return []
        ends = {
            place.partition: consumer.get_watermark_offsets(place, timeout=_REQUEST_TIMEOUT_S)[1]
            for place in wanted
        }
        places = [
            place
            for place in consumer.offsets_for_times(wanted, timeout=_REQUEST_TIMEOUT_S)
            if 0 <= place.offset < ends[place.partition]
        ]
        consumer.assign(places)
        missing = {place.partition for place in places}
        found = []
        patience = _PATIENCE
        while missing and patience:
            messages = consumer.consume(_BATCH, _WAIT_S)
            patience = _PATIENCE if messages else patience - 1
            for message in messages:
                value, partition, offset = message.value(), message.partition(), message.offset()
                if message.error() is not None or partition is None or offset is None:
                    continue
                if offset + 1 >= ends[partition]:
                    missing.discard(partition)
                usage = parse_usage(value or b"", quota, client_id)
                if usage is not None:
                    found.append(usage)
    except KafkaException:
        return []
    finally:
        consumer.close()
    return found
