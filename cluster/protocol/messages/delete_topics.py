"""DeleteTopics messages, versions 1 to 6.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import timedelta
from struct import Struct
from uuid import UUID

from cluster.model.error_codes import ErrorCode
from cluster.model.errors import PeerError
from cluster.protocol.reader import (
    ELEMENTS_MAX,
    read_length,
    skip_tags,
    too_many,
    truncated,
    uuid_of,
)
from cluster.protocol.writer import (
    EMPTY_COMPACT,
    EMPTY_STRING,
    MILLISECOND,
    NO_TAGS,
    NULL_COMPACT,
    uuid_bytes,
    varint,
)

_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_s = Struct(">16s").pack
_pack_sh = Struct(">16sh").pack
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_s = Struct(">16s").unpack_from
_unpack_sh = Struct(">16sh").unpack_from


@dataclass(slots=True, kw_only=True)
class DeleteTopicState:
    """Part of DeleteTopics."""

    name: str | None = None
    topic_id: UUID | None


@dataclass(slots=True, kw_only=True)
class DeleteTopicsRequest:
    """DeleteTopics request, versions 1-6."""

    topic_names: tuple[str, ...] = ()
    topics: tuple[DeleteTopicState, ...]
    timeout: timedelta


@dataclass(slots=True, kw_only=True)
class DeletableTopicResult:
    """Part of DeleteTopics."""

    name: str | None
    topic_id: UUID | None
    error_code: ErrorCode
    error_message: str | None = None


@dataclass(slots=True, kw_only=True)
class DeleteTopicsResponse:
    """DeleteTopics response, versions 1-6."""

    throttle_time: timedelta
    responses: tuple[DeletableTopicResult, ...]


def _read_request_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DeleteTopicsRequest, int]:
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("topic_names is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    topic_names_list: list[str] = []
    for _ in range(size):
        (size,) = _unpack_h(buffer, position)
        position += 2
        if size < 0:
            raise PeerError("topic_names_item is null or has a negative length")
        start = position
        position += size
        if position > end:
            raise truncated()
        topic_names_item = buffer[start:position].decode()
        topic_names_list.append(topic_names_item)
    topic_names = tuple(topic_names_list)
    (timeout,) = _unpack_i(buffer, position)
    position += 4
    return DeleteTopicsRequest(
        topic_names=topic_names, topics=(), timeout=timedelta(0, 0, 0, timeout)
    ), position


def _read_delete_topic_state_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[DeleteTopicState, int]:
    name: str | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        name = buffer[start:position].decode()
    else:
        name = None
    (topic_id,) = _unpack_s(buffer, position)
    position += 16
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DeleteTopicState(name=name, topic_id=uuid_of(topic_id)), position


def _read_request_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DeleteTopicsRequest, int]:
    topic_names: tuple[str, ...] = ()
    if version <= 5:
        size = buffer[position] - 1
        position += 1
        if size > 126:
            size, position = read_length(buffer, position - 1)
        if size < 0:
            raise PeerError("topic_names is null or has a negative length")
        if size > end - position:
            raise truncated()
        if size > ELEMENTS_MAX:
            raise too_many(size)
        topic_names_list: list[str] = []
        for _ in range(size):
            size = buffer[position] - 1
            position += 1
            if size > 126:
                size, position = read_length(buffer, position - 1)
            if size < 0:
                raise PeerError("topic_names_item is null or has a negative length")
            start = position
            position += size
            if position > end:
                raise truncated()
            topic_names_item = buffer[start:position].decode()
            topic_names_list.append(topic_names_item)
        topic_names = tuple(topic_names_list)
    topics: tuple[DeleteTopicState, ...] = ()
    if version >= 6:
        size = buffer[position] - 1
        position += 1
        if size > 126:
            size, position = read_length(buffer, position - 1)
        if size < 0:
            raise PeerError("topics is null or has a negative length")
        if size > end - position:
            raise truncated()
        if size > ELEMENTS_MAX:
            raise too_many(size)
        topics_list: list[DeleteTopicState] = []
        for _ in range(size):
            topics_item, position = _read_delete_topic_state_flexible(buffer, position, end)
            topics_list.append(topics_item)
        topics = tuple(topics_list)
    (timeout,) = _unpack_i(buffer, position)
    position += 4
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DeleteTopicsRequest(
        topic_names=topic_names, topics=topics, timeout=timedelta(0, 0, 0, timeout)
    ), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DeleteTopicsRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 4:
        return _read_request_flexible(buffer, position, end, version)
    return _read_request_legacy(buffer, position, end, version)


def _write_deletable_topic_result(out: bytearray, message: DeletableTopicResult) -> None:
    if message.name is None:
        out += EMPTY_STRING
    else:
        encoded = message.name.encode()
        out += _pack_h(len(encoded))
        out += encoded
    out += _pack_h(message.error_code)


def _write_response_legacy(out: bytearray, message: DeleteTopicsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time // MILLISECOND)
    out += _pack_i(len(message.responses))
    for responses_item in message.responses:
        _write_deletable_topic_result(out, responses_item)


def _write_deletable_topic_result_flexible(
    out: bytearray, message: DeletableTopicResult, version: int
) -> None:
    if message.name is None:
        out += NULL_COMPACT if version >= 6 else EMPTY_COMPACT
    else:
        encoded = message.name.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    if version >= 6:
        out += _pack_sh(uuid_bytes(message.topic_id), message.error_code)
    else:
        out += _pack_h(message.error_code)
    if version >= 5:
        if message.error_message is None:
            out += NULL_COMPACT
        else:
            encoded = message.error_message.encode()
            out += varint(len(encoded) + 1)
            out += encoded
    out += NO_TAGS


def _write_response_flexible(out: bytearray, message: DeleteTopicsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time // MILLISECOND)
    out += varint(len(message.responses) + 1)
    for responses_item in message.responses:
        _write_deletable_topic_result_flexible(out, responses_item, version)
    out += NO_TAGS


def write_response(out: bytearray, message: DeleteTopicsResponse, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 4:
        _write_response_flexible(out, message, version)
    else:
        _write_response_legacy(out, message, version)


def _write_request_legacy(out: bytearray, message: DeleteTopicsRequest, version: int) -> None:
    out += _pack_i(len(message.topic_names))
    for topic_names_item in message.topic_names:
        encoded = topic_names_item.encode()
        out += _pack_h(len(encoded))
        out += encoded
    out += _pack_i(message.timeout // MILLISECOND)


def _write_delete_topic_state_flexible(out: bytearray, message: DeleteTopicState) -> None:
    if message.name is None:
        out += NULL_COMPACT
    else:
        encoded = message.name.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += _pack_s(uuid_bytes(message.topic_id))
    out += NO_TAGS


def _write_request_flexible(out: bytearray, message: DeleteTopicsRequest, version: int) -> None:
    if version <= 5:
        out += varint(len(message.topic_names) + 1)
        for topic_names_item in message.topic_names:
            encoded = topic_names_item.encode()
            out += varint(len(encoded) + 1)
            out += encoded
    if version >= 6:
        out += varint(len(message.topics) + 1)
        for topics_item in message.topics:
            _write_delete_topic_state_flexible(out, topics_item)
    out += _pack_i(message.timeout // MILLISECOND)
    out += NO_TAGS


def write_request(out: bytearray, message: DeleteTopicsRequest, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 4:
        _write_request_flexible(out, message, version)
    else:
        _write_request_legacy(out, message, version)


def _read_deletable_topic_result(
    buffer: bytes, position: int, end: int
) -> tuple[DeletableTopicResult, int]:
    name: str | None
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("name is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    name = buffer[start:position].decode()
    (error_code,) = _unpack_h(buffer, position)
    position += 2
    return DeletableTopicResult(
        name=name, topic_id=None, error_code=ErrorCode(error_code)
    ), position


def _read_response_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DeleteTopicsResponse, int]:
    (throttle_time,) = _unpack_i(buffer, position)
    position += 4
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("responses is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    responses_list: list[DeletableTopicResult] = []
    for _ in range(size):
        responses_item, position = _read_deletable_topic_result(buffer, position, end)
        responses_list.append(responses_item)
    responses = tuple(responses_list)
    return DeleteTopicsResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time), responses=responses
    ), position


def _read_deletable_topic_result_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DeletableTopicResult, int]:
    name: str | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        name = buffer[start:position].decode()
    elif version >= 6:
        name = None
    else:
        raise PeerError("name is null or has a negative length")
    topic_id: UUID | None = None
    if version >= 6:
        topic_id_raw, error_code = _unpack_sh(buffer, position)
        position += 18
        topic_id = uuid_of(topic_id_raw)
    else:
        (error_code,) = _unpack_h(buffer, position)
        position += 2
    error_message: str | None = None
    if version >= 5:
        size = buffer[position] - 1
        position += 1
        if size > 126:
            size, position = read_length(buffer, position - 1)
        if size >= 0:
            start = position
            position += size
            if position > end:
                raise truncated()
            error_message = buffer[start:position].decode()
        else:
            error_message = None
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=ErrorCode(error_code), error_message=error_message
    ), position


def _read_response_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DeleteTopicsResponse, int]:
    (throttle_time,) = _unpack_i(buffer, position)
    position += 4
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("responses is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    responses_list: list[DeletableTopicResult] = []
    for _ in range(size):
        responses_item, position = _read_deletable_topic_result_flexible(
            buffer, position, end, version
        )
        responses_list.append(responses_item)
    responses = tuple(responses_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DeleteTopicsResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time), responses=responses
    ), position


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DeleteTopicsResponse, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 4:
        return _read_response_flexible(buffer, position, end, version)
    return _read_response_legacy(buffer, position, end, version)
