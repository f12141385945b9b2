from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from cluster.model.errors import ErrorCode
from cluster.protocol import messages as m
from cluster.protocol.writer import encoder_of, timestamp_of, uuid_bytes, varint

NO_TIME = timedelta(0)


@pytest.mark.parametrize(
    ("value", "raw"),
    [(0, "00"), (127, "7f"), (128, "8001"), (1023, "ff07"), (1024, "8008"), (2**31, "8080808008")],
)
def test_varints_are_those_of_protocol_buffers(value: int, raw: str) -> None:
    assert varint(value).hex() == raw


def test_absent_values_have_kafkas_neutral_form() -> None:
    assert uuid_bytes(None) == bytes(16)
    assert uuid_bytes(UUID(int=1)) == bytes(15) + b"\1"
    assert timestamp_of(None) == -1
    assert timestamp_of(datetime.fromtimestamp(1.5, UTC)) == 1500


@pytest.mark.parametrize(
    ("version", "flexible", "null"), [(11, True, b"\1"), (12, True, b"\0"), (5, False, b"\0\0")]
)
def test_a_name_that_is_none_is_null_or_empty(version: int, flexible: bool, null: bytes) -> None:
    topic = m.MetadataResponseTopic(
        error_code=ErrorCode.none, name=None, topic_id=None, partitions=()
    )
    out = bytearray()
    encoder_of(m.MetadataResponseTopic, version, flexible=flexible)(topic, out)
    assert out[2 : 2 + len(null)] == null


def test_an_encoder_appends() -> None:
    out = bytearray(b"before")
    encoder_of(m.MetadataResponseBroker, 0, flexible=False)(
        m.MetadataResponseBroker(node_id=1, host="h", port=2), out
    )
    assert out == b"before" + bytes.fromhex("00000001 0001 68 00000002")


def test_a_string_too_long_for_its_version_is_our_bug_and_not_sent() -> None:
    broker = m.MetadataResponseBroker(node_id=1, host="h" * 40_000, port=2)
    with pytest.raises(Exception, match="32767"):
        encoder_of(m.MetadataResponseBroker, 0, flexible=False)(broker, bytearray())
