"""DescribeGroups messages, versions 0 to 6.

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

_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_o = Struct(">?").pack
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_o = Struct(">?").unpack_from


@dataclass(slots=True, kw_only=True)
class DescribeGroupsRequest:
    """DescribeGroups request, versions 0-6."""

    groups: tuple[str, ...] = ()
    include_authorized_operations: bool


@dataclass(slots=True, kw_only=True)
class DescribedGroupMember:
    """Part of DescribeGroups."""

    member_id: str
    group_instance_id: str | None = None
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes


@dataclass(slots=True, kw_only=True)
class DescribedGroup:
    """Part of DescribeGroups."""

    error_code: ErrorCode
    error_message: str | None = None
    group_id: str
    group_state: str
    protocol_type: str
    protocol_data: str
    members: tuple[DescribedGroupMember, ...]
    authorized_operations: int = -2147483648


@dataclass(slots=True, kw_only=True)
class DescribeGroupsResponse:
    """DescribeGroups response, versions 0-6."""

    throttle_time: timedelta
    groups: tuple[DescribedGroup, ...]


def _read_request_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeGroupsRequest, int]:
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("groups is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    groups_list: list[str] = []
    for _ in range(size):
        (size,) = _unpack_h(buffer, position)
        position += 2
        if size < 0:
            raise PeerError("groups_item is null or has a negative length")
        start = position
        position += size
        if position > end:
            raise truncated()
        groups_item = buffer[start:position].decode()
        groups_list.append(groups_item)
    groups = tuple(groups_list)
    include_authorized_operations: bool = False
    if version >= 3:
        (include_authorized_operations,) = _unpack_o(buffer, position)
        position += 1
    return DescribeGroupsRequest(
        groups=groups, include_authorized_operations=include_authorized_operations
    ), position


def _read_request_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeGroupsRequest, int]:
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
    groups_list: list[str] = []
    for _ in range(size):
        size = buffer[position] - 1
        position += 1
        if size > 126:
            size, position = read_length(buffer, position - 1)
        if size < 0:
            raise PeerError("groups_item is null or has a negative length")
        start = position
        position += size
        if position > end:
            raise truncated()
        groups_item = buffer[start:position].decode()
        groups_list.append(groups_item)
    groups = tuple(groups_list)
    (include_authorized_operations,) = _unpack_o(buffer, position)
    position += 1
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DescribeGroupsRequest(
        groups=groups, include_authorized_operations=include_authorized_operations
    ), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeGroupsRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 5:
        return _read_request_flexible(buffer, position, end, version)
    return _read_request_legacy(buffer, position, end, version)


def _write_described_group_member(
    out: bytearray, message: DescribedGroupMember, version: int
) -> None:
    encoded = message.member_id.encode()
    out += _pack_h(len(encoded))
    out += encoded
    if version >= 4:
        if message.group_instance_id is None:
            out += NULL_STRING
        else:
            encoded = message.group_instance_id.encode()
            out += _pack_h(len(encoded))
            out += encoded
    encoded = message.client_id.encode()
    out += _pack_h(len(encoded))
    out += encoded
    encoded = message.client_host.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_i(len(message.member_metadata))
    out += message.member_metadata
    out += _pack_i(len(message.member_assignment))
    out += message.member_assignment


def _write_described_group(out: bytearray, message: DescribedGroup, version: int) -> None:
    out += _pack_h(message.error_code)
    encoded = message.group_id.encode()
    out += _pack_h(len(encoded))
    out += encoded
    encoded = message.group_state.encode()
    out += _pack_h(len(encoded))
    out += encoded
    encoded = message.protocol_type.encode()
    out += _pack_h(len(encoded))
    out += encoded
    encoded = message.protocol_data.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_i(len(message.members))
    for members_item in message.members:
        _write_described_group_member(out, members_item, version)
    if version >= 3:
        out += _pack_i(message.authorized_operations)


def _write_response_legacy(out: bytearray, message: DescribeGroupsResponse, version: int) -> None:
    if version >= 1:
        out += _pack_i(message.throttle_time // MILLISECOND)
    out += _pack_i(len(message.groups))
    for groups_item in message.groups:
        _write_described_group(out, groups_item, version)


def _write_described_group_member_flexible(out: bytearray, message: DescribedGroupMember) -> None:
    encoded = message.member_id.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    if message.group_instance_id is None:
        out += NULL_COMPACT
    else:
        encoded = message.group_instance_id.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    encoded = message.client_id.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    encoded = message.client_host.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += varint(len(message.member_metadata) + 1)
    out += message.member_metadata
    out += varint(len(message.member_assignment) + 1)
    out += message.member_assignment
    out += NO_TAGS


def _write_described_group_flexible(out: bytearray, message: DescribedGroup, version: int) -> None:
    out += _pack_h(message.error_code)
    if version >= 6:
        if message.error_message is None:
            out += NULL_COMPACT
        else:
            encoded = message.error_message.encode()
            out += varint(len(encoded) + 1)
            out += encoded
    encoded = message.group_id.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    encoded = message.group_state.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    encoded = message.protocol_type.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    encoded = message.protocol_data.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += varint(len(message.members) + 1)
    for members_item in message.members:
        _write_described_group_member_flexible(out, members_item)
    out += _pack_i(message.authorized_operations)
    out += NO_TAGS


def _write_response_flexible(out: bytearray, message: DescribeGroupsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time // MILLISECOND)
    out += varint(len(message.groups) + 1)
    for groups_item in message.groups:
        _write_described_group_flexible(out, groups_item, version)
    out += NO_TAGS


def write_response(out: bytearray, message: DescribeGroupsResponse, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 5:
        _write_response_flexible(out, message, version)
    else:
        _write_response_legacy(out, message, version)


def _write_request_legacy(out: bytearray, message: DescribeGroupsRequest, version: int) -> None:
    out += _pack_i(len(message.groups))
    for groups_item in message.groups:
        encoded = groups_item.encode()
        out += _pack_h(len(encoded))
        out += encoded
    if version >= 3:
        out += _pack_o(message.include_authorized_operations)


def _write_request_flexible(out: bytearray, message: DescribeGroupsRequest, version: int) -> None:
    out += varint(len(message.groups) + 1)
    for groups_item in message.groups:
        encoded = groups_item.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += _pack_o(message.include_authorized_operations)
    out += NO_TAGS


def write_request(out: bytearray, message: DescribeGroupsRequest, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 5:
        _write_request_flexible(out, message, version)
    else:
        _write_request_legacy(out, message, version)


def _read_described_group_member(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribedGroupMember, int]:
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("member_id is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    member_id = buffer[start:position].decode()
    group_instance_id: str | None = None
    if version >= 4:
        (size,) = _unpack_h(buffer, position)
        position += 2
        if size >= 0:
            start = position
            position += size
            if position > end:
                raise truncated()
            group_instance_id = buffer[start:position].decode()
        elif size == -1:
            group_instance_id = None
        else:
            raise PeerError("group_instance_id is null or has a negative length")
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("client_id is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    client_id = buffer[start:position].decode()
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("client_host is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    client_host = buffer[start:position].decode()
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("member_metadata is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    member_metadata = buffer[start:position]
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("member_assignment is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    member_assignment = buffer[start:position]
    return DescribedGroupMember(
        member_id=member_id,
        group_instance_id=group_instance_id,
        client_id=client_id,
        client_host=client_host,
        member_metadata=member_metadata,
        member_assignment=member_assignment,
    ), position


def _read_described_group(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribedGroup, int]:
    (error_code,) = _unpack_h(buffer, position)
    position += 2
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
        raise PeerError("group_state is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    group_state = buffer[start:position].decode()
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("protocol_type is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    protocol_type = buffer[start:position].decode()
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("protocol_data is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    protocol_data = buffer[start:position].decode()
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("members is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    members_list: list[DescribedGroupMember] = []
    for _ in range(size):
        members_item, position = _read_described_group_member(buffer, position, end, version)
        members_list.append(members_item)
    members = tuple(members_list)
    authorized_operations: int = -2147483648
    if version >= 3:
        (authorized_operations,) = _unpack_i(buffer, position)
        position += 4
    return DescribedGroup(
        error_code=ErrorCode(error_code),
        group_id=group_id,
        group_state=group_state,
        protocol_type=protocol_type,
        protocol_data=protocol_data,
        members=members,
        authorized_operations=authorized_operations,
    ), position


def _read_response_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeGroupsResponse, int]:
    throttle_time: timedelta = NO_TIME
    if version >= 1:
        (throttle_time_raw,) = _unpack_i(buffer, position)
        position += 4
        throttle_time = timedelta(0, 0, 0, throttle_time_raw)
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("groups is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    groups_list: list[DescribedGroup] = []
    for _ in range(size):
        groups_item, position = _read_described_group(buffer, position, end, version)
        groups_list.append(groups_item)
    groups = tuple(groups_list)
    return DescribeGroupsResponse(throttle_time=throttle_time, groups=groups), position


def _read_described_group_member_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[DescribedGroupMember, int]:
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("member_id is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    member_id = buffer[start:position].decode()
    group_instance_id: str | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        group_instance_id = buffer[start:position].decode()
    else:
        group_instance_id = None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("client_id is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    client_id = buffer[start:position].decode()
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("client_host is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    client_host = buffer[start:position].decode()
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("member_metadata is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    member_metadata = buffer[start:position]
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("member_assignment is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    member_assignment = buffer[start:position]
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DescribedGroupMember(
        member_id=member_id,
        group_instance_id=group_instance_id,
        client_id=client_id,
        client_host=client_host,
        member_metadata=member_metadata,
        member_assignment=member_assignment,
    ), position


def _read_described_group_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribedGroup, int]:
    (error_code,) = _unpack_h(buffer, position)
    position += 2
    error_message: str | None = None
    if version >= 6:
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
        raise PeerError("group_state is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    group_state = buffer[start:position].decode()
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
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("protocol_data is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    protocol_data = buffer[start:position].decode()
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("members is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    members_list: list[DescribedGroupMember] = []
    for _ in range(size):
        members_item, position = _read_described_group_member_flexible(buffer, position, end)
        members_list.append(members_item)
    members = tuple(members_list)
    (authorized_operations,) = _unpack_i(buffer, position)
    position += 4
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DescribedGroup(
        error_code=ErrorCode(error_code),
        error_message=error_message,
        group_id=group_id,
        group_state=group_state,
        protocol_type=protocol_type,
        protocol_data=protocol_data,
        members=members,
        authorized_operations=authorized_operations,
    ), position


def _read_response_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeGroupsResponse, int]:
    (throttle_time,) = _unpack_i(buffer, position)
    position += 4
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
    groups_list: list[DescribedGroup] = []
    for _ in range(size):
        groups_item, position = _read_described_group_flexible(buffer, position, end, version)
        groups_list.append(groups_item)
    groups = tuple(groups_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DescribeGroupsResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time), groups=groups
    ), position


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeGroupsResponse, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 5:
        return _read_response_flexible(buffer, position, end, version)
    return _read_response_legacy(buffer, position, end, version)
