"""Our responses as kafka-python reads them: an oracle that shares no schema with kio."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from kafka.protocol.admin import CreateTopicsResponse
from kafka.protocol.consumer import FetchResponse, ListOffsetsResponse
from kafka.protocol.metadata import ApiVersionsResponse, MetadataResponse
from kafka.protocol.producer import ProduceResponse

from cluster.model.errors import ErrorCode
from cluster.protocol import messages as m
from cluster.protocol.adapter import encode_response
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.api_versions import ApiVersionsAnswers
from cluster.protocol.fetch_codec import FetchedPartition, NodeEndpoint, pack_fetch_response
from cluster.protocol.framing import parse_request_header
from cluster.protocol.produce_codec import ProducedPartition, pack_produce_response
from tests.support.request_decoding import decode_any
from tests.wire.recording_broker import RecordingBroker

TOPIC_ID = UUID(int=7)
NO_TIME = timedelta(0)


def read(schema: Any, version: int, frame: bytes) -> Any:
    """kafka-python's object of a frame, whose size and correlation id it checks."""
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    response = schema.decode(frame[4:], version=version, header=True)
    assert response.header.correlation_id == 42
    return response


@pytest.mark.parametrize("version", range(5))
def test_kafka_python_reads_api_versions_responses(version: int) -> None:
    answers = ApiVersionsAnswers([Api(ApiKey.PRODUCE, 3, 12, 0), Api(ApiKey.FETCH, 4, 17)])
    response = read(ApiVersionsResponse, version, answers.answer(version, 42))
    assert [(e.api_key, e.min_version, e.max_version) for e in response.api_keys] == [
        (0, 0, 12),
        (1, 4, 17),
    ]


@pytest.mark.parametrize("version", range(14))
def test_kafka_python_reads_metadata_responses(version: int) -> None:
    ours = m.MetadataResponse(
        throttle_time=timedelta(milliseconds=5),
        brokers=(m.MetadataResponseBroker(node_id=1, host="h", port=9092, rack="r"),),
        cluster_id="c",
        controller_id=1,
        topics=(
            m.MetadataResponseTopic(
                error_code=ErrorCode.none,
                name="t",
                topic_id=TOPIC_ID,
                partitions=(
                    m.MetadataResponsePartition(
                        error_code=ErrorCode.leader_not_available,
                        partition_index=2,
                        leader_id=1,
                        leader_epoch=4,
                        replica_nodes=(1, 2),
                        isr_nodes=(1,),
                        offline_replicas=(2,),
                    ),
                ),
            ),
        ),
        error_code=ErrorCode.none,
    )
    theirs = read(MetadataResponse, version, encode_response(ApiKey.METADATA, version, 42, ours))
    assert [(e.node_id, e.host, e.port) for e in theirs.brokers] == [(1, "h", 9092)]
    [topic] = theirs.topics
    assert topic.name == "t"
    [partition] = topic.partitions
    assert (partition.error_code, partition.partition_index, partition.leader_id) == (5, 2, 1)
    assert (list(partition.replica_nodes), list(partition.isr_nodes)) == ([1, 2], [1])
    if version >= 10:
        assert topic.topic_id == TOPIC_ID


@pytest.mark.parametrize("version", range(3, 14))
def test_kafka_python_reads_produce_responses(version: int) -> None:
    parts = [
        ProducedPartition(0, 0, 100, -1, 5),
        ProducedPartition(1, 6, error_message="gone", current_leader=(2, 9)),
    ]
    frame = pack_produce_response(
        version, 42, [("t", TOPIC_ID, parts)], 7, [NodeEndpoint(2, "h", 9093)]
    )
    theirs = read(ProduceResponse, version, frame)
    assert theirs.throttle_time_ms == 7
    [topic] = theirs.responses
    assert (topic.name == "t") if version < 13 else (topic.topic_id == TOPIC_ID)
    fine, failed = topic.partition_responses
    assert (fine.index, fine.error_code, fine.base_offset) == (0, 0, 100)
    assert (failed.index, failed.error_code, failed.base_offset) == (1, 6, -1)
    if version >= 8:
        assert failed.error_message == "gone"
    if version >= 10:
        assert (failed.current_leader.leader_id, failed.current_leader.leader_epoch) == (2, 9)
        assert [(e.node_id, e.host, e.port) for e in theirs.node_endpoints] == [(2, "h", 9093)]


@pytest.mark.parametrize("version", range(4, 18))
def test_kafka_python_reads_fetch_responses(version: int) -> None:
    parts = [
        FetchedPartition(0, 0, 10, 9, 1, [(5, 6)], records_size_bytes=4, records=b"abcd"),
        FetchedPartition(1, 6, current_leader=(2, 9)),
    ]
    items = pack_fetch_response(
        version,
        42,
        [("t", TOPIC_ID, parts)],
        throttle_time_ms=7,
        node_endpoints=[NodeEndpoint(2, "h", 9093)],
    )
    theirs = read(FetchResponse, version, b"".join(items))  # type: ignore[arg-type]  # all are bytes
    assert theirs.throttle_time_ms == 7
    [topic] = theirs.responses
    fine, failed = topic.partitions
    assert (fine.partition_index, fine.high_watermark, fine.last_stable_offset) == (0, 10, 9)
    assert bytes(fine.records) == b"abcd"
    [aborted] = fine.aborted_transactions
    assert (aborted.producer_id, aborted.first_offset) == (5, 6)
    assert (failed.partition_index, failed.error_code, failed.high_watermark) == (1, 6, -1)
    assert bytes(failed.records) == b""
    if version >= 12:
        assert (failed.current_leader.leader_id, failed.current_leader.leader_epoch) == (2, 9)


@pytest.mark.parametrize("version", range(2, 8))
def test_kafka_python_reads_create_topics_responses(version: int) -> None:
    ours = m.CreateTopicsResponse(
        throttle_time=NO_TIME,
        topics=(
            m.CreatableTopicResult(
                name="t",
                topic_id=TOPIC_ID,
                error_code=ErrorCode.topic_already_exists,
                error_message="there",
                configs=None,
            ),
        ),
    )
    frame = encode_response(ApiKey.CREATE_TOPICS, version, 42, ours)
    [topic] = read(CreateTopicsResponse, version, frame).topics
    assert (topic.name, topic.error_code, topic.error_message) == ("t", 36, "there")


@pytest.mark.parametrize("version", range(1, 11))
def test_kafka_python_reads_list_offsets_responses(version: int) -> None:
    ours = m.ListOffsetsResponse(
        throttle_time=NO_TIME,
        topics=(
            m.ListOffsetsTopicResponse(
                name="t",
                partitions=(
                    m.ListOffsetsPartitionResponse(
                        partition_index=3, error_code=ErrorCode.none, timestamp=11, offset=12
                    ),
                ),
            ),
        ),
    )
    frame = encode_response(ApiKey.LIST_OFFSETS, version, 42, ours)
    [topic] = read(ListOffsetsResponse, version, frame).topics
    [partition] = topic.partitions
    assert (partition.partition_index, partition.timestamp, partition.offset) == (3, 11, 12)


def test_the_recording_broker_answers_what_the_vectors_asked() -> None:
    """So that a capture run again fails here first, not inside a client."""
    broker = RecordingBroker()
    try:
        for file in sorted((Path(__file__).parent / "vectors").glob("*.json")):
            for each in json.loads(file.read_text())["requests"]:
                frame = bytes.fromhex(each["frame"])
                header = parse_request_header(frame)
                assert decode_any(*header[:2], frame, header.body_position)
                answer = broker.answer(frame)
                assert int.from_bytes(answer[4:8], "big") == header.correlation_id
    finally:
        broker.close()
