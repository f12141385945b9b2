"""Primitives of the wire: round trips, and every truncation is noticed."""

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.coordinator.registry.wire.jute import (
    MalformedRecord,
    RecordReader,
    encode_bool,
    encode_buffer,
    encode_int,
    encode_long,
    encode_string,
)

INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)


@given(INTS, LONGS, st.booleans(), st.none() | st.binary(), st.text())
def test_encoded_values_are_decoded(
    number: int, long: int, flag: bool, buffer: bytes | None, text: str
) -> None:
    record = (
        encode_int(number)
        + encode_long(long)
        + encode_bool(flag)
        + encode_buffer(buffer)
        + encode_string(text)
    )
    reader = RecordReader(record)
    assert reader.read_int() == number
    assert reader.read_long() == long
    assert reader.read_bool() is flag
    assert reader.read_buffer() == buffer
    assert reader.read_string() == text
    assert reader.remaining_bytes == 0


@given(st.binary(), st.text(), st.data())
def test_every_truncation_is_noticed(buffer: bytes, text: str, data: st.DataObject) -> None:
    record = encode_long(1) + encode_buffer(buffer) + encode_string(text)
    reader = RecordReader(record[: data.draw(st.integers(0, len(record) - 1))])
    with pytest.raises(MalformedRecord):
        (reader.read_long(), reader.read_buffer(), reader.read_string())


@given(st.binary())
def test_no_bytes_bring_another_error_than_malformed(record: bytes) -> None:
    for read in (RecordReader.read_buffer, RecordReader.read_string, RecordReader.read_bool):
        with contextlib.suppress(MalformedRecord):
            read(RecordReader(record))
    with contextlib.suppress(MalformedRecord):
        RecordReader(record).read_vector(RecordReader.read_string)


def test_lengths_and_counts_that_cannot_be() -> None:
    with pytest.raises(MalformedRecord):
        RecordReader(struct.pack(">i", -2)).read_buffer()
    with pytest.raises(MalformedRecord):
        RecordReader(struct.pack(">i", 2**31 - 1) + b"abc").read_vector(RecordReader.read_int)
    with pytest.raises(MalformedRecord):
        RecordReader(struct.pack(">i", 1) + b"\xff").read_string()


def test_null_vector_and_null_string_are_empty() -> None:
    assert RecordReader(encode_int(-1)).read_vector(RecordReader.read_int) == ()
    assert RecordReader(encode_int(-1)).read_string() == ""
