"""What the adapter's tests do not cover: unknown tags, and invalid lengths."""

import struct
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.model.errors import PeerError
from cluster.protocol import messages
from cluster.protocol.adapter import decode_request
from cluster.protocol.api import FIRST_FLEXIBLE, ApiKey, is_flexible
from cluster.protocol.codegen.definitions import wire_struct
from cluster.protocol.reader import ELEMENTS_MAX, read_varint, skip_tags, tag_spans, uuid_of
from cluster.protocol.writer import varint
from tests.support.examples import examples
from tests.unit.protocol.generated_functions import generated
from tests.unit.protocol.kio_oracle import EVERY_VERSION, SERVED, request_of, requests

UNKNOWN_TAG = b"\2\x63\3abc\xe4\1\0"
"""Tag 99 with three bytes, tag 228 with none."""


@cache
def tagging_writer(key: int) -> Any:
    """Writes an unknown tag at the end of every struct."""
    message = wire_struct(ApiKey(key), "request", *SERVED[key])
    versions = range(SERVED[key][0], SERVED[key][1] + 1)
    return generated("write", message, versions, FIRST_FLEXIBLE.get(key, 0), NO_TAGS=UNKNOWN_TAG)


@pytest.mark.parametrize(("key", "version"), [each for each in EVERY_VERSION if is_flexible(*each)])
@examples(15)
@given(data=st.data())
def test_unknown_tagged_fields_are_skipped(key: int, version: int, data: Any) -> None:
    request = request_of(key, data.draw(requests(key, version)))
    out = bytearray()
    tagging_writer(key)(out, request, version)
    read = messages.READ_REQUEST[key]
    assert read(bytes(out), 0, len(out), version) == (request, len(out))


@pytest.mark.parametrize("count", [0x7FFFFFFF, 100_000, -2, -(2**31)])
def test_a_declared_count_allocates_nothing(count: int) -> None:
    with pytest.raises(PeerError):
        decode_request(ApiKey.CREATE_TOPICS, 2, struct.pack(">i", count) + bytes(40), 0)


@pytest.mark.parametrize("count", [b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\xff\x01", b"\0"])
def test_a_declared_compact_count_allocates_nothing(count: bytes) -> None:
    with pytest.raises(PeerError):
        decode_request(ApiKey.CREATE_TOPICS, 5, count + bytes(40), 0)


def test_a_string_that_is_not_utf8_is_the_peers_mistake() -> None:
    with pytest.raises(PeerError, match="utf-8"):
        decode_request(ApiKey.METADATA, 1, b"\0\0\0\1\0\1\xff", 0)


@given(value=st.integers(0, 2**32 - 1))
def test_varints_are_read_back(value: int) -> None:
    raw = varint(value)
    assert read_varint(raw, 0) == (value, len(raw))


def test_a_varint_has_five_bytes_at_most() -> None:
    with pytest.raises(PeerError, match="five"):
        read_varint(b"\x80" * 9, 0)


def test_tags_are_found_and_skipped() -> None:
    raw = b"xx" + UNKNOWN_TAG + b"rest"
    assert tag_spans(raw, 2, len(raw)) == ({99: (5, 8), 228: (11, 11)}, 11)
    assert skip_tags(raw, 2, len(raw)) == 11


@pytest.mark.parametrize("raw", [b"\1\0\5abc", b"\xff\xff\xff\xff\x07", b"\5\0\0"])
def test_tags_that_overrun_the_frame_are_the_peers_mistake(raw: bytes) -> None:
    with pytest.raises(PeerError):
        tag_spans(raw, 0, len(raw))


def test_the_zero_uuid_is_none() -> None:
    assert uuid_of(bytes(16)) is None
    assert str(uuid_of(bytes(15) + b"\1")).endswith("1")


@pytest.mark.parametrize("version", [4, 12])
def test_an_array_of_more_elements_than_any_request_has_is_refused_unread(version: int) -> None:
    """Two bytes of a request would become an object of a hundred bytes."""
    count = ELEMENTS_MAX + 1
    size = struct.pack(">i", count) if version < 9 else varint(count + 1)
    frame = memoryview(size + bytes(20 * count))
    with pytest.raises(PeerError, match=f"array of {count} elements"):
        decode_request(ApiKey.METADATA, version, frame, 0)
