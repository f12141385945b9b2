from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.metadata.v10.request import MetadataRequest as MetadataRequestV10
from kio.schema.metadata.v11.request import MetadataRequest as MetadataRequestV11

from cluster.client.socket_client import SPOKEN
from cluster.model.errors import ErrorCode, PeerError
from cluster.protocol import messages
from cluster.protocol.adapter import decode_request, encode_response
from cluster.protocol.api import ApiKey
from tests.support.examples import examples
from tests.unit.protocol.kio_oracle import (
    EVERY_VERSION,
    SERVED,
    kio_bytes,
    kio_frame,
    request_of,
    requests,
    response_of,
    responses,
)

NO_TIME = timedelta(0)


def is_answerable(theirs: Any) -> bool:
    """Not a Metadata request of version 10 or 11 that asks by id."""
    if not isinstance(theirs, MetadataRequestV10 | MetadataRequestV11):
        return True
    return all(topic.name is not None for topic in theirs.topics or ())


@pytest.mark.slow
@pytest.mark.parametrize(("key", "version"), EVERY_VERSION)
@examples(8)
@given(data=st.data())
def test_responses_are_the_bytes_that_kio_writes(key: int, version: int, data: Any) -> None:
    theirs = data.draw(responses(key, version))
    correlation_id = data.draw(st.integers(-(2**31), 2**31 - 1))
    frame = encode_response(key, version, correlation_id, response_of(key, theirs))
    if (key, theirs.error_code if key == ApiKey.INIT_PRODUCER_ID else None) != (
        ApiKey.INIT_PRODUCER_ID,
        ErrorCode.producer_fenced,
    ):
        assert frame == kio_frame(theirs, correlation_id)


@pytest.mark.slow
@pytest.mark.parametrize(("key", "version"), EVERY_VERSION)
@examples(8)
@given(data=st.data())
def test_requests_are_read_wherever_they_begin_and_leftovers_are_ignored(
    key: int, version: int, data: Any
) -> None:
    theirs = data.draw(requests(key, version).filter(is_answerable))
    before = data.draw(st.binary(max_size=9))
    frame = before + kio_bytes(theirs) + data.draw(st.binary(max_size=9))
    decoded = decode_request(key, version, memoryview(frame), len(before))
    expected = request_of(key, theirs)
    if key == ApiKey.DELETE_TOPICS and version < 6:
        expected.topics = decoded.topics
    if key == ApiKey.METADATA and version == 0:
        expected.topics = expected.topics or None
    if key == ApiKey.METADATA and version in (10, 11):
        for topic in expected.topics or ():
            topic.topic_id = None
    assert decoded == expected


@pytest.mark.parametrize(("key", "version"), EVERY_VERSION)
@examples(8)
@given(data=st.data())
def test_garbage_is_a_message_or_the_peers_mistake(key: int, version: int, data: Any) -> None:
    frame = data.draw(st.binary(max_size=80))
    reason = ""
    try:
        decode_request(key, version, frame, 0)
    except PeerError as error:
        reason = str(error)
    assert "\n" not in reason


@pytest.mark.parametrize(("key", "version"), EVERY_VERSION)
@examples(4)
@given(data=st.data())
def test_a_request_cut_short_is_the_peers_mistake(key: int, version: int, data: Any) -> None:
    body = kio_bytes(data.draw(requests(key, version)))
    if body:
        cut = data.draw(st.integers(0, len(body) - 1))
        with pytest.raises(PeerError):
            decode_request(key, version, body[:cut], 0)


def test_a_writable_frame_is_read() -> None:
    frame = memoryview(bytearray(b"\0\0\0\1\0\3abc"))
    request = decode_request(ApiKey.METADATA, 1, frame, 0)
    assert [topic.name for topic in request.topics] == ["abc"]


def test_metadata_v0_means_all_topics_by_an_empty_list() -> None:
    assert decode_request(ApiKey.METADATA, 0, b"\0\0\0\0", 0).topics is None


def test_metadata_v1_means_no_topics_by_an_empty_list_and_all_by_null() -> None:
    assert decode_request(ApiKey.METADATA, 1, b"\0\0\0\0", 0).topics == ()
    assert decode_request(ApiKey.METADATA, 1, b"\xff\xff\xff\xff", 0).topics is None


@pytest.mark.parametrize("version", [10, 11])
def test_metadata_is_asked_for_by_name_until_v12(version: int) -> None:
    body = b"\2" + bytes(15) + b"\1" + b"%b\0\0\0\0\0"
    request = decode_request(ApiKey.METADATA, version, body % b"\2a", 0)
    assert request.topics == (messages.MetadataRequestTopic(name="a", topic_id=None),)
    with pytest.raises(PeerError, match="without a name"):
        decode_request(ApiKey.METADATA, version, body % b"\0", 0)


@pytest.mark.parametrize("version", [0, 3])
def test_metadata_below_v4_may_create_topics(version: int) -> None:
    request = decode_request(ApiKey.METADATA, version, b"\0\0\0\1\0\1a", 0)
    assert request.allow_auto_topic_creation
    assert request.topics[0] == messages.MetadataRequestTopic(name="a", topic_id=None)


def test_delete_topics_by_name_looks_like_the_newest_version() -> None:
    request = decode_request(ApiKey.DELETE_TOPICS, 1, b"\0\0\0\2\0\1a\0\1b\0\0\3\xe8", 0)
    assert request.topics == (
        messages.DeleteTopicState(name="a", topic_id=None),
        messages.DeleteTopicState(name="b", topic_id=None),
    )
    assert request.timeout == timedelta(seconds=1)


@pytest.mark.parametrize(
    ("version", "code"),
    [(3, ErrorCode.invalid_producer_epoch), (4, ErrorCode.producer_fenced)],
)
def test_fenced_producer_gets_the_error_of_its_version(version: int, code: int) -> None:
    response = messages.InitProducerIdResponse(
        throttle_time=NO_TIME,
        error_code=ErrorCode.producer_fenced,
        producer_id=-1,
        producer_epoch=-1,
    )
    frame = encode_response(ApiKey.INIT_PRODUCER_ID, version, 1, response)
    assert int.from_bytes(frame[13:15], "big") == code
    assert response.error_code is ErrorCode.producer_fenced


@pytest.mark.parametrize("version", range(14))
def test_null_becomes_empty_where_a_version_has_no_null(version: int) -> None:
    response = messages.MetadataResponse(
        throttle_time=NO_TIME,
        brokers=(messages.MetadataResponseBroker(node_id=1, host="h", port=1),),
        topics=(
            messages.MetadataResponseTopic(
                error_code=ErrorCode.unknown_topic_id, name=None, topic_id=None, partitions=()
            ),
        ),
        error_code=ErrorCode.none,
    )
    assert encode_response(ApiKey.METADATA, version, 1, response)


def test_every_api_is_read_and_answered() -> None:
    tables = (messages.REQUESTS, messages.RESPONSES, messages.READ_REQUEST, messages.WRITE_RESPONSE)
    assert all(set(table) == set(SERVED) for table in tables)


def test_client_messages_are_written_and_read() -> None:
    assert set(messages.WRITE_REQUEST) == set(messages.READ_RESPONSE)
    assert set(messages.WRITE_REQUEST) >= {ApiKey.API_VERSIONS, *SPOKEN}
