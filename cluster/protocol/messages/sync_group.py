"""SyncGroup messages, versions 0 to 5.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import timedelta
from struct import Struct

from cluster.model.error_codes import ErrorCode
from cluster.model.errors import PeerError
from cluster.protocol.reader import ELEMENTS_MAX, read_length, skip_tags, too_many, truncated
from cluster.protocol.writer import MILLISECOND, NO_TAGS, NULL_COMPACT, varint

_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_ih = Struct(">ih").pack
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from


@dataclass(slots=True, kw_only=True)
class SyncGroupRequestAssignment:
    """Part of SyncGroup."""

    member_id: str
    assignment: bytes


@dataclass(slots=True, kw_only=True)
class SyncGroupRequest:
    """SyncGroup request, versions 0-5."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[SyncGroupRequestAssignment, ...]


@dataclass(slots=True, kw_only=True)
class SyncGroupResponse:
    """SyncGroup response, versions 0-5."""

    throttle_time: timedelta
    error_code: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes


def _read_sync_group_request_assignment(
    buffer: bytes, position: int, end: int
) -> tuple[SyncGroupRequestAssignment, int]:
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("member_id is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    member_id = buffer[start:position].decode()
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("assignment is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    assignment = buffer[start:position]
    return SyncGroupRequestAssignment(member_id=member_id, assignment=assignment), position


def _read_request_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[SyncGroupRequest, int]:
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("group_id is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    group_id = buffer[start:position].decode()
    (generation_id,) = _unpack_i(buffer, position)
    position += 4
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
    if version >= 3:
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
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("assignments is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    assignments_list: list[SyncGroupRequestAssignment] = []
    for _ in range(size):
        assignments_item, position = _read_sync_group_request_assignment(buffer, position, end)
        assignments_list.append(assignments_item)
    assignments = tuple(assignments_list)
    return SyncGroupRequest(
        group_id=group_id,
        generation_id=generation_id,
        member_id=member_id,
        group_instance_id=group_instance_id,
        assignments=assignments,
    ), position


def _read_sync_group_request_assignment_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[SyncGroupRequestAssignment, int]:
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
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("assignment is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    assignment = buffer[start:position]
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return SyncGroupRequestAssignment(member_id=member_id, assignment=assignment), position


def _read_request_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[SyncGroupRequest, int]:
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
    (generation_id,) = _unpack_i(buffer, position)
    position += 4
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
    protocol_type: str | None = None
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
            protocol_type = buffer[start:position].decode()
        else:
            protocol_type = None
    protocol_name: str | None = None
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
            protocol_name = buffer[start:position].decode()
        else:
            protocol_name = None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("assignments is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    assignments_list: list[SyncGroupRequestAssignment] = []
    for _ in range(size):
        assignments_item, position = _read_sync_group_request_assignment_flexible(
            buffer, position, end
        )
        assignments_list.append(assignments_item)
    assignments = tuple(assignments_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return SyncGroupRequest(
        group_id=group_id,
        generation_id=generation_id,
        member_id=member_id,
        group_instance_id=group_instance_id,
        protocol_type=protocol_type,
        protocol_name=protocol_name,
        assignments=assignments,
    ), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[SyncGroupRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 4:
        return _read_request_flexible(buffer, position, end, version)
    return _read_request_legacy(buffer, position, end, version)


def _write_response_legacy(out: bytearray, message: SyncGroupResponse, version: int) -> None:
    if version >= 1:
        out += _pack_ih(message.throttle_time // MILLISECOND, message.error_code)
    else:
        out += _pack_h(message.error_code)
    out += _pack_i(len(message.assignment))
    out += message.assignment


def _write_response_flexible(out: bytearray, message: SyncGroupResponse, version: int) -> None:
    out += _pack_ih(message.throttle_time // MILLISECOND, message.error_code)
    if version >= 5:
        if message.protocol_type is None:
            out += NULL_COMPACT
        else:
            encoded = message.protocol_type.encode()
            out += varint(len(encoded) + 1)
            out += encoded
    if version >= 5:
        if message.protocol_name is None:
            out += NULL_COMPACT
        else:
            encoded = message.protocol_name.encode()
            out += varint(len(encoded) + 1)
            out += encoded
    out += varint(len(message.assignment) + 1)
    out += message.assignment
    out += NO_TAGS


def write_response(out: bytearray, message: SyncGroupResponse, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 4:
        _write_response_flexible(out, message, version)
    else:
        _write_response_legacy(out, message, version)
