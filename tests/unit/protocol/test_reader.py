"""What the adapter's tests cannot reach: unknown tags, bombs, shapes that no message has yet."""

import struct
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.model.errors import PeerError
from cluster.protocol import messages
from cluster.protocol.adapter import decode_request
from cluster.protocol.api import ApiKey, is_flexible
from cluster.protocol.layout import WireField, wire
from cluster.protocol.reader import (
    ELEMENTS_MAX,
    decoder_of,
    read_varint,
    skip_tags,
    tag_spans,
    uuid_of,
)
from cluster.protocol.writer import _WriterCompiler, encoder_of, varint
from tests.unit.protocol.kio_oracle import EVERY_VERSION, request_of, requests

UNKNOWN_TAG = b"\2\x63\3abc\xe4\1\0"
"""Tag 99 with three bytes, tag 228 with none."""


class TaggingCompiler(_WriterCompiler):
    """Writes a tag that nobody knows at the end of every struct."""

    def _tags(self, tagged: list[WireField], version: int) -> None:
        assert not tagged
        self._emit(f"out += {UNKNOWN_TAG!r}")

    def _nested(self, each: WireField, version: int) -> str:
        name = f"write_{each.name}"
        self.names[name] = tagging_encoder(each.struct, version)
        return name


def tagging_encoder(message: Any, version: int) -> Any:
    compiler = TaggingCompiler(flexible=True)
    exec(compiler.source(message, version), compiler.names)
    return compiler.names["write"]


@pytest.mark.parametrize(("key", "version"), [each for each in EVERY_VERSION if is_flexible(*each)])
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_unknown_tagged_fields_are_skipped(key: int, version: int, data: Any) -> None:
    request = request_of(key, data.draw(requests(key, version)))
    out = bytearray()
    tagging_encoder(messages.REQUESTS[key], version)(request, out)
    read = decoder_of(messages.REQUESTS[key], version, flexible=True)
    assert read(bytes(out), 0, len(out)) == (request, len(out))


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
def test_varints_come_back(value: int) -> None:
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


@dataclass(slots=True, kw_only=True)
class Inner:
    number: int = field(metadata=wire("int32"), default=-1)


@dataclass(slots=True, kw_only=True)
class Everything:
    """One field of every shape that Kafka's definitions may bring."""

    struct: Inner = field(metadata=wire("struct"))
    nullable: Inner | None = field(metadata=wire("struct", nullable_since=0))
    dates: tuple[datetime, ...] = field(metadata=wire("datetime_i64"))
    blob: bytes | None = field(metadata=wire("bytes", nullable_since=0))
    blobs: tuple[bytes, ...] = field(metadata=wire("bytes"))
    tagged_number: int = field(metadata=wire("int64", tag=0), default=7)
    tagged_code: Any = field(metadata=wire("uuid", tag=1), default=None)
    tagged_text: str = field(metadata=wire("string", tag=2), default="")
    tagged_struct: Inner = field(metadata=wire("struct", tag=3), default_factory=Inner)
    tagged_list: tuple[Inner, ...] = field(metadata=wire("struct", tag=4), default=())
    old: Inner = field(metadata=wire("struct", since=9), default_factory=Inner)


FULL = Everything(
    struct=Inner(number=1),
    nullable=Inner(number=2),
    dates=(datetime.fromisoformat("2020-01-01T00:00:00Z"),),
    blob=b"xyz",
    blobs=(b"", b"a"),
    tagged_number=8,
    tagged_code=uuid_of(b"0123456789abcdef"),
    tagged_text="text",
    tagged_struct=Inner(number=3),
    tagged_list=(Inner(number=4), Inner(number=5)),
)
EMPTY = Everything(struct=Inner(), nullable=None, dates=(), blob=None, blobs=())


@pytest.mark.parametrize("message", [FULL, EMPTY])
def test_every_shape_comes_back(message: Everything) -> None:
    out = bytearray()
    encoder_of(Everything, 0, flexible=True)(message, out)
    assert decoder_of(Everything, 0, flexible=True)(bytes(out), 0, len(out)) == (message, len(out))


def test_every_shape_cut_short_is_the_peers_mistake() -> None:
    out = bytearray()
    encoder_of(Everything, 0, flexible=True)(FULL, out)
    read = decoder_of(Everything, 0, flexible=True)
    for cut in range(len(out)):
        with pytest.raises((PeerError, IndexError, ValueError, struct.error)):
            read(bytes(out[:cut]), 0, cut)


def test_a_default_struct_is_not_shared_between_messages() -> None:
    out = bytearray()
    encoder_of(Everything, 0, flexible=True)(EMPTY, out)
    read = decoder_of(Everything, 0, flexible=True)
    one, other = (read(bytes(out), 0, len(out))[0] for _ in range(2))
    one.tagged_struct.number = 99
    assert other.tagged_struct.number == other.old.number == -1


@pytest.mark.parametrize("version", [4, 12])
def test_an_array_of_more_elements_than_any_request_has_is_refused_unread(version: int) -> None:
    """Two bytes of request would become an object of a hundred."""
    count = ELEMENTS_MAX + 1
    size = struct.pack(">i", count) if version < 9 else varint(count + 1)
    frame = memoryview(size + bytes(20 * count))
    with pytest.raises(PeerError, match=f"array of {count} elements"):
        decode_request(ApiKey.METADATA, version, frame, 0)
