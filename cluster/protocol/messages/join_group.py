"""JoinGroup messages, versions 0 to 9.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import timedelta
from struct import Struct

from cluster.model.error_codes import ErrorCode
from cluster.model.errors import PeerError
from cluster.protocol.reader import ELEMENTS_MAX, read_length, skip_tags, too_many, truncated
from cluster.protocol.writer import (
    EMPTY_COMPACT,
    EMPTY_STRING,
    MILLISECOND,
    NO_TAGS,
    NULL_COMPACT,
    NULL_STRING,
    varint,
)

_pack_h = Struct(">h").pack
_pack_hi = Struct(">hi").pack
_pack_i = Struct(">i").pack
_pack_ihi = Struct(">ihi").pack
_pack_o = Struct(">?").pack
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_ii = Struct(">ii").unpack_from


@dataclass(slots=True, kw_only=True)
class JoinGroupRequestProtocol:
    """Part of JoinGroup."""

    name: str
    metadata: bytes


@dataclass(slots=True, kw_only=True)
class JoinGroupRequest:
    """JoinGroup request, versions 0-9."""

    group_id: str
    session_timeout: timedelta
    rebalance_timeout: timedelta = timedelta(milliseconds=-1)
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str
    protocols: tuple[JoinGroupRequestProtocol, ...]
    reason: str | None = None


@dataclass(slots=True, kw_only=True)
class JoinGroupResponseMember:
    """Part of JoinGroup."""

    member_id: str
    group_instance_id: str | None = None
    metadata: bytes


@dataclass(slots=True, kw_only=True)
class JoinGroupResponse:
    """JoinGroup response, versions 0-9."""

    throttle_time: timedelta
    error_code: ErrorCode
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None
    leader: str
    skip_assignment: bool = False
    member_id: str
    members: tuple[JoinGroupResponseMember, ...]


def _read_join_group_request_protocol(
    buffer: bytes, position: int, end: int
) -> tuple[JoinGroupRequestProtocol, int]:
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("name is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    name = buffer[start:position].decode()
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("metadata is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    metadata = buffer[start:position]
    return JoinGroupRequestProtocol(name=name, metadata=metadata), position


def _read_request_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[JoinGroupRequest, int]:
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("group_id is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    group_id = buffer[start:position].decode()
    rebalance_timeout: timedelta = timedelta(milliseconds=-1)
    if version >= 1:
        session_timeout, rebalance_timeout_raw = _unpack_ii(buffer, position)
        position += 8
        rebalance_timeout = timedelta(0, 0, 0, rebalance_timeout_raw)
    else:
        (session_timeout,) = _unpack_i(buffer, position)
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
    if version >= 5:
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
        raise PeerError("protocol_type is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    protocol_type = buffer[start:position].decode()
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("protocols is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    protocols_list: list[JoinGroupRequestProtocol] = []
    for _ in range(size):
        protocols_item, position = _read_join_group_request_protocol(buffer, position, end)
        protocols_list.append(protocols_item)
    protocols = tuple(protocols_list)
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout=timedelta(0, 0, 0, session_timeout),
        rebalance_timeout=rebalance_timeout,
        member_id=member_id,
        group_instance_id=group_instance_id,
        protocol_type=protocol_type,
        protocols=protocols,
    ), position


def _read_join_group_request_protocol_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[JoinGroupRequestProtocol, int]:
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("name is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    name = buffer[start:position].decode()
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("metadata is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    metadata = buffer[start:position]
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return JoinGroupRequestProtocol(name=name, metadata=metadata), position


def _read_request_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[JoinGroupRequest, int]:
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
    session_timeout, rebalance_timeout = _unpack_ii(buffer, position)
    position += 8
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
        raise PeerError("protocols is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    protocols_list: list[JoinGroupRequestProtocol] = []
    for _ in range(size):
        protocols_item, position = _read_join_group_request_protocol_flexible(buffer, position, end)
        protocols_list.append(protocols_item)
    protocols = tuple(protocols_list)
    reason: str | None = None
    if version >= 8:
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
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout=timedelta(0, 0, 0, session_timeout),
        rebalance_timeout=timedelta(0, 0, 0, rebalance_timeout),
        member_id=member_id,
        group_instance_id=group_instance_id,
        protocol_type=protocol_type,
        protocols=protocols,
        reason=reason,
    ), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[JoinGroupRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 6:
        return _read_request_flexible(buffer, position, end, version)
    return _read_request_legacy(buffer, position, end, version)


def _write_join_group_response_member(
    out: bytearray, message: JoinGroupResponseMember, version: int
) -> None:
    encoded = message.member_id.encode()
    out += _pack_h(len(encoded))
    out += encoded
    if version >= 5:
        if message.group_instance_id is None:
            out += NULL_STRING
        else:
            encoded = message.group_instance_id.encode()
            out += _pack_h(len(encoded))
            out += encoded
    out += _pack_i(len(message.metadata))
    out += message.metadata


def _write_response_legacy(out: bytearray, message: JoinGroupResponse, version: int) -> None:
    if version >= 2:
        out += _pack_ihi(
            message.throttle_time // MILLISECOND, message.error_code, message.generation_id
        )
    else:
        out += _pack_hi(message.error_code, message.generation_id)
    if message.protocol_name is None:
        out += EMPTY_STRING
    else:
        encoded = message.protocol_name.encode()
        out += _pack_h(len(encoded))
        out += encoded
    encoded = message.leader.encode()
    out += _pack_h(len(encoded))
    out += encoded
    encoded = message.member_id.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_i(len(message.members))
    for members_item in message.members:
        _write_join_group_response_member(out, members_item, version)


def _write_join_group_response_member_flexible(
    out: bytearray, message: JoinGroupResponseMember
) -> None:
    encoded = message.member_id.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    if message.group_instance_id is None:
        out += NULL_COMPACT
    else:
        encoded = message.group_instance_id.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += varint(len(message.metadata) + 1)
    out += message.metadata
    out += NO_TAGS


def _write_response_flexible(out: bytearray, message: JoinGroupResponse, version: int) -> None:
    out += _pack_ihi(
        message.throttle_time // MILLISECOND, message.error_code, message.generation_id
    )
    if version >= 7:
        if message.protocol_type is None:
            out += NULL_COMPACT
        else:
            encoded = message.protocol_type.encode()
            out += varint(len(encoded) + 1)
            out += encoded
    if message.protocol_name is None:
        out += NULL_COMPACT if version >= 7 else EMPTY_COMPACT
    else:
        encoded = message.protocol_name.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    encoded = message.leader.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    if version >= 9:
        out += _pack_o(message.skip_assignment)
    encoded = message.member_id.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += varint(len(message.members) + 1)
    for members_item in message.members:
        _write_join_group_response_member_flexible(out, members_item)
    out += NO_TAGS


def write_response(out: bytearray, message: JoinGroupResponse, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 6:
        _write_response_flexible(out, message, version)
    else:
        _write_response_legacy(out, message, version)
