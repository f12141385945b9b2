"""CreateDelegationToken messages, versions 1 to 3.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from struct import Struct

from cluster.model.error_codes import ErrorCode
from cluster.model.errors import PeerError
from cluster.protocol.reader import ELEMENTS_MAX, read_length, skip_tags, too_many, truncated
from cluster.protocol.writer import MILLISECOND, NO_TAGS, timestamp_of, varint

_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_qqq = Struct(">qqq").pack
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_q = Struct(">q").unpack_from


@dataclass(slots=True, kw_only=True)
class CreatableRenewers:
    """Part of CreateDelegationToken."""

    principal_type: str
    principal_name: str


@dataclass(slots=True, kw_only=True)
class CreateDelegationTokenRequest:
    """CreateDelegationToken request, versions 1-3."""

    owner_principal_type: str | None
    owner_principal_name: str | None
    renewers: tuple[CreatableRenewers, ...]
    max_lifetime: timedelta


@dataclass(slots=True, kw_only=True)
class CreateDelegationTokenResponse:
    """CreateDelegationToken response, versions 1-3."""

    error_code: ErrorCode
    principal_type: str
    principal_name: str
    token_requester_principal_type: str
    token_requester_principal_name: str
    issue_timestamp: datetime | None
    expiry_timestamp: datetime | None
    max_timestamp: datetime | None
    token_id: str
    hmac: bytes
    throttle_time: timedelta


def _read_creatable_renewers(
    buffer: bytes, position: int, end: int
) -> tuple[CreatableRenewers, int]:
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("principal_type is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    principal_type = buffer[start:position].decode()
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("principal_name is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    principal_name = buffer[start:position].decode()
    return CreatableRenewers(principal_type=principal_type, principal_name=principal_name), position


def _read_request_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[CreateDelegationTokenRequest, int]:
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("renewers is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    renewers_list: list[CreatableRenewers] = []
    for _ in range(size):
        renewers_item, position = _read_creatable_renewers(buffer, position, end)
        renewers_list.append(renewers_item)
    renewers = tuple(renewers_list)
    (max_lifetime,) = _unpack_q(buffer, position)
    position += 8
    return CreateDelegationTokenRequest(
        owner_principal_type="",
        owner_principal_name="",
        renewers=renewers,
        max_lifetime=timedelta(0, 0, 0, max_lifetime),
    ), position


def _read_creatable_renewers_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[CreatableRenewers, int]:
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("principal_type is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    principal_type = buffer[start:position].decode()
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("principal_name is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    principal_name = buffer[start:position].decode()
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return CreatableRenewers(principal_type=principal_type, principal_name=principal_name), position


def _read_request_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[CreateDelegationTokenRequest, int]:
    owner_principal_type: str | None = ""
    if version >= 3:
        size = buffer[position] - 1
        position += 1
        if size > 126:
            size, position = read_length(buffer, position - 1)
        if size >= 0:
            start = position
            position += size
            if position > end:
                raise truncated()
            owner_principal_type = buffer[start:position].decode()
        else:
            owner_principal_type = None
    owner_principal_name: str | None = ""
    if version >= 3:
        size = buffer[position] - 1
        position += 1
        if size > 126:
            size, position = read_length(buffer, position - 1)
        if size >= 0:
            start = position
            position += size
            if position > end:
                raise truncated()
            owner_principal_name = buffer[start:position].decode()
        else:
            owner_principal_name = None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("renewers is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    renewers_list: list[CreatableRenewers] = []
    for _ in range(size):
        renewers_item, position = _read_creatable_renewers_flexible(buffer, position, end)
        renewers_list.append(renewers_item)
    renewers = tuple(renewers_list)
    (max_lifetime,) = _unpack_q(buffer, position)
    position += 8
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return CreateDelegationTokenRequest(
        owner_principal_type=owner_principal_type,
        owner_principal_name=owner_principal_name,
        renewers=renewers,
        max_lifetime=timedelta(0, 0, 0, max_lifetime),
    ), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[CreateDelegationTokenRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 2:
        return _read_request_flexible(buffer, position, end, version)
    return _read_request_legacy(buffer, position, end, version)


def _write_response_legacy(
    out: bytearray, message: CreateDelegationTokenResponse, version: int
) -> None:
    out += _pack_h(message.error_code)
    encoded = message.principal_type.encode()
    out += _pack_h(len(encoded))
    out += encoded
    encoded = message.principal_name.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_qqq(
        timestamp_of(message.issue_timestamp),
        timestamp_of(message.expiry_timestamp),
        timestamp_of(message.max_timestamp),
    )
    encoded = message.token_id.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_i(len(message.hmac))
    out += message.hmac
    out += _pack_i(message.throttle_time // MILLISECOND)


def _write_response_flexible(
    out: bytearray, message: CreateDelegationTokenResponse, version: int
) -> None:
    out += _pack_h(message.error_code)
    encoded = message.principal_type.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    encoded = message.principal_name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    if version >= 3:
        encoded = message.token_requester_principal_type.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    if version >= 3:
        encoded = message.token_requester_principal_name.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += _pack_qqq(
        timestamp_of(message.issue_timestamp),
        timestamp_of(message.expiry_timestamp),
        timestamp_of(message.max_timestamp),
    )
    encoded = message.token_id.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += varint(len(message.hmac) + 1)
    out += message.hmac
    out += _pack_i(message.throttle_time // MILLISECOND)
    out += NO_TAGS


def write_response(out: bytearray, message: CreateDelegationTokenResponse, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 2:
        _write_response_flexible(out, message, version)
    else:
        _write_response_legacy(out, message, version)
