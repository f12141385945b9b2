"""What it costs to read a request and to write a response, in microseconds; best of many rounds.

PYTHONPATH=. .venv/bin/python bench/messages.py
"""

import struct
import time
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from cluster.model.errors import ErrorCode
from cluster.protocol import messages as m
from cluster.protocol.adapter import decode_request, encode_response
from cluster.protocol.api import ApiKey

NO_TIME = timedelta(0)
TOPIC_ID = uuid.UUID(int=5)
ROUNDS = 25
REPEATS = 300


def best_us(call: Callable[[], Any]) -> float:
    best_s = float("inf")
    for _ in range(ROUNDS):
        begin_s = time.perf_counter()
        for _ in range(REPEATS):
            call()
        best_s = min(best_s, (time.perf_counter() - begin_s) / REPEATS)
    return best_s * 1e6


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def metadata_request() -> bytes:
    """Version 8, three topics."""
    return struct.pack(">i", 3) + b"".join(text(f"topic-{n}") for n in range(3)) + b"\1\0\0"


def metadata_response() -> m.MetadataResponse:
    """Three brokers, a topic of twelve partitions with three replicas."""
    return m.MetadataResponse(
        throttle_time=NO_TIME,
        brokers=tuple(
            m.MetadataResponseBroker(node_id=n, host="localhost", port=9092 + n) for n in range(3)
        ),
        cluster_id="abcdef",
        controller_id=1,
        topics=(
            m.MetadataResponseTopic(
                error_code=ErrorCode.none,
                name="topic-0",
                topic_id=TOPIC_ID,
                partitions=tuple(
                    m.MetadataResponsePartition(
                        error_code=ErrorCode.none,
                        partition_index=n,
                        leader_id=1,
                        leader_epoch=3,
                        replica_nodes=(1, 2, 3),
                        isr_nodes=(1, 2, 3),
                    )
                    for n in range(12)
                ),
            ),
        ),
        error_code=ErrorCode.none,
    )


def list_offsets_request() -> bytes:
    """Version 5, six partitions."""
    partitions = b"".join(struct.pack(">iiq", n, -1, -1) for n in range(6))
    return struct.pack(">ibi", -1, 0, 1) + text("topic") + struct.pack(">i", 6) + partitions


def list_offsets_response() -> m.ListOffsetsResponse:
    """Six partitions."""
    partitions = tuple(
        m.ListOffsetsPartitionResponse(partition_index=n, error_code=ErrorCode.none, offset=5)
        for n in range(6)
    )
    topic = m.ListOffsetsTopicResponse(name="topic", partitions=partitions)
    return m.ListOffsetsResponse(throttle_time=NO_TIME, topics=(topic,))


def create_topics_request() -> bytes:
    """Version 4, three topics with four settings each."""
    settings = struct.pack(">i", 4) + (text("retention.ms") + text("5")) * 4
    topics = (text(f"t{n}") + struct.pack(">ihi", 3, 3, 0) + settings for n in range(3))
    return struct.pack(">i", 3) + b"".join(topics) + struct.pack(">i?", 1000, False)


def create_topics_response() -> m.CreateTopicsResponse:
    """Three topics."""
    topics = tuple(
        m.CreatableTopicResult(
            name=f"t{n}",
            topic_id=TOPIC_ID,
            error_code=ErrorCode.none,
            error_message=None,
            num_partitions=3,
            replication_factor=3,
            configs=(),
        )
        for n in range(3)
    )
    return m.CreateTopicsResponse(throttle_time=NO_TIME, topics=topics)


CASES = (
    (ApiKey.METADATA, 8, metadata_request(), metadata_response()),
    (ApiKey.LIST_OFFSETS, 5, list_offsets_request(), list_offsets_response()),
    (ApiKey.CREATE_TOPICS, 4, create_topics_request(), create_topics_response()),
)


def main() -> None:
    for key, version, body, response in CASES:
        read_us = best_us(lambda: decode_request(key, version, body, 0))  # noqa: B023 - called now
        write_us = best_us(lambda: encode_response(key, version, 1, response))  # noqa: B023
        print(f"{key.name:<14} v{version}  read {read_us:6.2f} us  write {write_us:6.2f} us")


if __name__ == "__main__":
    main()
