import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.request_header.v1.header import RequestHeader as HeaderV1
from kio.schema.request_header.v2.header import RequestHeader as HeaderV2
from kio.serial import entity_writer
from kio.static.primitive import i16, i32

from cluster.model.errors import PeerError
from cluster.protocol.api import ApiKey
from cluster.protocol.framing import parse_request_header

CLIENT_IDS = st.none() | st.text(max_size=40)


def written(header: HeaderV1 | HeaderV2) -> bytes:
    out = io.BytesIO()
    entity_writer(type(header))(out, header)
    return out.getvalue()


@given(client_id=CLIENT_IDS, correlation_id=st.integers(-(2**31), 2**31 - 1), rest=st.binary())
def test_a_plain_header_is_read(client_id: str | None, correlation_id: int, rest: bytes) -> None:
    raw = written(
        HeaderV1(
            request_api_key=i16(ApiKey.METADATA),
            request_api_version=i16(8),
            correlation_id=i32(correlation_id),
            client_id=client_id,
        )
    )
    header = parse_request_header(memoryview(raw + rest))
    assert header == (ApiKey.METADATA, 8, correlation_id, client_id, len(raw))


@given(client_id=CLIENT_IDS, rest=st.binary())
def test_a_flexible_header_is_read(client_id: str | None, rest: bytes) -> None:
    raw = written(
        HeaderV2(
            request_api_key=i16(ApiKey.METADATA),
            request_api_version=i16(9),
            correlation_id=i32(5),
            client_id=client_id,
        )
    )
    assert parse_request_header(raw + rest) == (ApiKey.METADATA, 9, 5, client_id, len(raw))
    with_tag = raw[:-1] + b"\1\7\2ab"
    header = parse_request_header(with_tag + rest)
    assert header == (ApiKey.METADATA, 9, 5, client_id, len(with_tag))


@pytest.mark.parametrize(
    ("key", "version", "flexible"),
    [
        (ApiKey.SASL_HANDSHAKE, 1, False),
        (ApiKey.OFFSET_DELETE, 0, False),
        (ApiKey.API_VERSIONS, 2, False),
        (ApiKey.API_VERSIONS, 3, True),
        (ApiKey.API_VERSIONS, 99, True),
        (ApiKey.DESCRIBE_CLUSTER, 0, True),
    ],
)
def test_the_header_version_follows_from_key_and_version(
    key: int, version: int, flexible: bool
) -> None:
    frame = struct.pack(">hhih", key, version, 1, -1) + b"\0body"
    assert parse_request_header(frame).body_position == (11 if flexible else 10)


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0\3\0\1\0\0\0\1\0",
        struct.pack(">hhih", 3, 1, 1, -2),
        struct.pack(">hhih", 3, 1, 1, 5) + b"abc",
        struct.pack(">hhih", 3, 1, 1, 1) + b"\xff",
        struct.pack(">hhih", 3, 9, 1, -1),
        struct.pack(">hhih", 3, 9, 1, -1) + b"\1\0\5ab",
        struct.pack(">hhih", 3, 9, 1, -1) + b"\xff\xff\xff\xff\xff",
    ],
)
def test_a_broken_header_is_the_peers_mistake(frame: bytes) -> None:
    with pytest.raises(PeerError):
        parse_request_header(frame)


@given(frame=st.binary(max_size=40))
def test_garbage_is_a_header_or_the_peers_mistake(frame: bytes) -> None:
    reason = ""
    try:
        assert parse_request_header(frame).body_position <= len(frame)
    except PeerError as error:
        reason = str(error)
    assert "\n" not in reason
