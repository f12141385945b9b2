"""FindCoordinator messages, versions 0 to 6.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import timedelta
from struct import Struct

from cluster.model.error_codes import ErrorCode
from cluster.model.errors import PeerError
from cluster.protocol.reader import (
    ELEMENTS_MAX,
    NO_TIME,
    read_length,
    skip_tags,
    too_many,
    truncated,
)
from cluster.protocol.writer import MILLISECOND, NO_TAGS, NULL_COMPACT, NULL_STRING, varint

_pack_b = Struct(">b").pack
_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_ih = Struct(">ih").pack
_unpack_b = Struct(">b").unpack_from
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_ih = Struct(">ih").unpack_from


@dataclass(slots=True, kw_only=True)
class FindCoordinatorRequest:
    """FindCoordinator request, versions 0-6."""

    key: str = ""
    key_type: int = 0
    coordinator_keys: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Coordinator:
    """Part of FindCoordinator."""

    key: str
    node_id: int
    host: str
    port: int
    error_code: ErrorCode
    error_message: str | None


@dataclass(slots=True, kw_only=True)
class FindCoordinatorResponse:
    """FindCoordinator response, versions 0-6."""

    throttle_time: timedelta
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = ""
    node_id: int = 0
    host: str = ""
    port: int = 0
    coordinators: tuple[Coordinator, ...]


def _read_request_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[FindCoordinatorRequest, int]:
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("key is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    key = buffer[start:position].decode()
    key_type: int = 0
    if version >= 1:
        (key_type,) = _unpack_b(buffer, position)
        position += 1
    return FindCoordinatorRequest(key=key, key_type=key_type), position


def _read_request_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[FindCoordinatorRequest, int]:
    key: str = ""
    if version <= 3:
        size = buffer[position] - 1
        position += 1
        if size > 126:
            size, position = read_length(buffer, position - 1)
        if size < 0:
            raise PeerError("key is null or has a negative length")
        start = position
        position += size
        if position > end:
            raise truncated()
        key = buffer[start:position].decode()
    (key_type,) = _unpack_b(buffer, position)
    position += 1
    coordinator_keys: tuple[str, ...] = ()
    if version >= 4:
        size = buffer[position] - 1
        position += 1
        if size > 126:
            size, position = read_length(buffer, position - 1)
        if size < 0:
            raise PeerError("coordinator_keys is null or has a negative length")
        if size > end - position:
            raise truncated()
        if size > ELEMENTS_MAX:
            raise too_many(size)
        coordinator_keys_list: list[str] = []
        for _ in range(size):
            size = buffer[position] - 1
            position += 1
            if size > 126:
                size, position = read_length(buffer, position - 1)
            if size < 0:
                raise PeerError("coordinator_keys_item is null or has a negative length")
            start = position
            position += size
            if position > end:
                raise truncated()
            coordinator_keys_item = buffer[start:position].decode()
            coordinator_keys_list.append(coordinator_keys_item)
        coordinator_keys = tuple(coordinator_keys_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return FindCoordinatorRequest(
        key=key, key_type=key_type, coordinator_keys=coordinator_keys
    ), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[FindCoordinatorRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 3:
        return _read_request_flexible(buffer, position, end, version)
    return _read_request_legacy(buffer, position, end, version)


def _write_response_legacy(out: bytearray, message: FindCoordinatorResponse, version: int) -> None:
    if version >= 1:
        out += _pack_ih(message.throttle_time // MILLISECOND, message.error_code)
    else:
        out += _pack_h(message.error_code)
    if version >= 1:
        if message.error_message is None:
            out += NULL_STRING
        else:
            encoded = message.error_message.encode()
            out += _pack_h(len(encoded))
            out += encoded
    out += _pack_i(message.node_id)
    encoded = message.host.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_i(message.port)


def _write_coordinator_flexible(out: bytearray, message: Coordinator) -> None:
    encoded = message.key.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += _pack_i(message.node_id)
    encoded = message.host.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += _pack_ih(message.port, message.error_code)
    if message.error_message is None:
        out += NULL_COMPACT
    else:
        encoded = message.error_message.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += NO_TAGS


def _write_response_flexible(
    out: bytearray, message: FindCoordinatorResponse, version: int
) -> None:
    if version >= 4:
        out += _pack_i(message.throttle_time // MILLISECOND)
    else:
        out += _pack_ih(message.throttle_time // MILLISECOND, message.error_code)
    if version <= 3:
        if message.error_message is None:
            out += NULL_COMPACT
        else:
            encoded = message.error_message.encode()
            out += varint(len(encoded) + 1)
            out += encoded
    if version <= 3:
        out += _pack_i(message.node_id)
    if version <= 3:
        encoded = message.host.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    if version <= 3:
        out += _pack_i(message.port)
    if version >= 4:
        out += varint(len(message.coordinators) + 1)
        for coordinators_item in message.coordinators:
            _write_coordinator_flexible(out, coordinators_item)
    out += NO_TAGS


def write_response(out: bytearray, message: FindCoordinatorResponse, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 3:
        _write_response_flexible(out, message, version)
    else:
        _write_response_legacy(out, message, version)


def _write_request_legacy(out: bytearray, message: FindCoordinatorRequest, version: int) -> None:
    encoded = message.key.encode()
    out += _pack_h(len(encoded))
    out += encoded
    if version >= 1:
        out += _pack_b(message.key_type)


def _write_request_flexible(out: bytearray, message: FindCoordinatorRequest, version: int) -> None:
    if version <= 3:
        encoded = message.key.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += _pack_b(message.key_type)
    if version >= 4:
        out += varint(len(message.coordinator_keys) + 1)
        for coordinator_keys_item in message.coordinator_keys:
            encoded = coordinator_keys_item.encode()
            out += varint(len(encoded) + 1)
            out += encoded
    out += NO_TAGS


def write_request(out: bytearray, message: FindCoordinatorRequest, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 3:
        _write_request_flexible(out, message, version)
    else:
        _write_request_legacy(out, message, version)


def _read_response_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[FindCoordinatorResponse, int]:
    throttle_time: timedelta = NO_TIME
    if version >= 1:
        throttle_time_raw, error_code = _unpack_ih(buffer, position)
        position += 6
        throttle_time = timedelta(0, 0, 0, throttle_time_raw)
    else:
        (error_code,) = _unpack_h(buffer, position)
        position += 2
    error_message: str | None = ""
    if version >= 1:
        (size,) = _unpack_h(buffer, position)
        position += 2
        if size >= 0:
            start = position
            position += size
            if position > end:
                raise truncated()
            error_message = buffer[start:position].decode()
        elif size == -1:
            error_message = None
        else:
            raise PeerError("error_message is null or has a negative length")
    (node_id,) = _unpack_i(buffer, position)
    position += 4
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("host is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    host = buffer[start:position].decode()
    (port,) = _unpack_i(buffer, position)
    position += 4
    return FindCoordinatorResponse(
        throttle_time=throttle_time,
        error_code=ErrorCode(error_code),
        error_message=error_message,
        node_id=node_id,
        host=host,
        port=port,
        coordinators=(),
    ), position


def _read_coordinator_flexible(buffer: bytes, position: int, end: int) -> tuple[Coordinator, int]:
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("key is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    key = buffer[start:position].decode()
    (node_id,) = _unpack_i(buffer, position)
    position += 4
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("host is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    host = buffer[start:position].decode()
    port, error_code = _unpack_ih(buffer, position)
    position += 6
    error_message: str | None
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
    return Coordinator(
        key=key,
        node_id=node_id,
        host=host,
        port=port,
        error_code=ErrorCode(error_code),
        error_message=error_message,
    ), position


def _read_response_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[FindCoordinatorResponse, int]:
    error_code: ErrorCode = ErrorCode.none
    if version >= 4:
        (throttle_time,) = _unpack_i(buffer, position)
        position += 4
    else:
        throttle_time, error_code_raw = _unpack_ih(buffer, position)
        position += 6
        error_code = ErrorCode(error_code_raw)
    error_message: str | None = ""
    if version <= 3:
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
    node_id: int = 0
    if version <= 3:
        (node_id,) = _unpack_i(buffer, position)
        position += 4
    host: str = ""
    if version <= 3:
        size = buffer[position] - 1
        position += 1
        if size > 126:
            size, position = read_length(buffer, position - 1)
        if size < 0:
            raise PeerError("host is null or has a negative length")
        start = position
        position += size
        if position > end:
            raise truncated()
        host = buffer[start:position].decode()
    port: int = 0
    if version <= 3:
        (port,) = _unpack_i(buffer, position)
        position += 4
    coordinators: tuple[Coordinator, ...] = ()
    if version >= 4:
        size = buffer[position] - 1
        position += 1
        if size > 126:
            size, position = read_length(buffer, position - 1)
        if size < 0:
            raise PeerError("coordinators is null or has a negative length")
        if size > end - position:
            raise truncated()
        if size > ELEMENTS_MAX:
            raise too_many(size)
        coordinators_list: list[Coordinator] = []
        for _ in range(size):
            coordinators_item, position = _read_coordinator_flexible(buffer, position, end)
            coordinators_list.append(coordinators_item)
        coordinators = tuple(coordinators_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return FindCoordinatorResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time),
        error_code=error_code,
        error_message=error_message,
        node_id=node_id,
        host=host,
        port=port,
        coordinators=coordinators,
    ), position


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[FindCoordinatorResponse, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 3:
        return _read_response_flexible(buffer, position, end, version)
    return _read_response_legacy(buffer, position, end, version)
