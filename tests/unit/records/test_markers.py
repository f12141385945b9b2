"""The markers that end transactions: Kafka's bytes, and what is read of them."""

from hypothesis import given
from hypothesis import strategies as st

from cluster.records.batch import CONTROL_BIT, TRANSACTIONAL_BIT, read_header
from cluster.records.builder import NewRecord, ProducerIdentity, build_batch
from cluster.records.markers import (
    NO_COORDINATOR_EPOCH,
    EndMarker,
    build_marker,
    marker_at,
    read_marker,
)
from cluster.records.reader import records_of_batch
from tests.unit.log.log_builder import NOW_MS

MARKERS = st.builds(
    EndMarker,
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**15 - 1),
    st.integers(0, 2**31 - 1),
    st.booleans(),
)


@given(MARKERS)
def test_marker_is_read_as_it_was_built(marker: EndMarker) -> None:
    batch = build_marker(marker, NOW_MS)
    header = read_header(batch)
    assert read_marker(header, memoryview(batch)) == marker
    assert header.attributes == CONTROL_BIT | TRANSACTIONAL_BIT
    assert (header.base_sequence, header.record_count) == (-1, 1)
    assert header.max_timestamp == NOW_MS


def test_marker_has_the_record_of_kafka() -> None:
    for is_commit, kind in ((False, 0), (True, 1)):
        batch = build_marker(EndMarker(7, 3, 5, is_commit), NOW_MS)
        (record,) = records_of_batch(read_header(batch), memoryview(batch))
        assert record.key == bytes([0, 0, 0, kind])
        assert record.value == bytes([0, 0, 0, 0, 0, 5])


def control(key: bytes | None, value: bytes | None) -> memoryview:
    return memoryview(
        build_batch(
            [NewRecord(value, key, NOW_MS)],
            producer=ProducerIdentity(7, 3, -1),
            is_transactional=True,
            is_control=True,
        )
    )


@given(st.binary(max_size=12), st.binary(max_size=12))
def test_other_control_records_are_no_markers(key: bytes, value: bytes) -> None:
    batch = control(key, value)
    found = read_marker(read_header(batch), batch)
    if len(key) < 4 or key[2:4] not in (b"\0\0", b"\0\1"):
        assert found is None
    else:
        assert found is not None
        epoch = int.from_bytes(value[2:6], "big", signed=True)
        expected = epoch if len(value) >= 6 else NO_COORDINATOR_EPOCH
        assert found == EndMarker(7, 3, expected, key[2:4] == b"\0\1")


def test_marker_that_compaction_has_emptied_is_none() -> None:
    batch = control(b"\0\0\0\1", b"\0\0\0\0\0\1")
    header = read_header(batch)._replace(record_count=0, batch_length=49)
    assert read_marker(header, batch[:61]) is None


@given(st.none() | st.binary(max_size=12), st.none() | st.binary(max_size=12), st.integers(0, 1))
def test_marker_within_a_file_is_read_the_same(
    key: bytes | None, value: bytes | None, version: int
) -> None:
    key = key if version else b"\0\0\0\1"
    batch = control(key, value)
    data = bytes(5) + batch + bytes(3)
    assert marker_at(data, 5) == read_marker(read_header(batch), batch)


@given(MARKERS)
def test_marker_at_the_end_of_a_file_is_read_the_same(marker: EndMarker) -> None:
    assert marker_at(build_marker(marker, NOW_MS), 0) == marker


def test_emptied_marker_within_a_file_is_none() -> None:
    header = read_header(control(b"\0\0\0\1", b"\0\0\0\0\0\5"))
    assert marker_at(header._replace(batch_length=49, record_count=0).pack(), 0) is None
