"""Messages of formats v0 and v1: reading, comparison with kafka-python, conversion to batches."""

import contextlib
import struct
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.model.errors import ErrorCode, Refused
from cluster.records.batch import Compression, batches_of, read_header
from cluster.records.compression import compress
from cluster.records.conversion import GATHERED_BYTES, converted
from cluster.records.legacy import messages_of, read_message, records_of_message
from cluster.records.lz4_header import with_valid_header_checksum, xxh32_of_few
from cluster.records.reader import Record, read_records, records_of_batch
from tests.support.old_messages import old_compressed, old_message, with_kafkas_wrong_checksum

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # for its way to read resources
    from kafka.record.legacy_records import LegacyRecordBatchBuilder

OLD_CODECS = [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4]
PACKED = [codec for codec in OLD_CODECS if codec is not Compression.NONE]

field = st.one_of(st.none(), st.binary(max_size=40), st.binary(min_size=200, max_size=300))


@st.composite
def stored(draw: st.DrawFn, magic: int) -> list[Record]:
    """Records as in a compacted log: offsets ascend with gaps."""
    offset = draw(st.integers(0, 2**40))
    records = []
    for _ in range(draw(st.integers(1, 8))):
        stamp = draw(st.integers(-1, 2**45)) if magic == 1 else -1
        records.append(Record(offset, stamp, draw(field), draw(field)))
        offset += draw(st.integers(1, 3))
    return records


def read_set(content: bytes) -> list[Record]:
    """Every record of a message set."""
    return [record for message in messages_of(content) for _, record in records_of_message(message)]


def in_batches(content: bytes) -> list[Record]:
    """Every record of a message set after its conversion."""
    return list(read_records(b"".join(converted(messages_of(content)))))


@pytest.mark.parametrize("magic", [0, 1])
@given(data=st.data())
def test_single_messages_are_read_and_converted(magic: int, data: st.DataObject) -> None:
    records = data.draw(stored(magic))
    content = b"".join(old_message(record, magic) for record in records)
    assert read_set(content) == records
    assert all(message.is_valid for message in messages_of(content))
    assert in_batches(content) == records


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize("magic", [0, 1])
@given(data=st.data())
def test_compressed_messages_are_read_and_converted(
    magic: int, codec: Compression, data: st.DataObject
) -> None:
    records = data.draw(stored(magic))
    content = old_compressed(records, magic, codec)
    assert read_set(content) == records
    (batch,) = converted(messages_of(content))
    assert list(read_records(batch)) == records
    header = read_header(batch)
    assert header.compression is codec
    assert (header.base_offset, header.last_offset) == (records[0].offset, records[-1].offset)
    assert (header.producer_id, header.base_sequence, header.partition_leader_epoch) == (-1, -1, -1)


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP, Compression.SNAPPY])
@pytest.mark.parametrize("magic", [0, 1])
@given(records=st.lists(st.tuples(field, field, st.integers(0, 2**45)), min_size=1, max_size=8))
def test_messages_of_kafka_python_are_read(
    magic: int, codec: Compression, records: list[tuple[bytes | None, bytes | None, int]]
) -> None:
    """kafka-python gives the outer message the offset 0, as old versions of librdkafka did."""
    builder = LegacyRecordBatchBuilder(magic, int(codec), 1 << 20)
    for offset, (key, value, stamp) in enumerate(records):
        assert builder.append(offset, stamp, key, value) is not None
    content = bytes(builder.build())
    assert read_set(content) == [
        Record(offset, stamp if magic == 1 else -1, key, value)
        for offset, (key, value, stamp) in enumerate(records)
    ]
    assert all(message.is_valid for message in messages_of(content))


def test_log_append_time_of_the_outer_message_is_that_of_all_inside() -> None:
    records = [Record(5, 100, None, b"a"), Record(6, 90, None, b"b")]
    content = old_compressed(records, 1, Compression.GZIP, append_time_ms=7_000)
    assert [record.timestamp_ms for record in read_set(content)] == [7_000, 7_000]
    (batch,) = converted(messages_of(content))
    assert read_header(batch).is_log_append_time
    assert [record.timestamp_ms for record in read_records(batch)] == [7_000, 7_000]


def test_messages_with_different_append_times_stay_apart() -> None:
    stamps = [7, 7, 8]
    content = b"".join(
        old_message(Record(offset, stamp, None, b"v"), 1, is_log_append_time=True)
        for offset, stamp in enumerate(stamps)
    )
    assert [record.timestamp_ms for record in in_batches(content)] == stamps
    counts = [read_header(batch).record_count for batch in converted(messages_of(content))]
    assert counts == [2, 1]


def test_single_messages_are_gathered_up_to_a_size() -> None:
    content = b"".join(old_message(Record(n, n, b"k", bytes(100)), 1) for n in range(1_000))
    sizes = [len(batch) for batch in converted(messages_of(content))]
    assert max(sizes) <= GATHERED_BYTES
    assert len(sizes) < 10


def test_single_and_compressed_messages_keep_their_order() -> None:
    records = [Record(n, n, None, b"%d" % n) for n in range(6)]
    content = (
        old_message(records[0], 1)
        + old_message(records[1], 1)
        + old_compressed(records[2:4], 1, Compression.LZ4)
        + old_message(records[4], 1)
        + old_message(Record(5, -1, None, b"5"), 0)
    )
    assert in_batches(content) == [*records[:5], Record(5, -1, None, b"5")]


def test_a_part_of_a_message_at_the_end_is_left_out() -> None:
    content = old_message(Record(0, 1, None, b"a"), 1)
    for size in range(len(content)):
        assert [m.offset for m in messages_of(content + content[:size])] == [0]


def test_conversion_stops_at_a_wrong_checksum_after_the_batches_before_it() -> None:
    good = [Record(0, 1, None, b"a"), Record(1, 2, None, b"b")]
    damaged = bytearray(old_message(Record(2, 3, None, b"c"), 1))
    damaged[-1] ^= 1
    content = b"".join(old_message(record, 1) for record in good) + damaged
    batches = converted(messages_of(content))
    assert list(read_records(next(batches))) == good
    with pytest.raises(Refused, match="checksum of the message at offset 2") as raised:
        next(batches)
    assert raised.value.code is ErrorCode.corrupt_message


@pytest.mark.parametrize(
    "content",
    [
        old_message(Record(0, 1, None, b"a"), 1)[:20],
        old_message(Record(0, 1, None, b"a"), 1)[:-1] + struct.pack(">b", 3),
        struct.pack(">qiIbb", 0, 13, 0, 0, 0) + bytes(20),
        struct.pack(">qiIbbii", 0, 14, 0, 0, 0, 2**31 - 1, 0) + bytes(20),
        struct.pack(">qiIbb", 0, 14, 0, 2, 0) + bytes(20),
        b"",
    ],
    ids=["cut", "value", "too small", "key beyond the end", "magic 2", "empty"],
)
def test_a_damaged_message_is_refused_or_fails_its_checksum(content: bytes) -> None:
    with contextlib.suppress(Refused):
        assert not read_message(content).is_valid


@pytest.mark.parametrize(
    ("codec", "value"),
    [
        (Compression.GZIP, None),
        (Compression.GZIP, b"no gzip"),
        (Compression.GZIP, compress(Compression.GZIP, b"")),
        (
            Compression.GZIP,
            compress(Compression.GZIP, old_message(Record(0, 1, None, b"other format"), 0)),
        ),
        (Compression.ZSTD, compress(Compression.ZSTD, b"")),
    ],
)
def test_a_damaged_inside_is_refused(codec: Compression, value: bytes | None) -> None:
    message = read_message(old_message(Record(9, 1, None, value), 1, codec=codec))
    with pytest.raises(Refused):
        records_of_message(message)
    with pytest.raises(Refused):
        list(converted([message]))


def test_size_of_decompressed_messages_is_bounded() -> None:
    content = old_compressed([Record(0, 1, None, bytes(100_000))], 1, Compression.GZIP)
    with pytest.raises(Refused):
        records_of_message(read_message(content), max_bytes=50_000)


@given(st.binary(max_size=200))
def test_any_bytes_are_messages_or_refused(content: bytes) -> None:
    with contextlib.suppress(Refused):
        for message in messages_of(content):
            records_of_message(message)
    with contextlib.suppress(Refused):
        for batch in converted(messages_of(content)):
            for header, whole in batches_of(memoryview(batch)):
                list(records_of_batch(header, whole))


# -- the checksum in the header of an LZ4 frame ---------------------------------------------------


@pytest.mark.parametrize(
    ("data", "digest"), [(b"", 0x02CC5D05), (b"a", 0x550D7456), (b"abc", 0x32D153FF)]
)
def test_xxh32_of_published_examples(data: bytes, digest: int) -> None:
    assert xxh32_of_few(data) == digest


def test_a_wrong_header_checksum_is_made_right() -> None:
    frame = compress(Compression.LZ4, b"text")
    wrong = with_kafkas_wrong_checksum(frame)
    assert wrong != frame
    assert with_valid_header_checksum(wrong) == frame
    assert with_valid_header_checksum(frame) == frame


def test_a_truncated_lz4_header_is_unchanged() -> None:
    frame = compress(Compression.LZ4, b"text")
    for size in range(7):
        assert with_valid_header_checksum(frame[:size]) == frame[:size]
