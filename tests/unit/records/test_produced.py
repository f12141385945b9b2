"""Refusals of produced batches because of single records."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.model.clocks import WallMs
from cluster.model.errors import ErrorCode, RecordsRefused, Refused
from cluster.model.ids import TopicPartition
from cluster.records import produced as produced_module
from cluster.records.batch import LOG_APPEND_TIME_BIT, Compression, read_header
from cluster.records.builder import NewRecord, build_batch
from cluster.records.checked_batch import IsLong
from cluster.records.compression import compress
from cluster.records.produced import RECORD_ERRORS_MAX, BatchLimits, validate_produced
from cluster.records.reader import heads_of, read_records
from cluster.records.varint import write_varint
from cluster.runtime.compiled import is_compiled
from tests.support.stored_batches import as_stored, with_header

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


def test_records_need_no_key_without_compaction() -> None:
    validate_produced(batch_of(None, None), BatchLimits(1 << 20), NOW)


def test_refusal_shows_three_errors_and_their_number() -> None:
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


def test_wrong_timestamp_gives_the_error_code_when_both_are_wrong() -> None:
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


@pytest.mark.parametrize("codec", list(Compression))
def test_every_record_that_claims_the_brokers_time_is_named(codec: Compression) -> None:
    batch = with_header(batch_of(b"k", b"k", codec=codec), attributes=codec | LOG_APPEND_TIME_BIT)
    refused = refusal(batch, BatchLimits(1 << 20, is_log_append_time=True))
    assert refused.code is ErrorCode.invalid_timestamp
    told = "Producer should not set timestamp type to LogAppendTime"
    assert list(refused.record_errors) == [(0, told), (1, told)]


# -- the header says what the records say ----------------------------------------------------------


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize(
    ("deltas", "claimed"),
    [
        ([0, 1_000, 2_000], -1),
        ([0, 5_000, 1_000], 0),
        ([0, -5_000], 24 * HOUR),
        ([0, 70, 64], -(2**63)),
        ([-1 - NOW, -1 - NOW], 5),
        ([-9 - NOW], 5),
    ],
)
def test_the_largest_timestamp_is_taken_from_the_records(
    codec: Compression, deltas: list[int], claimed: int
) -> None:
    records = [NewRecord(b"v", b"k", NOW + delta) for delta in deltas]
    sound = build_batch(records, codec=codec)
    largest = max(-1, *(NOW + delta for delta in deltas))
    expected = with_header(sound, max_timestamp=largest)
    limits = BatchLimits(1 << 20, timestamp_after_max_ms=HOUR)
    sent = with_header(sound, max_timestamp=claimed)
    produced = validate_produced(sent, limits, NOW)
    assert as_stored(produced) == expected
    assert produced.header.max_timestamp == largest
    assert validate_produced(expected, limits, NOW).from_magic == b""


def test_timestamps_that_are_no_int64_are_refused() -> None:
    for base, delta in ((2**63 - 1, 1), (-(2**63), -1)):
        batch = with_header(stamped(NOW, NOW + delta), base_timestamp=base)
        refused = refusal(batch, BatchLimits(1 << 20))
        assert refused.code is ErrorCode.invalid_timestamp
        assert 1 in [index for index, _ in refused.record_errors]


# -- records that readers could not read -----------------------------------------------------------


def record(body: bytes) -> bytes:
    framed = bytearray()
    write_varint(framed, len(body))
    return bytes(framed) + body


ONE = record(b"\0\0\0\x02k\x02v\0")
SECOND = record(b"\0\0\2\x02k\x02v\0")
NO_RECORDS = {
    "fewer records than the header says": (ONE, 3),
    "more records than the header says": (ONE + SECOND, 1),
    "no record": (b"", 1),
    "bytes of ones": (b"\xff" * 40, 1),
    "a byte left over": (ONE + b"\0", 1),
    "record of 0 bytes": (b"\0", 1),
    "record of -1 bytes": (b"\1", 1),
    "record beyond the batch": (b"\x7e" + ONE[1:], 1),
    "record size in six bytes": (b"\x90\x80\x80\x80\x80\0" + ONE[1:], 1),
    "record size above 32 bits": (b"\x90\x80\x80\x80\x10" + ONE[1:], 1),
    "key of -2 bytes": (record(b"\0\0\0\x03\x02v\0"), 1),
    "value of -2 bytes": (record(b"\0\0\0\x02k\x03\0"), 1),
    "value beyond its record": (record(b"\0\0\0\x02k\x40v\0"), 1),
    "value that is short of its record": (record(b"\0\0\0\x02k\x02vv\0"), 1),
    "-1 headers": (record(b"\0\0\0\x02k\x02v\1"), 1),
    "headers beyond the record": (record(b"\0\0\0\x02k\x02v\x40"), 1),
    "header without a key": (record(b"\0\0\0\x02k\x02v\x02\1\x02h"), 1),
    "header with a value of -2 bytes": (record(b"\0\0\0\x02k\x02v\x02\x02h\x03"), 1),
    "offsets 0, 0": (ONE + ONE, 2),
    "offsets 1, 0": (SECOND + ONE, 2),
}


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("name", NO_RECORDS)
def test_batch_that_readers_could_not_read_is_refused(codec: Compression, name: str) -> None:
    body, count = NO_RECORDS[name]
    sound = batch_of(*[b"k"] * count)
    payload = compress(codec, body)
    batch = with_header(
        bytes(sound[:61]) + payload, batch_length=49 + len(payload), attributes=int(codec)
    )
    with pytest.raises(Refused) as raised:
        validate_produced(batch, BatchLimits(1 << 20), NOW)
    assert raised.value.code is ErrorCode.invalid_record


@pytest.mark.parametrize("codec", list(Compression)[1:])
@pytest.mark.parametrize("body", [b"\xff" * 40, ONE, b"", b"\x82SNAPPY\0\0\0\0\1\0\0\0\1\0\0"])
def test_a_body_that_its_codec_cannot_read_is_an_invalid_record(
    codec: Compression, body: bytes
) -> None:
    batch = with_header(
        bytes(batch_of(b"k")[:61]) + body, batch_length=49 + len(body), attributes=int(codec)
    )
    with pytest.raises(Refused) as raised:
        validate_produced(batch, BatchLimits(1 << 20), NOW)
    assert raised.value.code is ErrorCode.invalid_record


@pytest.mark.skipif(is_compiled(), reason="constants of compiled modules cannot be replaced")
@pytest.mark.parametrize("codec", list(Compression)[1:])
def test_a_batch_that_expands_too_far_is_too_large(
    codec: Compression, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(produced_module, "MAX_DECOMPRESSED_BYTES", 100_000)
    batch = memoryview(build_batch([NewRecord(bytes(100_000))], codec=codec))
    with pytest.raises(Refused) as raised:
        validate_produced(batch, BatchLimits(1 << 20), NOW)
    assert raised.value.code is ErrorCode.message_too_large


# -- what takes long -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("records", "codec", "wanted"),
    [
        ([NewRecord(os.urandom(20_000))], Compression.LZ4, None),
        ([NewRecord(bytes(300_000))], Compression.ZSTD, None),
        ([NewRecord(bytes(20_000))], Compression.NONE, Compression.GZIP),
        ([NewRecord(b"")] * 100_001, Compression.NONE, None),
    ],
)
def test_long_checks_raise_is_long_unless_done_at_once(
    records: list[NewRecord], codec: Compression, wanted: Compression | None
) -> None:
    batch = memoryview(build_batch(records, codec=codec))
    limits = BatchLimits(1 << 20, codec=wanted)
    with pytest.raises(IsLong):
        validate_produced(batch, limits, NOW, at_once=False)
    validate_produced(batch, limits, NOW)


@pytest.mark.parametrize("codec", list(Compression))
def test_short_checks_are_made_at_once(codec: Compression) -> None:
    batch = memoryview(build_batch([NewRecord(bytes(9_000), b"k", NOW)] * 9, codec=codec))
    produced = validate_produced(batch, BatchLimits(1 << 20), NOW, at_once=False)
    assert as_stored(produced) == batch


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
    assert list(heads_of(read_header(batch), batch[61:])) == whole


@given(st.binary(max_size=80), st.integers(1, 9))
def test_heads_of_garbage_are_refused_or_read(garbage: bytes, count: int) -> None:
    header = read_header(batch_of(b"k"))._replace(record_count=count)
    code, heads = None, []
    try:
        heads = list(heads_of(header, garbage))
    except Refused as refused:
        code = refused.code
    assert code is ErrorCode.corrupt_message or len(heads) == count
