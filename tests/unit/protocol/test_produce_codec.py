import struct
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_response_schema

from cluster.model.errors import ErrorCode, PeerError, RecordError
from cluster.protocol.produce_codec import (
    NodeEndpoint,
    ProducedPartition,
    pack_produce_response,
    scan_produce_request,
)
from cluster.protocol.writer import varint
from tests.support.examples import examples
from tests.unit.protocol.kio_oracle import kio_bytes, kio_frame, requests

VERSIONS = range(3, 14)
I64 = st.integers(-(2**63), 2**63 - 1)
I32 = st.integers(-(2**31), 2**31 - 1)
MILLIS = st.integers(-1, 2**41)
ENDPOINTS = st.lists(
    st.builds(NodeEndpoint, I32, st.text(max_size=9), I32, st.none() | st.text(max_size=9)),
    max_size=2,
)
PARTITIONS = st.lists(
    st.builds(
        ProducedPartition,
        index=I32,
        error_code=st.sampled_from(list(ErrorCode)).map(int),
        base_offset=I64,
        log_append_time_ms=MILLIS,
        log_start_offset=I64,
        error_message=st.none() | st.text(max_size=200),
        current_leader=st.none() | st.tuples(I32, I32),
        record_errors=st.lists(st.builds(RecordError, I32, st.text(max_size=140)), max_size=2),
    ),
    max_size=3,
)
TOPICS = st.lists(
    st.tuples(st.text(max_size=140), st.uuids().filter(lambda each: each.int != 0), PARTITIONS),
    max_size=3,
)
ONE_PLAIN_PARTITION = st.lists(
    st.tuples(
        st.text(max_size=140),
        st.uuids(),
        st.lists(
            st.builds(lambda index, base: ProducedPartition(index, 0, base), I32, I64),
            min_size=1,
            max_size=1,
        ),
    ),
    min_size=1,
    max_size=1,
)


def as_scanned(version: int, theirs: Any) -> list[Any]:
    return [
        (
            topic.name if version < 13 else None,
            topic.topic_id if version >= 13 else None,
            [(each.index, each.records) for each in topic.partition_data],
        )
        for topic in theirs.topic_data
    ]


@pytest.mark.parametrize("version", VERSIONS)
@examples(25)
@given(data=st.data())
def test_requests_are_scanned_as_kio_writes_them(version: int, data: Any) -> None:
    theirs = data.draw(requests(0, version))
    before, after = data.draw(st.binary(max_size=5)), data.draw(st.binary(max_size=5))
    frame = memoryview(before + kio_bytes(theirs) + after)
    request = scan_produce_request(version, frame, len(before))
    assert request.transactional_id == theirs.transactional_id
    assert request.acks == theirs.acks
    assert request.timeout_ms == theirs.timeout // timedelta(milliseconds=1)
    assert request.topics == as_scanned(version, theirs)


@pytest.mark.parametrize("version", VERSIONS)
@examples(15)
@given(data=st.data())
def test_a_request_cut_short_is_the_peers_mistake(version: int, data: Any) -> None:
    frame = memoryview(kio_bytes(data.draw(requests(0, version))))
    cut = data.draw(st.integers(0, len(frame) - 1))
    with pytest.raises(PeerError):
        scan_produce_request(version, frame[:cut], 0)


@pytest.mark.parametrize("version", VERSIONS)
@examples(25)
@given(frame=st.binary(max_size=80))
def test_garbage_is_a_request_or_the_peers_mistake(version: int, frame: bytes) -> None:
    reason = ""
    try:
        scan_produce_request(version, memoryview(frame), 0)
    except PeerError as error:
        reason = str(error)
    assert "\n" not in reason


def test_records_are_views_on_the_frame() -> None:
    frame = bytearray(struct.pack(">hhiihciii", -1, 1, 100, 1, 1, b"t", 1, 0, 4) + b"data")
    request = scan_produce_request(3, memoryview(frame), 0)
    [(_, _, [(index, records)])] = request.topics
    assert records is not None
    frame[-4:] = b"DATA"
    assert (index, bytes(records)) == (0, b"DATA")


def test_unknown_tags_of_a_request_are_skipped() -> None:
    tag = b"\1\x20\2ab"
    body = b"\0" + struct.pack(">hi", -1, 5) + b"\2\2t\2" + struct.pack(">i", 3) + b"\3xy"
    request = scan_produce_request(9, memoryview(body + tag * 3), 0)
    assert request.topics == [("t", None, [(3, b"xy")])]


@pytest.mark.parametrize(
    "body",
    [
        struct.pack(">hhii", -2, 1, 1, 0),
        struct.pack(">hhii", -1, 1, 1, -1),
        struct.pack(">hhiih", -1, 1, 1, 1, -1),
        struct.pack(">hhiihi", -1, 1, 1, 1, 0, -1),
        struct.pack(">hhiihiii", -1, 1, 1, 1, 0, 1, 0, -2),
        struct.pack(">hhiihiii", -1, 1, 1, 1, 0, 1, 0, 2**31 - 1),
        struct.pack(">hhii", -1, 1, 1, 2**31 - 1),
    ],
)
def test_impossible_lengths_are_the_peers_mistake(body: bytes) -> None:
    with pytest.raises(PeerError):
        scan_produce_request(3, memoryview(body), 0)


def kio_response(
    version: int, topics: list[Any], throttle_time_ms: int, endpoints: list[NodeEndpoint]
) -> Any:
    """The same response as a kio message, without what its version lacks."""
    schema = load_response_schema(0, version)
    module = __import__(schema.__module__, fromlist=["x"])

    def partition(each: ProducedPartition) -> Any:
        fields: dict[str, Any] = {
            "index": each.index,
            "error_code": ErrorCode(each.error_code),
            "base_offset": each.base_offset,
            "log_append_time": None
            if each.log_append_time_ms == -1
            else datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=each.log_append_time_ms),
        }
        if version >= 5:
            fields["log_start_offset"] = each.log_start_offset
        if version >= 8:
            errors = tuple(
                module.BatchIndexAndErrorMessage(
                    batch_index=error.batch_index, batch_index_error_message=error.message
                )
                for error in each.record_errors
            )
            fields |= {"record_errors": errors, "error_message": each.error_message}
        if version >= 10 and each.current_leader is not None:
            leader_id, leader_epoch = each.current_leader
            fields["current_leader"] = module.LeaderIdAndEpoch(
                leader_id=leader_id, leader_epoch=leader_epoch
            )
        return module.PartitionProduceResponse(**fields)

    fields: dict[str, Any] = {
        "responses": tuple(
            module.TopicProduceResponse(
                **({"topic_id": topic_id} if version >= 13 else {"name": name}),
                partition_responses=tuple(map(partition, partitions)),
            )
            for name, topic_id, partitions in topics
        ),
        "throttle_time": timedelta(milliseconds=throttle_time_ms),
    }
    if version >= 10:
        fields["node_endpoints"] = tuple(
            module.NodeEndpoint(**each._asdict()) for each in endpoints
        )
    return schema(**fields)


@pytest.mark.parametrize("version", VERSIONS)
@examples(25)
@given(
    topics=TOPICS | ONE_PLAIN_PARTITION,
    throttle_time_ms=st.integers(0, 2**31 - 1),
    endpoints=ENDPOINTS,
    correlation_id=I32,
)
def test_responses_are_the_bytes_that_kio_writes(
    version: int,
    topics: list[Any],
    throttle_time_ms: int,
    endpoints: list[NodeEndpoint],
    correlation_id: int,
) -> None:
    frame = pack_produce_response(version, correlation_id, topics, throttle_time_ms, endpoints)
    theirs = kio_response(version, topics, throttle_time_ms, endpoints)
    assert frame == kio_frame(theirs, correlation_id)
    assert isinstance(frame, bytes)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", [1, 126, 127, 249])
def test_one_partition_is_packed_for_any_topic_name(version: int, size: int) -> None:
    topics = [("t" * size, UUID(int=7), [ProducedPartition(2, 0, 9, -1, 4)])]
    frame = pack_produce_response(version, 5, topics)
    assert frame == kio_frame(kio_response(version, topics, 0, []), 5)


def test_more_partitions_than_any_request_has_are_refused() -> None:
    """Counted over all topics: each may be as small as six bytes."""
    head = struct.pack(">hhii", -1, 1, 0, 1_000)
    topic = struct.pack(">hi", 0, 200) + struct.pack(">ii", 0, -1) * 200
    with pytest.raises(PeerError, match="at most 100000"):
        scan_produce_request(3, memoryview(head + topic * 1_000), 0)
    compact = b"\0" + struct.pack(">hi", 1, 0) + varint(1_001)
    topic = b"\x01" + varint(201) + (struct.pack(">i", 0) + b"\0\0") * 200 + b"\0"
    with pytest.raises(PeerError, match="at most 100000"):
        scan_produce_request(9, memoryview(compact + topic * 1_000 + b"\0"), 0)
    two = b"\0" + struct.pack(">hi", 1, 0) + varint(3) + topic * 2 + b"\0"
    request = scan_produce_request(9, memoryview(two), 0)
    assert [len(each.partitions) for each in request.topics] == [200, 200]
