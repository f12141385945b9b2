"""Requests for several partitions at once, and what tests read in their answers."""

import uuid
from collections.abc import Iterable
from typing import Any

from cluster.protocol.api import ApiKey
from cluster.records.builder import NewRecord, ProducerIdentity, build_batch
from tests.support.kafka_wire import request

WALL_MS = 1_700_000_000_000


def a_batch(
    *values: bytes, timestamp_ms: int = WALL_MS, producer: ProducerIdentity | None = None
) -> bytes:
    """A batch as a producer sends it."""
    records = [NewRecord(value, None, timestamp_ms) for value in values or (b"value",)]
    return bytes(build_batch(records, producer=producer or ProducerIdentity()))


def produce_to(
    *batches: tuple[str | uuid.UUID, int, bytes | None],
    acks: int = -1,
    timeout_ms: int = 1_000,
    version: int = 9,
    transactional_id: str | None = None,
) -> Any:
    """Produce (topic, partition, records), each as a topic of its own."""
    return request(
        ApiKey.PRODUCE,
        version,
        transactional_id=transactional_id,
        acks=acks,
        timeout=timeout_ms,
        topic_data=[
            {
                "name": topic,
                "topic_id": topic,
                "partition_data": [{"index": partition, "records": records}],
            }
            for topic, partition, records in batches
        ],
    )


def wanted(
    partition: int,
    offset: int = 0,
    *,
    max_bytes: int = 1 << 20,
    leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
) -> dict[str, Any]:
    """One partition of a fetch."""
    return {
        "partition": partition,
        "current_leader_epoch": leader_epoch,
        "fetch_offset": offset,
        "last_fetched_epoch": last_fetched_epoch,
        "log_start_offset": -1,
        "partition_max_bytes": max_bytes,
    }


def fetch_from(
    *topics: tuple[str | uuid.UUID, Iterable[dict[str, Any]]],
    max_bytes: int = 1 << 20,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    version: int = 12,
) -> Any:
    """Fetch from (topic, partitions)."""
    return request(
        ApiKey.FETCH,
        version,
        replica_id=-1,
        max_wait=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[
            {"topic": topic, "topic_id": topic, "partitions": list(partitions)}
            for topic, partitions in topics
        ],
        forgotten_topics_data=[],
        rack_id="",
    )


def list_offsets_of(
    topic: str,
    *asked: tuple[int, int],
    leader_epoch: int = -1,
    version: int = 9,
) -> Any:
    """ListOffsets of (partition, timestamp)."""
    return request(
        ApiKey.LIST_OFFSETS,
        version,
        replica_id=-1,
        isolation_level=0,
        topics=[
            {
                "name": topic,
                "partitions": [
                    {
                        "partition_index": partition,
                        "current_leader_epoch": leader_epoch,
                        "timestamp": timestamp,
                    }
                    for partition, timestamp in asked
                ],
            }
        ],
        timeout=1_000,
    )


def produced_in(answer: Any) -> list[Any]:
    """Every partition of a produce answer, in order."""
    return [partition for topic in answer.responses for partition in topic.partition_responses]


def fetched_in(answer: Any) -> list[Any]:
    """Every partition of a fetch answer, in order."""
    return [partition for topic in answer.responses for partition in topic.partitions]


def offsets_in(answer: Any) -> list[Any]:
    """Every partition of a ListOffsets answer, in order."""
    return [partition for topic in answer.topics for partition in topic.partitions]


def codes_of(partitions: Iterable[Any]) -> list[int]:
    """Their error codes."""
    return [int(partition.error_code) for partition in partitions]
