from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_response_schema

from cluster.model.errors import ErrorCode
from cluster.protocol.fetch_codec import (
    FetchedPartition,
    NodeEndpoint,
    fetch_response_size,
    pack_fetch_response,
)
from tests.support.examples import examples
from tests.unit.protocol.kio_oracle import kio_frame
from tests.unit.protocol.test_produce_codec import ENDPOINTS, I32, I64

VERSIONS = range(4, 19)


class Slice:
    """Stands for a piece of a segment file."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def __repr__(self) -> str:
        return f"Slice({self.content!r})"


def partition(content: bytes, **fields: Any) -> FetchedPartition:
    records = Slice(content) if content else None
    return FetchedPartition(**fields, records_size_bytes=len(content), records=records)


PARTITIONS = st.builds(
    partition,
    content=st.binary(max_size=300),
    index=I32,
    error_code=st.sampled_from(list(ErrorCode)).map(int),
    high_watermark=I64,
    last_stable_offset=I64,
    log_start_offset=I64,
    aborted_transactions=st.none() | st.lists(st.tuples(I64, I64), max_size=2),
    preferred_read_replica=I32,
    diverging_epoch=st.none() | st.tuples(I32, I64) | st.just((-1, -1)),
    current_leader=st.none() | st.tuples(I32, I32) | st.just((-1, -1)),
)
TOPICS = st.lists(
    st.tuples(
        st.text(max_size=140),
        st.uuids().filter(lambda each: each.int != 0),
        st.lists(PARTITIONS, max_size=3),
    ),
    max_size=3,
)


def kio_response(
    version: int,
    topics: list[Any],
    throttle_time_ms: int,
    error_code: int,
    session_id: int,
    endpoints: list[NodeEndpoint],
) -> Any:
    """The same response as a kio message, without what its version lacks."""
    schema = load_response_schema(1, version)
    module = __import__(schema.__module__, fromlist=["x"])

    def kio_partition(each: FetchedPartition) -> Any:
        fields: dict[str, Any] = {
            "partition_index": each.index,
            "error_code": ErrorCode(each.error_code),
            "high_watermark": each.high_watermark,
            "last_stable_offset": each.last_stable_offset,
            "aborted_transactions": None
            if each.aborted_transactions is None
            else tuple(
                module.AbortedTransaction(producer_id=producer_id, first_offset=first_offset)
                for producer_id, first_offset in each.aborted_transactions
            ),
            "records": each.records.content if isinstance(each.records, Slice) else b"",
        }
        if version >= 5:
            fields["log_start_offset"] = each.log_start_offset
        if version >= 11:
            fields["preferred_read_replica"] = each.preferred_read_replica
        if version >= 12 and each.diverging_epoch is not None:
            epoch, end_offset = each.diverging_epoch
            fields["diverging_epoch"] = module.EpochEndOffset(epoch=epoch, end_offset=end_offset)
        if version >= 12 and each.current_leader is not None:
            leader_id, leader_epoch = each.current_leader
            fields["current_leader"] = module.LeaderIdAndEpoch(
                leader_id=leader_id, leader_epoch=leader_epoch
            )
        return module.PartitionData(**fields)

    fields: dict[str, Any] = {
        "throttle_time": timedelta(milliseconds=throttle_time_ms),
        "responses": tuple(
            module.FetchableTopicResponse(
                **({"topic_id": topic_id} if version >= 13 else {"topic": name}),
                partitions=tuple(map(kio_partition, partitions)),
            )
            for name, topic_id, partitions in topics
        ),
    }
    if version >= 7:
        fields |= {"error_code": ErrorCode(error_code), "session_id": session_id}
    if version >= 16:
        fields["node_endpoints"] = tuple(
            module.NodeEndpoint(**each._asdict()) for each in endpoints
        )
    return schema(**fields)


@pytest.mark.parametrize("version", VERSIONS)
@examples(25)
@given(
    topics=TOPICS,
    throttle_time_ms=st.integers(0, 2**31 - 1),
    error_code=st.sampled_from(list(ErrorCode)).map(int),
    session_id=I32,
    endpoints=ENDPOINTS,
    correlation_id=I32,
)
def test_responses_are_the_bytes_that_kio_writes(
    version: int,
    topics: list[Any],
    throttle_time_ms: int,
    error_code: int,
    session_id: int,
    endpoints: list[NodeEndpoint],
    correlation_id: int,
) -> None:
    items = pack_fetch_response(
        version,
        correlation_id,
        topics,
        throttle_time_ms=throttle_time_ms,
        error_code=error_code,
        session_id=session_id,
        node_endpoints=endpoints,
    )
    frame = b"".join(each.content if isinstance(each, Slice) else each for each in items)  # type: ignore[misc]
    theirs = kio_response(version, topics, throttle_time_ms, error_code, session_id, endpoints)
    assert frame == kio_frame(theirs, correlation_id)
    assert fetch_response_size(version, topics, endpoints) == len(frame)
    own = [each.records for _, _, parts in topics for each in parts if each.records is not None]
    assert [each for each in items if isinstance(each, Slice)] == own
    assert all(type(each) is bytes and each for each in items if not isinstance(each, Slice))


@pytest.mark.parametrize("version", VERSIONS)
def test_one_partition_is_bytes_around_its_records(version: int) -> None:
    records = object()
    topics = [("t", None, [FetchedPartition(0, 0, records_size_bytes=10, records=records)])]
    items = pack_fetch_response(version, 1, topics)
    assert items[1] is records
    sizes = [10 if each is records else len(each) for each in items]  # type: ignore[arg-type]
    first = items[0]
    assert isinstance(first, bytes)
    assert int.from_bytes(first[:4], "big") == sum(sizes) - 4
    assert len(items) == (2 if version < 12 else 3)
