"""The record codec against those of kafka-python and (for zstd) aiokafka, in both directions."""

import contextlib
import warnings
from types import ModuleType

import aiokafka.record.default_records as aiokafka_records
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.model.clocks import WallMs
from cluster.model.errors import ErrorCode, Refused
from cluster.records.batch import (
    Compression,
    read_header,
    stamp_checksum,
)
from cluster.records.builder import NewRecord, ProducerIdentity, build_batch
from cluster.records.produced import BatchLimits, validate_produced
from cluster.records.reader import Record, read_records
from tests.support.examples import examples
from tests.support.stored_batches import stored

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # for its way to read resources
    import kafka.record.default_records as kafka_python_records

CODECS = list(Compression)
LIMITS = BatchLimits(max_message_bytes=1 << 30)

field = st.one_of(st.none(), st.binary(max_size=40), st.binary(min_size=200, max_size=300))
headers = st.lists(
    st.tuples(st.text(max_size=8), st.one_of(st.none(), st.binary(max_size=8))), max_size=3
).map(tuple)
timestamps = st.integers(min_value=0, max_value=2**45)
new_records = st.lists(
    st.builds(NewRecord, value=field, key=field, timestamp_ms=timestamps, headers=headers),
    min_size=1,
    max_size=12,
)
producers = st.one_of(
    st.just(ProducerIdentity()),
    st.builds(
        ProducerIdentity,
        st.integers(0, 2**63 - 1),
        st.integers(0, 2**15 - 1),
        st.integers(0, 2**31 - 1),
    ),
)


def client_of(codec: Compression) -> ModuleType:
    """The client's module for a codec: kafka-python needs another library for zstd."""
    return aiokafka_records if codec is Compression.ZSTD else kafka_python_records


def expected(records: list[NewRecord], base_offset: int = 0) -> list[Record]:
    return [
        Record(base_offset + delta, new.timestamp_ms, new.key, new.value, new.headers)
        for delta, new in enumerate(records)
    ]


@pytest.mark.parametrize("codec", CODECS)
@examples(40)
@given(records=new_records, producer=producers, base_offset=st.integers(0, 2**62))
def test_a_client_reads_what_we_build(
    codec: Compression, records: list[NewRecord], producer: ProducerIdentity, base_offset: int
) -> None:
    built = build_batch(records, base_offset=base_offset, codec=codec, producer=producer)
    theirs = client_of(codec).DefaultRecordBatch(bytes(built))
    assert theirs.validate_crc()
    assert (theirs.base_offset, theirs.compression_type) == (base_offset, codec)
    assert (theirs.producer_id, theirs.producer_epoch, theirs.base_sequence) == producer
    assert theirs.max_timestamp == max(record.timestamp_ms for record in records)
    read = [
        Record(one.offset, one.timestamp, one.key, one.value, tuple(one.headers)) for one in theirs
    ]
    assert read == expected(records, base_offset)


@pytest.mark.parametrize("codec", CODECS)
@examples(40)
@given(records=new_records, producer=producers)
def test_we_read_what_a_client_builds(
    codec: Compression, records: list[NewRecord], producer: ProducerIdentity
) -> None:
    theirs = client_batch(records, codec, producer)
    header = validate_produced(memoryview(theirs), LIMITS, wall_ms=WallMs(2**45)).header
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == producer
    assert header.record_count == len(records)
    assert header.last_offset == len(records) - 1
    assert list(read_records(theirs)) == expected(records)


@pytest.mark.parametrize("codec", CODECS)
@examples(40)
@given(records=new_records, producer=producers, target=st.sampled_from(CODECS))
def test_recompressing_changes_the_codec_alone(
    codec: Compression, records: list[NewRecord], producer: ProducerIdentity, target: Compression
) -> None:
    before = build_batch(records, codec=codec, producer=producer)
    header = read_header(before)
    after = stored(before, LIMITS._replace(codec=target), WallMs(2**45))
    changed = validate_produced(memoryview(after), LIMITS, wall_ms=WallMs(2**45)).header
    assert changed.compression is target
    assert (
        changed._replace(
            crc=header.crc, batch_length=header.batch_length, attributes=header.attributes
        )
        == header
    )
    assert list(read_records(after)) == expected(records)


def client_batch(records: list[NewRecord], codec: Compression, producer: ProducerIdentity) -> bytes:
    builder = client_of(codec).DefaultRecordBatchBuilder(2, codec, False, *producer, 1 << 30)
    for offset, new in enumerate(records):
        builder.append(offset, new.timestamp_ms, new.key, new.value, list(new.headers))
    return bytes(builder.build())


def read_everything(damaged: bytes) -> None:
    """Read arbitrary bytes: the result is records or a refusal."""
    with contextlib.suppress(Refused):
        list(read_records(damaged))


@pytest.mark.parametrize("codec", CODECS)
@examples(40)
@given(records=new_records, data=st.data())
def test_damaged_records_are_refused_even_under_a_right_checksum(
    codec: Compression, records: list[NewRecord], data: st.DataObject
) -> None:
    batch = build_batch(records, codec=codec)
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(61, len(batch) - 1))
        batch[position] = data.draw(st.integers(0, 255))
    stamp_checksum(memoryview(batch))
    read_everything(bytes(batch))


@pytest.mark.parametrize("codec", CODECS)
@examples(40)
@given(records=new_records, data=st.data())
def test_cut_batches_are_refused(
    codec: Compression, records: list[NewRecord], data: st.DataObject
) -> None:
    batch = build_batch(records, codec=codec)
    cut = data.draw(st.integers(0, len(batch) - 1))
    read_everything(bytes(batch[:cut]))
    with pytest.raises(Refused) as raised:
        validate_produced(memoryview(batch)[:cut], LIMITS, wall_ms=WallMs(2**45))
    assert raised.value.code is ErrorCode.corrupt_message


@given(garbage=st.binary(max_size=400))
def test_garbage_is_refused(garbage: bytes) -> None:
    read_everything(garbage)
    with pytest.raises(Refused):
        validate_produced(memoryview(garbage), LIMITS, wall_ms=WallMs(0))
