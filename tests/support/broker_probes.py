"""What tests ask of one broker with raw requests, and how they see that it closed a connection."""

import time
from typing import Any, Final

from cluster.model.errors import ErrorCode
from cluster.protocol.api import ApiKey
from cluster.records.builder import NewRecord, build_batch
from tests.support.kafka_wire import WireClient, fetch_request, produce_request, request
from tests.support.running_cluster import Cluster
from tests.support.waiting import wait_until

STARTED_MS: Final = time.time_ns() // 1_000_000
"""A timestamp of these tests: brokers delete records that are older than a week."""


def batch_of(*values: bytes, **options: Any) -> bytearray:
    """A batch with these values; options of `build_batch`."""
    return build_batch([NewRecord(value, b"k", STARTED_MS) for value in values], **options)


def produced(client: WireClient, topic: str, records: bytes | None, **options: Any) -> Any:
    """The answer for the one partition of a produce request."""
    answer = client.call(produce_request(topic, records, **options))
    ((partition,),) = (one.partition_responses for one in answer.responses)
    return partition


def fetched(client: WireClient, topic: str, offset: int, **options: Any) -> Any:
    """The answer for the one partition of a fetch request."""
    answer = client.call(fetch_request(topic, offset, **options))
    assert answer.error_code == ErrorCode.none
    ((partition,),) = (one.partitions for one in answer.responses)
    return partition


def list_offsets_request(
    topic: str, timestamp: int, *, version: int = 7, leader_epoch: int = -1
) -> Any:
    """ListOffsets of partition 0."""
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
                        "partition_index": 0,
                        "current_leader_epoch": leader_epoch,
                        "timestamp": timestamp,
                    }
                ],
            }
        ],
    )


def assert_closed_with_one_line(
    cluster: Cluster, client: WireClient, reason: str, broker: int = 0
) -> None:
    """The broker closes the connection, and one line of its log names the peer and the reason."""
    name = client.name
    assert client.wait_for_close() == b""
    (line,) = wait_until(lambda: cluster.log_lines(broker, name), f"a line about {name}")
    assert reason in line
    assert "WARNING" in line
