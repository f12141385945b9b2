"""ListGroups messages, versions 0 to 5.

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
from cluster.protocol.writer import MILLISECOND, NO_TAGS, varint

_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_ih = Struct(">ih").pack
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_ih = Struct(">ih").unpack_from


@dataclass(slots=True, kw_only=True)
class ListGroupsRequest:
    """ListGroups request, versions 0-5."""

    states_filter: tuple[str, ...] = ()
    types_filter: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class ListedGroup:
    """Part of ListGroups."""

    group_id: str
    protocol_type: str
    group_state: str
    group_type: str


@dataclass(slots=True, kw_only=True)
class ListGroupsResponse:
    """ListGroups response, versions 0-5."""

    throttle_time: timedelta
    error_code: ErrorCode
    groups: tuple[ListedGroup, ...]


def _read_request_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ListGroupsRequest, int]:
    return ListGroupsRequest(), position


def _read_request_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ListGroupsRequest, int]:
    states_filter: tuple[str, ...] = ()
    if version >= 4:
        size = buffer[position] - 1
        position += 1
        if size > 126:
            size, position = read_length(buffer, position - 1)
        if size < 0:
            raise PeerError("states_filter is null or has a negative length")
        if size > end - position:
            raise truncated()
        if size > ELEMENTS_MAX:
            raise too_many(size)
        states_filter_list: list[str] = []
        for _ in range(size):
            size = buffer[position] - 1
            position += 1
            if size > 126:
                size, position = read_length(buffer, position - 1)
            if size < 0:
                raise PeerError("states_filter_item is null or has a negative length")
            start = position
            position += size
            if position > end:
                raise truncated()
            states_filter_item = buffer[start:position].decode()
            states_filter_list.append(states_filter_item)
        states_filter = tuple(states_filter_list)
    types_filter: tuple[str, ...] = ()
    if version >= 5:
        size = buffer[position] - 1
        position += 1
        if size > 126:
            size, position = read_length(buffer, position - 1)
        if size < 0:
            raise PeerError("types_filter is null or has a negative length")
        if size > end - position:
            raise truncated()
        if size > ELEMENTS_MAX:
            raise too_many(size)
        types_filter_list: list[str] = []
        for _ in range(size):
            size = buffer[position] - 1
            position += 1
            if size > 126:
                size, position = read_length(buffer, position - 1)
            if size < 0:
                raise PeerError("types_filter_item is null or has a negative length")
            start = position
            position += size
            if position > end:
                raise truncated()
            types_filter_item = buffer[start:position].decode()
            types_filter_list.append(types_filter_item)
        types_filter = tuple(types_filter_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return ListGroupsRequest(states_filter=states_filter, types_filter=types_filter), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ListGroupsRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 3:
        return _read_request_flexible(buffer, position, end, version)
    return _read_request_legacy(buffer, position, end, version)


def _write_listed_group(out: bytearray, message: ListedGroup) -> None:
    encoded = message.group_id.encode()
    out += _pack_h(len(encoded))
    out += encoded
    encoded = message.protocol_type.encode()
    out += _pack_h(len(encoded))
    out += encoded


def _write_response_legacy(out: bytearray, message: ListGroupsResponse, version: int) -> None:
    if version >= 1:
        out += _pack_ih(message.throttle_time // MILLISECOND, message.error_code)
    else:
        out += _pack_h(message.error_code)
    out += _pack_i(len(message.groups))
    for groups_item in message.groups:
        _write_listed_group(out, groups_item)


def _write_listed_group_flexible(out: bytearray, message: ListedGroup, version: int) -> None:
    encoded = message.group_id.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    encoded = message.protocol_type.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    if version >= 4:
        encoded = message.group_state.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    if version >= 5:
        encoded = message.group_type.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += NO_TAGS


def _write_response_flexible(out: bytearray, message: ListGroupsResponse, version: int) -> None:
    out += _pack_ih(message.throttle_time // MILLISECOND, message.error_code)
    out += varint(len(message.groups) + 1)
    for groups_item in message.groups:
        _write_listed_group_flexible(out, groups_item, version)
    out += NO_TAGS


def write_response(out: bytearray, message: ListGroupsResponse, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 3:
        _write_response_flexible(out, message, version)
    else:
        _write_response_legacy(out, message, version)


def _write_request_legacy(out: bytearray, message: ListGroupsRequest, version: int) -> None:
    """Nothing is in it."""


def _write_request_flexible(out: bytearray, message: ListGroupsRequest, version: int) -> None:
    if version >= 4:
        out += varint(len(message.states_filter) + 1)
        for states_filter_item in message.states_filter:
            encoded = states_filter_item.encode()
            out += varint(len(encoded) + 1)
            out += encoded
    if version >= 5:
        out += varint(len(message.types_filter) + 1)
        for types_filter_item in message.types_filter:
            encoded = types_filter_item.encode()
            out += varint(len(encoded) + 1)
            out += encoded
    out += NO_TAGS


def write_request(out: bytearray, message: ListGroupsRequest, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 3:
        _write_request_flexible(out, message, version)
    else:
        _write_request_legacy(out, message, version)


def _read_listed_group(buffer: bytes, position: int, end: int) -> tuple[ListedGroup, int]:
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("group_id is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    group_id = buffer[start:position].decode()
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("protocol_type is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    protocol_type = buffer[start:position].decode()
    return ListedGroup(
        group_id=group_id, protocol_type=protocol_type, group_state="", group_type=""
    ), position


def _read_response_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ListGroupsResponse, int]:
    throttle_time: timedelta = NO_TIME
    if version >= 1:
        throttle_time_raw, error_code = _unpack_ih(buffer, position)
        position += 6
        throttle_time = timedelta(0, 0, 0, throttle_time_raw)
    else:
        (error_code,) = _unpack_h(buffer, position)
        position += 2
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("groups is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    groups_list: list[ListedGroup] = []
    for _ in range(size):
        groups_item, position = _read_listed_group(buffer, position, end)
        groups_list.append(groups_item)
    groups = tuple(groups_list)
    return ListGroupsResponse(
        throttle_time=throttle_time, error_code=ErrorCode(error_code), groups=groups
    ), position


def _read_listed_group_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ListedGroup, int]:
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("group_id is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    group_id = buffer[start:position].decode()
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("protocol_type is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    protocol_type = buffer[start:position].decode()
    group_state: str = ""
    if version >= 4:
        size = buffer[position] - 1
        position += 1
        if size > 126:
            size, position = read_length(buffer, position - 1)
        if size < 0:
            raise PeerError("group_state is null or has a negative length")
        start = position
        position += size
        if position > end:
            raise truncated()
        group_state = buffer[start:position].decode()
    group_type: str = ""
    if version >= 5:
        size = buffer[position] - 1
        position += 1
        if size > 126:
            size, position = read_length(buffer, position - 1)
        if size < 0:
            raise PeerError("group_type is null or has a negative length")
        start = position
        position += size
        if position > end:
            raise truncated()
        group_type = buffer[start:position].decode()
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return ListedGroup(
        group_id=group_id,
        protocol_type=protocol_type,
        group_state=group_state,
        group_type=group_type,
    ), position


def _read_response_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ListGroupsResponse, int]:
    throttle_time, error_code = _unpack_ih(buffer, position)
    position += 6
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("groups is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    groups_list: list[ListedGroup] = []
    for _ in range(size):
        groups_item, position = _read_listed_group_flexible(buffer, position, end, version)
        groups_list.append(groups_item)
    groups = tuple(groups_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return ListGroupsResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time),
        error_code=ErrorCode(error_code),
        groups=groups,
    ), position


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ListGroupsResponse, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 3:
        return _read_response_flexible(buffer, position, end, version)
    return _read_response_legacy(buffer, position, end, version)
