import struct
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.model.errors import PeerError
from cluster.protocol.fetch_request import FetchPartition, scan_fetch_request
from cluster.protocol.writer import varint
from tests.support.examples import examples
from tests.unit.protocol.kio_oracle import kio_bytes, requests

VERSIONS = range(4, 19)


def topic_of(version: int, theirs: Any) -> tuple[Any, Any]:
    if version >= 13:
        return None, theirs.topic_id
    return theirs.topic, None


@pytest.mark.parametrize("version", VERSIONS)
@examples(25)
@given(data=st.data())
def test_requests_are_scanned_as_kio_writes_them(version: int, data: Any) -> None:
    theirs = data.draw(requests(1, version))
    before, after = data.draw(st.binary(max_size=5)), data.draw(st.binary(max_size=5))
    frame = memoryview(before + kio_bytes(theirs) + after)
    request = scan_fetch_request(version, frame, len(before))
    assert request.max_wait_ms == theirs.max_wait // timedelta(milliseconds=1)
    assert request.min_bytes == theirs.min_bytes
    assert request.max_bytes == theirs.max_bytes
    assert request.isolation_level == theirs.isolation_level
    assert request.session_id == getattr(theirs, "session_id", 0)
    assert request.session_epoch == getattr(theirs, "session_epoch", -1)
    assert request.rack_id == getattr(theirs, "rack_id", "")
    replica = theirs if version < 15 else theirs.replica_state
    assert request.replica_id == replica.replica_id
    assert request.topics == [
        (
            *topic_of(version, topic),
            [
                FetchPartition(
                    each.partition,
                    getattr(each, "current_leader_epoch", -1),
                    each.fetch_offset,
                    getattr(each, "last_fetched_epoch", -1),
                    getattr(each, "log_start_offset", -1),
                    each.partition_max_bytes,
                )
                for each in topic.partitions
            ],
        )
        for topic in theirs.topics
    ]
    assert request.forgotten == [
        (*topic_of(version, topic), topic.partitions)
        for topic in getattr(theirs, "forgotten_topics_data", ())
    ]


@pytest.mark.parametrize("version", VERSIONS)
@examples(15)
@given(data=st.data())
def test_a_request_cut_short_is_the_peers_mistake(version: int, data: Any) -> None:
    frame = memoryview(kio_bytes(data.draw(requests(1, version))))
    cut = data.draw(st.integers(0, len(frame) - 1))
    with pytest.raises(PeerError):
        scan_fetch_request(version, frame[:cut], 0)


@pytest.mark.parametrize("version", VERSIONS)
@examples(25)
@given(frame=st.binary(max_size=80))
def test_garbage_is_a_request_or_the_peers_mistake(version: int, frame: bytes) -> None:
    reason = ""
    try:
        scan_fetch_request(version, frame, 0)
    except PeerError as error:
        reason = str(error)
    assert "\n" not in reason


def test_unknown_tags_are_skipped_everywhere() -> None:
    tag = b"\1\x20\2ab"
    body = (
        struct.pack(">iiiibii", -1, 500, 1, 1000, 0, 0, -1)
        + b"\2\2t\2"
        + struct.pack(">iiqiqi", 3, 4, 5, 6, 7, 8)
        + tag
        + tag
        + b"\2\2f\2"
        + struct.pack(">i", 9)
        + tag
        + b"\5rack"
        + tag
    )
    request = scan_fetch_request(12, memoryview(body), 0)
    assert request.topics == [("t", None, [(3, 4, 5, 6, 7, 8)])]
    assert request.forgotten == [("f", None, (9,))]
    assert request.rack_id == "rack"


@pytest.mark.parametrize("count", [-1, 2**31 - 1])
def test_impossible_count_is_the_peers_mistake(count: int) -> None:
    body = struct.pack(">iiiibi", -1, 500, 1, 1000, 0, count) + bytes(30)
    with pytest.raises(PeerError, match="array"):
        scan_fetch_request(4, body, 0)


def test_a_replica_state_that_is_too_short_is_the_peers_mistake() -> None:
    body = struct.pack(">iiibii", 500, 1, 1000, 0, 0, -1) + b"\1\1\1" + b"\1\1\2ab"
    with pytest.raises(PeerError):
        scan_fetch_request(15, body, 0)


@pytest.mark.parametrize("count", [100_001, 2_000_000])
def test_more_partitions_than_any_request_has_are_refused_unread(count: int) -> None:
    head = struct.pack(">iiiib", -1, 0, 0, 0, 0)
    topics = struct.pack(">ih", 1, 1) + b"t" + struct.pack(">i", count)
    with pytest.raises(PeerError, match=f"array of {count} elements"):
        scan_fetch_request(4, memoryview(head + topics + bytes(16 * count)), 0)
    compact = struct.pack(">iiiibii", -1, 0, 0, 0, 0, 0, -1)
    with pytest.raises(PeerError, match=f"array of {count} elements"):
        scan_fetch_request(12, memoryview(compact + varint(count + 1) + bytes(3 * count)), 0)
