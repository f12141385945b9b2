"""The broker's codec reads these requests, and its answers are read."""

import pytest

from cluster.client.fetch_requests import VERSION, fetch_body, read_fetch_answer
from cluster.model.errors import ErrorCode, PeerError
from cluster.protocol.fetch_codec import (
    FetchedPartition,
    FetchPartition,
    pack_fetch_response,
    scan_fetch_request,
)


def answer_with(*partitions: FetchedPartition, error_code: int = 0) -> bytes:
    """The body of a response, behind size and correlation id."""
    items = pack_fetch_response(VERSION, 5, [("orders", None, partitions)], error_code=error_code)
    return b"".join(bytes(each) for each in items)[8:]  # type: ignore[call-overload]


def test_the_broker_reads_the_request() -> None:
    body = fetch_body(
        "orders", {3: 70, 0: 5}, is_committed_only=True, max_bytes=1_000, partition_max_bytes=100
    )
    request = scan_fetch_request(VERSION, memoryview(body), 0)
    assert (request.replica_id, request.max_wait_ms, request.max_bytes) == (-1, 0, 1_000)
    assert (request.isolation_level, request.session_id, request.session_epoch) == (1, 0, -1)
    assert (request.forgotten, request.rack_id) == ([], "")
    ((name, _, partitions),) = request.topics
    assert name == "orders"
    assert partitions == [
        FetchPartition(3, -1, 70, -1, -1, 100),
        FetchPartition(0, -1, 5, -1, -1, 100),
    ]


def test_records_and_aborted_transactions_are_read() -> None:
    body = answer_with(
        FetchedPartition(
            3, 0, 90, 80, 0, [(1_000, 7), (1_001, 9)], records_size_bytes=7, records=b"batches"
        ),
        FetchedPartition(0, int(ErrorCode.offset_out_of_range)),
    )
    first, second = read_fetch_answer(body)
    assert (first.partition, first.error_code) == (3, ErrorCode.none)
    assert first.aborted == ((1_000, 7), (1_001, 9))
    assert bytes(first.records) == b"batches"
    assert (second.partition, second.error_code) == (0, ErrorCode.offset_out_of_range)
    assert (second.aborted, bytes(second.records)) == ((), b"")


def test_a_refused_request_names_the_error() -> None:
    with pytest.raises(PeerError, match="fetch refused: fetch_session_id_not_found"):
        read_fetch_answer(answer_with(error_code=int(ErrorCode.fetch_session_id_not_found)))


def test_a_malformed_answer_is_the_peers_mistake() -> None:
    whole = answer_with(
        FetchedPartition(3, 0, 90, 80, 0, [(1, 7)], records_size_bytes=7, records=b"batches")
    )
    for size in range(len(whole)):
        with pytest.raises(PeerError):
            read_fetch_answer(whole[:size])
