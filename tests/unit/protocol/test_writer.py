from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from cluster.model.errors import ErrorCode
from cluster.protocol import messages as m
from cluster.protocol.api import ApiKey
from cluster.protocol.messages.metadata import write_metadata_response_partition
from cluster.protocol.writer import EncodedItems, timestamp_of, uuid_bytes, varint

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


def metadata(**changes: Any) -> m.MetadataResponse:
    fields = {"throttle_time": NO_TIME, "brokers": (), "topics": (), "error_code": ErrorCode.none}
    return m.MetadataResponse(**{**fields, **changes})


@pytest.mark.parametrize(
    ("version", "position", "null"), [(11, 13, b"\1"), (12, 13, b"\0"), (5, 20, b"\0\0")]
)
def test_missing_name_is_null_or_empty(version: int, position: int, null: bytes) -> None:
    topic = m.MetadataResponseTopic(
        error_code=ErrorCode.none, name=None, topic_id=None, partitions=()
    )
    out = bytearray()
    m.WRITE_RESPONSE[ApiKey.METADATA](out, metadata(topics=(topic,)), version)
    assert out[position : position + len(null)] == null


def test_a_message_is_appended() -> None:
    out = bytearray(b"before")
    broker = m.MetadataResponseBroker(node_id=1, host="h", port=2)
    m.WRITE_RESPONSE[ApiKey.METADATA](out, metadata(brokers=(broker,)), 0)
    assert out == b"before" + bytes.fromhex("00000001 00000001 0001 68 00000002 00000000")


def test_a_string_too_long_for_its_version_is_our_bug_and_not_sent() -> None:
    broker = m.MetadataResponseBroker(node_id=1, host="h" * 40_000, port=2)
    with pytest.raises(Exception, match="32767"):
        m.WRITE_RESPONSE[ApiKey.METADATA](bytearray(), metadata(brokers=(broker,)), 0)


@pytest.mark.parametrize("version", range(14))
def test_partitions_encoded_in_advance_give_the_same_response(version: int) -> None:
    partitions = tuple(
        m.MetadataResponsePartition(
            error_code=ErrorCode.none, partition_index=n, leader_id=n, replica_nodes=(n, 2)
        )
        for n in range(200)
    )
    content = bytearray()
    for partition in partitions:
        write_metadata_response_partition(content, partition, version)

    def answer(told: tuple[m.MetadataResponsePartition, ...] | EncodedItems) -> bytearray:
        topic = m.MetadataResponseTopic(
            error_code=ErrorCode.none, name="t", topic_id=None, partitions=told
        )
        out = bytearray()
        m.WRITE_RESPONSE[ApiKey.METADATA](out, metadata(topics=(topic,)), version)
        return out

    assert answer(EncodedItems(len(partitions), content)) == answer(partitions)
