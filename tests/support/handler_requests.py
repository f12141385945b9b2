"""Batches and requests that handlers are tested with, and what tests read in the answers."""

from collections.abc import Iterable
from typing import Any

from cluster.model.clocks import WallMs
from cluster.protocol.api import ApiKey
from cluster.records.builder import NewRecord, ProducerIdentity, build_batch
from tests.support.kafka_wire import request

WALL_MS = WallMs(1_700_000_000_000)


def a_batch(
    *values: bytes, timestamp_ms: int = WALL_MS, producer: ProducerIdentity | None = None
) -> bytes:
    """A batch as a producer sends it."""
    records = [NewRecord(value, None, timestamp_ms) for value in values or (b"value",)]
    return bytes(build_batch(records, producer=producer or ProducerIdentity()))


def list_offsets_of(
    topic: str,
    *asked: tuple[int, int],
    leader_epoch: int = -1,
    isolation_level: int = 0,
    version: int = 9,
) -> Any:
    """ListOffsets of (partition, timestamp)."""
    return request(
        ApiKey.LIST_OFFSETS,
        version,
        replica_id=-1,
        isolation_level=isolation_level,
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
