"""LeaveGroup messages, versions 0 to 5.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import timedelta
from struct import Struct

from cluster.model.error_codes import ErrorCode
from cluster.model.errors import PeerError
from cluster.protocol.reader import ELEMENTS_MAX, read_length, skip_tags, too_many, truncated
from cluster.protocol.writer import MILLISECOND, NO_TAGS, NULL_COMPACT, NULL_STRING, varint

_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_ih = Struct(">ih").pack
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from


@dataclass(slots=True, kw_only=True)
class MemberIdentity:
    """Part of LeaveGroup."""

    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


@dataclass(slots=True, kw_only=True)
class LeaveGroupRequest:
    """LeaveGroup request, versions 0-5."""

    group_id: str
    member_id: str = ""
    members: tuple[MemberIdentity, ...]


@dataclass(slots=True, kw_only=True)
class MemberResponse:
    """Part of LeaveGroup."""

    member_id: str
    group_instance_id: str | None
    error_code: ErrorCode


@dataclass(slots=True, kw_only=True)
class LeaveGroupResponse:
    """LeaveGroup response, versions 0-5."""

    throttle_time: timedelta
    error_code: ErrorCode
    members: tuple[MemberResponse, ...]


def _read_member_identity(buffer: bytes, position: int, end: int) -> tuple[MemberIdentity, int]:
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("member_id is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    member_id = buffer[start:position].decode()
    group_instance_id: str | None
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
    return MemberIdentity(member_id=member_id, group_instance_id=group_instance_id), position


def _read_request_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[LeaveGroupRequest, int]:
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("group_id is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    group_id = buffer[start:position].decode()
    member_id: str = ""
    if version <= 2:
        (size,) = _unpack_h(buffer, position)
        position += 2
        if size < 0:
            raise PeerError("member_id is null or has a negative length")
        start = position
        position += size
        if position > end:
            raise truncated()
        member_id = buffer[start:position].decode()
    members: tuple[MemberIdentity, ...] = ()
    if version >= 3:
        (size,) = _unpack_i(buffer, position)
        position += 4
        if size < 0:
            raise PeerError("members is null or has a negative length")
        if size > end - position:
            raise truncated()
        if size > ELEMENTS_MAX:
            raise too_many(size)
        members_list: list[MemberIdentity] = []
        for _ in range(size):
            members_item, position = _read_member_identity(buffer, position, end)
            members_list.append(members_item)
        members = tuple(members_list)
    return LeaveGroupRequest(group_id=group_id, member_id=member_id, members=members), position


def _read_member_identity_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[MemberIdentity, int]:
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
    reason: str | None = None
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
            reason = buffer[start:position].decode()
        else:
            reason = None
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return MemberIdentity(
        member_id=member_id, group_instance_id=group_instance_id, reason=reason
    ), position


def _read_request_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[LeaveGroupRequest, int]:
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
        raise PeerError("members is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    members_list: list[MemberIdentity] = []
    for _ in range(size):
        members_item, position = _read_member_identity_flexible(buffer, position, end, version)
        members_list.append(members_item)
    members = tuple(members_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return LeaveGroupRequest(group_id=group_id, members=members), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[LeaveGroupRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 4:
        return _read_request_flexible(buffer, position, end, version)
    return _read_request_legacy(buffer, position, end, version)


def _write_member_response(out: bytearray, message: MemberResponse) -> None:
    encoded = message.member_id.encode()
    out += _pack_h(len(encoded))
    out += encoded
    if message.group_instance_id is None:
        out += NULL_STRING
    else:
        encoded = message.group_instance_id.encode()
        out += _pack_h(len(encoded))
        out += encoded
    out += _pack_h(message.error_code)


def _write_response_legacy(out: bytearray, message: LeaveGroupResponse, version: int) -> None:
    if version >= 1:
        out += _pack_ih(message.throttle_time // MILLISECOND, message.error_code)
    else:
        out += _pack_h(message.error_code)
    if version >= 3:
        out += _pack_i(len(message.members))
        for members_item in message.members:
            _write_member_response(out, members_item)


def _write_member_response_flexible(out: bytearray, message: MemberResponse) -> None:
    encoded = message.member_id.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    if message.group_instance_id is None:
        out += NULL_COMPACT
    else:
        encoded = message.group_instance_id.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += _pack_h(message.error_code)
    out += NO_TAGS


def _write_response_flexible(out: bytearray, message: LeaveGroupResponse, version: int) -> None:
    out += _pack_ih(message.throttle_time // MILLISECOND, message.error_code)
    out += varint(len(message.members) + 1)
    for members_item in message.members:
        _write_member_response_flexible(out, members_item)
    out += NO_TAGS


def write_response(out: bytearray, message: LeaveGroupResponse, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 4:
        _write_response_flexible(out, message, version)
    else:
        _write_response_legacy(out, message, version)
