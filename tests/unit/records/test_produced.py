"""What a produced batch is refused for because of its single records."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.model.clocks import WallMs
from cluster.model.errors import ErrorCode, RecordsRefused, Refused
from cluster.model.ids import TopicPartition
from cluster.records.batch import LOG_APPEND_TIME_BIT, Compression, read_header, stamp_checksum
from cluster.records.builder import NewRecord, build_batch
from cluster.records.produced import RECORD_ERRORS_MAX, BatchLimits, validate_produced
from cluster.records.reader import read_records, record_heads

NOW = WallMs(1_700_000_000_000)
KEYED = BatchLimits(1 << 20, keyed=TopicPartition("orders", 3))
KEYLESS = "Compacted topic cannot accept message without key in topic partition orders-3"
HOUR = 3_600_000


def batch_of(*keys: bytes | None, codec: Compression = Compression.NONE) -> memoryview:
    return memoryview(build_batch([NewRecord(b"v", key, NOW) for key in keys], codec=codec))


def refusal(batch: memoryview, limits: BatchLimits) -> RecordsRefused:
    with pytest.raises(RecordsRefused) as raised:
        validate_produced(batch, limits, NOW)
    return raised.value


@pytest.mark.parametrize("codec", list(Compression))
def test_records_without_a_key_are_named_where_the_partition_is_compacted(
    codec: Compression,
) -> None:
    refused = refusal(batch_of(b"k", None, b"", None, codec=codec), KEYED)
    assert refused.code is ErrorCode.invalid_record
    assert list(refused.record_errors) == [(1, KEYLESS), (3, KEYLESS)]
    assert refused.detail == (
        "One or more records have been rejected due to 2 record errors in total, and only showing"
        f" the first three errors at most: [RecordError(batchIndex=1, message='{KEYLESS}'),"
        f" RecordError(batchIndex=3, message='{KEYLESS}')]"
    )


def test_an_empty_key_is_a_key() -> None:
    validate_produced(batch_of(b"", b"k"), KEYED, NOW)


def test_elsewhere_records_need_no_key() -> None:
    validate_produced(batch_of(None, None), BatchLimits(1 << 20), NOW)


def test_three_errors_are_shown_and_their_number_told() -> None:
    refused = refusal(batch_of(*[None] * 5), KEYED)
    assert "due to 5 record errors in total" in refused.detail
    assert refused.detail.count("RecordError(") == 3
    assert len(refused.record_errors) == 5


def test_not_more_than_so_many_records_are_named() -> None:
    refused = refusal(batch_of(*[None] * (RECORD_ERRORS_MAX + 1)), KEYED)
    assert f"due to {RECORD_ERRORS_MAX + 1} record errors" in refused.detail
    assert len(refused.record_errors) == RECORD_ERRORS_MAX


def stamped(*timestamps: int, key: bytes | None = b"k") -> memoryview:
    return memoryview(build_batch([NewRecord(b"v", key, each) for each in timestamps]))


def test_records_with_timestamps_out_of_range_are_named() -> None:
    limits = BatchLimits(1 << 20, timestamp_before_max_ms=HOUR, timestamp_after_max_ms=HOUR)
    refused = refusal(stamped(NOW - HOUR - 1, NOW, NOW + HOUR + 1, NOW + HOUR), limits)
    assert refused.code is ErrorCode.invalid_timestamp
    assert refused.detail == "One or more records have been rejected due to invalid timestamp"
    between = f"is out of range. The timestamp should be within [{NOW - HOUR}, {NOW + HOUR}]"
    assert list(refused.record_errors) == [
        (0, f"Timestamp {NOW - HOUR - 1} of message with offset 0 {between}"),
        (2, f"Timestamp {NOW + HOUR + 1} of message with offset 2 {between}"),
    ]


def test_a_header_that_lies_about_its_timestamps_is_refused_without_names() -> None:
    batch = stamped(NOW)
    header = read_header(batch)._replace(max_timestamp=NOW + 2 * HOUR)
    lying = memoryview(bytearray(header.pack() + bytes(batch[61:])))
    stamp_checksum(lying)
    with pytest.raises(Refused) as raised:
        validate_produced(lying, BatchLimits(1 << 20, timestamp_after_max_ms=HOUR), NOW)
    assert raised.value.code is ErrorCode.invalid_timestamp
    assert not isinstance(raised.value, RecordsRefused)


def test_where_both_are_wrong_the_timestamp_gives_the_code() -> None:
    limits = KEYED._replace(timestamp_after_max_ms=HOUR)
    batch = memoryview(
        build_batch([NewRecord(b"v", None, NOW), NewRecord(b"v", b"k", NOW + 2 * HOUR)])
    )
    refused = refusal(batch, limits)
    assert refused.code is ErrorCode.invalid_timestamp
    assert [index for index, _ in refused.record_errors] == [0, 1]
    assert refused.record_errors[0].message == KEYLESS


def test_keys_are_needed_also_where_the_broker_sets_the_time() -> None:
    limits = KEYED._replace(is_log_append_time=True, timestamp_after_max_ms=0)
    assert refusal(stamped(NOW + HOUR, key=None), limits).code is ErrorCode.invalid_record
    validate_produced(stamped(NOW + HOUR), limits, NOW)


def test_log_append_time_is_the_brokers_to_set() -> None:
    batch = stamped(NOW)
    header = read_header(batch)
    claimed = header._replace(attributes=header.attributes | LOG_APPEND_TIME_BIT)
    forged = memoryview(bytearray(claimed.pack() + bytes(batch[61:])))
    stamp_checksum(forged)
    with pytest.raises(Refused, match="LogAppendTime") as raised:
        validate_produced(forged, BatchLimits(1 << 20), NOW)
    assert raised.value.code is ErrorCode.invalid_timestamp


@given(
    st.lists(
        st.builds(
            NewRecord,
            value=st.none() | st.binary(max_size=300),
            key=st.none() | st.binary(max_size=300),
            timestamp_ms=st.integers(0, 2**45),
            headers=st.just((("h", b"x" * 9),)) | st.just(()),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_heads_are_those_of_the_whole_records(records: list[NewRecord]) -> None:
    batch = memoryview(build_batch(records))
    whole = [(each.timestamp_ms, each.offset, each.key is not None) for each in read_records(batch)]
    assert list(record_heads(read_header(batch), batch)) == whole


@given(st.binary(max_size=80), st.integers(1, 9))
def test_heads_of_garbage_are_refused_or_read(garbage: bytes, count: int) -> None:
    header = read_header(batch_of(b"k"))._replace(record_count=count)
    whole = memoryview(header.pack() + garbage)
    code, heads = None, []
    try:
        heads = list(record_heads(header, whole))
    except Refused as refused:
        code = refused.code
    assert code is ErrorCode.corrupt_message or len(heads) == count
